"""The layers above all packages: the entrypoint, what it and pip read of the image, the user, the user's own files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from images.base.base import Base, Site
from images.compiling import bytecode
from images.compiling.compiler import Compiler
from images.host.errors import WorldFault
from images.layers import oneccl
from images.layers.examples import PLACE
from images.lock.lock import BINDINGS, IPEX, Lock
from images.oci.layer import Directories
from images.oci.layer_writer import LayerWriter
from images.plan import packages
from images.plan.user_files import USER_FILE, WORKSPACE, UserFile
from images.store.blobs import copied, read_chunks
from images.store.store import Store

# What training works with. Another release of one of these, or of what it requires, is a pair that nobody has tested.
ROOTS = ("torch", "transformers", "accelerate", BINDINGS, IPEX)
BY_MAJOR = ("numpy",)  # its extensions work with every release of the same major version (NumPy, "NEP 53")


def format_constraints(lock: Lock, requires: Mapping[str, Sequence[str]]) -> str:
    """Return the file: a line for each package that is held.

    `requires` maps a project to the Requires-Dist of its wheel. What a base has itself has no wheel, and is held as it
    is.
    """
    held = _closure(requires, lock) | ({*lock.base_image.kept} if lock.base_image else set())
    versions = {artifact.name: artifact.version for artifact in lock.artifacts if artifact.name in held}
    pins = {name: f"{Version(version).major}.*" if name in BY_MAJOR else version for name, version in versions.items()}
    return "".join(f"{name}=={version}\n" for name, version in pins.items())


def _closure(requires: Mapping[str, Sequence[str]], lock: Lock) -> set[str]:
    """Return ROOTS, and all that they require in this image, and that in turn."""
    closure: set[tuple[str, str]] = set()
    ahead = [(name, "") for name in ROOTS]
    while ahead:
        project, extra = ahead.pop()
        if (project, extra) not in closure:
            closure.add((project, extra))
            for line in requires.get(project, ()):
                ahead += _required(line, extra, lock)
    return {project for project, _ in closure}


def _required(line: str, extra: str, lock: Lock) -> Iterator[tuple[str, str]]:
    """Yield what a line requires, for each extra and for none; one that cannot be read as a requirement counts."""
    try:
        requirement = Requirement(line)
    except (InvalidRequirement, RecursionError):
        if name := re.match(r"[A-Za-z0-9][\w.-]*", line, re.ASCII):
            yield canonicalize_name(name[0]), ""
        return
    if packages.applies(requirement, lock.python, lock.platform, extra):
        yield from ((canonicalize_name(requirement.name), part) for part in ("", *requirement.extras))


HERE = Path(__file__).parents[1]
NAME = "multinode"  # of the layer
MULTINODE = "opt/multinode"
# What Pythons find our package in, and nothing else: it is on the path of each of them.
PACKAGE = f"{MULTINODE}/lib"
# The file with the SBOM. A scanner takes what is called one for packages that are installed, also in images that have
# others by now: Trivy *.cdx.json and three more (aquasecurity/trivy, pkg/fanal/analyzer/sbom/sbom.go), Syft these and
# *.sbom.*, *.bom.* and others (anchore/syft, syft/pkg/cataloger/sbom/cataloger.go).
SBOM = "components.json"
# The files of the entrypoint, and those of rootfs/.
MODULE = re.compile(r"(?:\w+/)*\w+\.py", re.ASCII)
FILE = re.compile(r"(?:\w+(?:\.d)?/)*\w+(?:\.py|\.conf)?", re.ASCII)
# With a * in place of the password nobody asks /etc/shadow, where no base has a row for it; su(1) does, and fails.
UID, GID = 1000, 0  # of the user that an image starts with
USER = f"multinode:*:{UID}:{GID}:multinode:/home/multinode:/bin/bash"

# Read by every Python of the image when it starts (site, .pth), and does nothing but in a training that the entrypoint
# has started, and in the ranks of any launcher. The first line is where Pythons look for our package, last of all.
# Packages may be read where that is not, as in an image that copied them.
AT_START = Template((HERE / "layers/at_start.pth").read_text()).substitute(directory=f"/{PACKAGE}")

# Writable for the group of every uid that a container may run under: 0, as on OpenShift.
DIRECTORIES = ("home/multinode", "workspace", "workspace/output", "workspace/.cache", "workspace/.cache/huggingface")
WRITABLE = 0o775  # their mode


def stack(lock: Lock, base: Base) -> dict[str, Any]:
    """Say what the entrypoint must know of the image it is in."""
    return {
        "torch": lock.version("torch"),
        "transformers": lock.version("transformers"),
        "python": lock.python,
        "backend": lock.backend,
        "examples": f"/{PLACE}" if lock.examples else None,
        "site": f"/{base.site.directory}",
        **({"environment": more} if (more := oneccl.environment(lock, base)) else {}),
    }


def read_entrypoint(site: Site) -> dict[str, bytes]:
    """Read the entrypoint and the files of rootfs/, as path in the image -> bytes; with what site's Python reads."""
    return {
        f"{site.directory}/multinode.pth": AT_START.encode(),
        **_read_below(HERE.parent / "multinode_image", f"{PACKAGE}/multinode_image/", MODULE.fullmatch),
        **_read_below(HERE / "rootfs", "", FILE.fullmatch),
    }


