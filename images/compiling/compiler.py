"""Where the base's Python compiles: directly, unpacked here, where Debian has signed it all, else in an engine."""

from __future__ import annotations

import functools
import os
import posixpath
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from images.base.base import Base, Site
from images.base.inspect import debian_site
from images.context import Context
from images.debian import packages
from images.debian.deb import Deb, load_package
from images.debian.packages import python_packages
from images.deliver import engine as engines
from images.deliver.engine import Engine
from images.dpkg.tree import FILE, LINK, PackageTree
from images.host import process
from images.host.errors import WorldFault
from images.lock.lock import Lock
from images.oci import image as oci
from images.oci.image import Image
from images.oci.manifest import digest_of
from images.plan.plan import Plan
from images.platforms import TWIN, Platform
from images.store.store import Store, key_of

PACKAGES = ("site-packages", "dist-packages", "__pycache__")  # of no use to an interpreter that only compiles


@dataclass(frozen=True)
class Packaged:
    """Debian's Python of a release (3.X): the packages that it is in, and what bytecode of it depends on."""

    platform: Platform
    release: str
    debs: tuple[Path, ...]
    identity: str

    @property
    def path(self) -> str:
        """Return its place, relative to the root."""
        return f"usr/bin/python{self.release}"


def choose_interpreter(store: Store, debs: Sequence[Deb], platform: Platform, release: str) -> Packaged:
    """Return the Python in some packages: it is the same in the base that is made of them.

    Raises WorldFault when one is missing.
    """
    names = python_packages(release)
    packages = {deb.package: deb for deb in sorted(debs) if deb.package in names}
    if lacking := [name for name in names if name not in packages]:
        raise WorldFault("packages of Debian's Python are missing", ", ".join(lacking), "make a new lock")
    identity = key_of([str(platform), release, [(deb.package, deb.sha256) for deb in packages.values()]])
    return Packaged(
        platform, release, tuple(store.place(deb.sha256, deb.filename) for deb in packages.values()), identity
    )


def unpack(store: Store, source: Packaged) -> Path:
    """Unpack an interpreter once and return its root directory; any user may, because owners are not kept.

    Raises WorldFault for packages that do not go together.
    """
    root = store.tree([source.identity, source.path])
    if not root.is_dir():
        with store.temporary(directory=True) as aside:
            _fill(aside / "root", source)
            root.parent.mkdir(exist_ok=True)
            try:
                (aside / "root").rename(root)
            except OSError:
                if not root.is_dir():  # another build may have been first
                    raise
    return root


def remove(store: Store, root: Path) -> None:
    """Remove an interpreter that fails, as one does of which a power cut left empty files: it is unpacked anew then."""
    with store.temporary(directory=True) as aside, suppress(FileNotFoundError):  # another build may have been first
        root.rename(aside / "damaged")


def interpreter_command(root: Path, source: Packaged) -> list[str]:
    """Say how one is started in its root directory, without root and without entering it: through its own loader.

    The loader takes libraries from places relative to it: its list of them has no way to write a colon of a path.
    """
    there = [place for place in source.platform.libraries if (root / place).is_dir()]
    name = posixpath.basename(source.platform.loader)
    loaders = [str(root / place / name) for place in there if (root / place / name).is_file()]
    return [*loaders[:1], "--library-path", ":".join(there), str(root / source.path)]


def _fill(root: Path, source: Packaged) -> None:
    """Write what packages have of an interpreter; all directories above a file are real ones in a complete tree."""
    tree = PackageTree()
    for deb in source.debs:
        tree.unpack(load_package(deb))
    tree.complete()
    for path, entry in tree.entries.items():
        if entry.kind not in (FILE, LINK) or not _is_needed(path, source.platform):
            continue
        place, target = root / path, tree.real(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == FILE:
            place.write_bytes(entry.data)
            place.chmod(0o755 if entry.mode & 0o111 else 0o644)
        elif target in tree.entries:
            place.symlink_to(os.path.relpath(target, posixpath.dirname(path)))


def _is_needed(path: str, platform: Platform) -> bool:
    """Return whether a file may be of an interpreter, by the names in its path."""
    directory, name = posixpath.split(path)
    is_library = ".so" in name and directory in platform.libraries
    return (is_library or "python3" in path) and not any(part in PACKAGES for part in path.split("/"))


# Where the base's Python compiles: directly where Debian has signed all that it is made of, else in an engine.
#
# A machine that cannot start that of the image starts the same release of Debian for TWIN, which gives the same bytes:
# marshal knows of a machine only the order of bytes, and the numbers of 64 bits that it writes are the same on all
# PLATFORMS. `tests/integration/test_twin.py` holds that for every module of an image.

WITHOUT = "--no-bytecode, without --lock"
REMOVE_TREES = "remove the store's directory `trees` and build again; on a noexec disk, set XDG_CACHE_HOME"
FOREIGN, UNSIGNED = "this machine cannot start it", "what it is made of is not signed by Debian"
SECONDS = 5  # for an engine to answer
CREATED = "2024-01-01T00:00:00Z"
SEED = {"PYTHONHASHSEED": "0"}  # heeded by Python before 3.11, which is started without -I

# Run Python with arguments and a last one, the file to read (empty: standard input), into a file; None: it went well,
# else what it said.
Run = Callable[[Sequence[str], Path, Path], "str | None"]


@dataclass(frozen=True)
class Compiler:
    """A base's Python that is ready to compile.

    `identity` is what its bytecode depends on, beside the modules: everything that can run while it compiles.
    """

    site: Site
    identity: str
    run: Run


@dataclass(frozen=True)
class Choice:
    """Whose Python compiles: that of the base in an `engine`; without one Debian's, which needs no base to be there."""

    engine: Engine | None


def require_compiler(planned: Plan, context: Context) -> None:
    """Raise WorldFault where nothing can run the Python of a plan's base, before anything is downloaded."""
    if planned.bytecode and context.compiles:
        starts = () if planned.is_on_pulled else (planned.platform, TWIN)
        if context.native not in starts:
            _engine(planned.base, FOREIGN if starts else UNSIGNED, context)


def choose_compiler(lock: Lock, context: Context) -> Choice | None:
    """Choose how the modules of a lock are compiled; None where they are not.

    Raises WorldFault where nothing here can run the Python of its base.
    """
    if not (lock.bytecode and context.compiles):
        return None
    debs, platform = _packages(lock, context)
    if context.native != platform:
        return Choice(_engine(lock.base, FOREIGN, context))
    if lock.is_on_pulled or packages.list_unsigned(lock.debian.suite, debs, platform, context):
        return Choice(_engine(lock.base, UNSIGNED, context))
    return Choice(None)


def prepare_compiler(choice: Choice, lock: Lock, base: Base, context: Context) -> Compiler:
    """Return the Python that was chosen, ready to compile for a base."""
    if choice.engine is None:
        return unpack_debian(lock, context)
    return load_base(choice.engine, lock.platform, base, context.store)


def _engine(base: str, refusal: str, context: Context) -> Engine:
    """Return an engine, for a Python that may not run as it is."""
    search = engines.find_engine(context.environ, SECONDS)
    if search.engine is None:
        fact = "nothing here may run the Python of the base, which compiles"
        raise WorldFault(fact, f"{base} ({refusal}; {search.why})", f"{search.remedy}, or {WITHOUT}")
    return search.engine


def _packages(lock: Lock, context: Context) -> tuple[Sequence[Deb], Platform]:
    """Return the packages of Debian whose Python compiles here: those of the base, or its twin."""
    if lock.twin and context.native == TWIN:
        return lock.twin, TWIN
    return lock.debian.debs, lock.platform


def unpack_debian(lock: Lock, context: Context) -> Compiler:
    """Unpack Debian's Python, which runs through its own loader, without root and outside of its root file system."""
    store = context.store
    source = choose_interpreter(store, *_packages(lock, context), lock.python)
    root = unpack(store, source)

    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        command = [*interpreter_command(root, source), *arguments, ""]
        with given.open("rb") as feed, out.open("wb") as written:
            failure = process.run(command, SEED, REMOVE_TREES, feed, out=written, cwd=root).failure
        if failure:
            remove(store, root)
        return failure

    return Compiler(debian_site(lock.python), source.identity, run)


def load_base(engine: Engine, platform: Platform, base: Base, store: Store) -> Compiler:
    """Load the base into the engine, where it stays: its layers are those of the image.

    Any file of a base may be code that runs when its Python starts, so that what it writes is kept for this base alone.
    """
    settings = {"User": "65534:65534", "Env": [f"{name}={value}" for name, value in SEED.items()]}
    config = oci.write_config(base.layers, platform, settings, CREATED, base.history)
    digest = digest_of(config)
    image = Image((f"multinode-base:{digest.removeprefix('sha256:')}",), config, b"", base.layers)
    alone, load = threading.Lock(), functools.cache(partial(engine.load, image, store))

    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        with alone:
            load()
        return engine.run(image, [f"/{base.interpreter}", *arguments], given, out)

    return Compiler(base.site, key_of([digest, base.interpreter]), run)