def _read_below(directory: Path, place: str, is_ours: Callable[[str], object]) -> dict[str, bytes]:
    """Read the files below a directory whose paths are such as ours: editors and systems leave others beside them."""
    paths = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*")}
    return {place + p: path.read_bytes() for p, path in paths.items() if is_ours(p) and path.is_file()}


def compile_entrypoint(store: Store, sources: Mapping[str, bytes], compiler: Compiler) -> dict[str, bytes]:
    """Compile the entrypoint with the base's own interpreter, once: it starts in every container."""
    start = f"{MULTINODE}/"
    modules = {path.removeprefix(start): data for path, data in sources.items() if path.startswith(start)}
    [digest] = bytecode.compile_jobs(store, [bytecode.files_job("the entrypoint", MULTINODE, modules)], compiler)
    python = compiler.site.python
    return {
        bytecode.bytecode_path(start + name, python): data
        for name, data in bytecode.read_bytecode(store, digest).items()
    }


def with_user(passwd: str) -> str | None:
    """Add our user to /etc/passwd; None where the uid or the name is somebody's already (passwd(5))."""
    rows = [line.split(":") for line in passwd.splitlines()]
    name, _, uid = USER.split(":")[:3]
    if any(row[0] == name or row[2:3] == [uid] for row in rows):
        return None
    return "".join(f"{line}\n" for line in [*passwd.rstrip("\n").splitlines(), USER])


def write_entrypoint(
    layer: LayerWriter, sources: Mapping[str, bytes], pyc: Mapping[str, bytes], texts: Mapping[str, str], base: Base
) -> None:
    """Write the directories of a run, the user, the entrypoint with its bytecode, and `texts` below /opt/multinode."""
    for path in DIRECTORIES:
        layer.directory(path, WRITABLE, UID, GID)
    layer.directory("run/sshd", 0o755, 0, 0)  # without it sshd does not start as root, as in an MPIJob
    if passwd := with_user(base.facts.passwd):
        layer.file("etc/passwd", passwd.encode())
    for path, data in sorted({**sources, **pyc}.items()):
        layer.file(path, data, 0o755 if data.startswith(b"#!") else 0o644)
    for name, text in sorted(texts.items()):
        layer.file(f"{MULTINODE}/{name}", text.encode())
    for path, target in sorted(base.links.items()):
        layer.link(path, target)


# The layer of the user's own files: kept in the store as they were read, and written into the working directory.

USER_FILES = "your files"  # of the layer, the last one


def keep_user_files(files: Mapping[UserFile, Path], store: Store) -> None:
    """Bring files into the store; raise WorldFault for one that has changed since it was read."""
    for row, place in files.items():
        if row.sha256 is None or store.verified(row.sha256, USER_FILE):
            continue
        with store.temporary() as aside:
            with place.open("rb") as source, aside.open("wb") as file:
                got, _ = copied(read_chunks(source), file.write)
            if got != row.sha256:
                raise WorldFault("a file of your own changed while it was read", place, "run it again")
            store.keep(aside, got, USER_FILE)


def directories_below(base: Directories) -> Directories:
    """Return the directories that exist below this layer: those of the base and of the layers between."""
    return replace(base, owners={**base.owners, **dict.fromkeys(DIRECTORIES, (WRITABLE, UID, GID))})


def write_user_files(layer: LayerWriter, files: Iterable[UserFile], store: Store) -> None:
    """Fill the layer: files are root's, to be read by everybody, as COPY leaves them."""
    for row in files:
        path = f"{WORKSPACE}/{row.path}"
        if row.target is not None:
            layer.link(path, row.target)
        elif row.sha256 is not None:
            place, mode = store.whole(row.sha256, USER_FILE), 0o755 if row.executable else 0o644
            with place.open("rb") as file:
                layer.stream(path, read_chunks(file), row.sha256, place.stat().st_size, mode)
