"""The last look: every top-level package is imported once in the finished image."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from docker.errors import ContainerError, DockerException

from images import process
from images.errors import WorldFault
from images.oci import Image
from images.ship import Engine
from images.store import Store, key_of

# Not importable by itself, or only on other systems: module, reason.
SKIPPED = {
    "colorama": "for Windows",
    "pip": "a command",
    "setuptools": "a build tool; importing it patches distutils",
    "pkg_resources": "part of setuptools",
    "_distutils_hack": "part of setuptools",
    "distutils-precedence": "part of setuptools",
}
SCRIPT = """
import importlib, sys, warnings
warnings.simplefilter("ignore")
failed = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed.append(f"{name} ({type(error).__name__}: {error})")
print("; ".join(failed), file=sys.stderr)
sys.exit(bool(failed))
"""


def modules(wheels: Iterable[Path]) -> list[str]:
    """Name the top-level modules of wheels, from the paths in their RECORD."""
    found = set()
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            name = next(n for n in archive.namelist() if n.endswith(".dist-info/RECORD") and n.count("/") == 1)
            rows = csv.reader(io.TextIOWrapper(archive.open(name), "utf-8"))
            found |= {module for row in rows if row and (module := _module(row[0]))}
    return sorted(found - SKIPPED.keys())


def _module(path: str) -> str | None:
    """Answer the module of a path in a wheel if it is at the top: `name/__init__.py`, `name.py` or an extension."""
    head, _, rest = path.partition("/")
    if rest == "__init__.py" and head.isidentifier():
        return head
    stem = head.partition(".")[0]
    if not rest and head.endswith((".py", ".so")) and stem.isidentifier():
        return stem
    return None


def imports(engine: Engine, image: Image, names: Sequence[str], store: Store, environ: Mapping[str, str]) -> bool:
    """Import `names` in a container of the image; answer False if that was done before.

    Raises WorldFault that names every module that cannot be imported.
    """
    key = key_of([[part.written.diff_id for part in image.parts[:-1]], sorted(names)])  # the last layer is our own
    if store.record("looks", key):
        return False
    said = _run(engine, image, ["python3", "-c", SCRIPT, *names], environ)
    if said is not None:
        remedy = "another --transformers; the image stays loaded for a look at it"
        raise WorldFault("modules of the image cannot be imported", said, remedy)
    store.write_record("looks", key, sorted(names))
    return True


def _run(engine: Engine, image: Image, command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Run a command without network; answer None if it went well, else what it said."""
    if engine.client is None:
        start = ["podman", "run", "--rm", "--network", "none", "--entrypoint", command[0], image.tag]
        done = process.run([*start, *command[1:]], environ, "apt-get install podman")
        return (done.err.strip().splitlines() or ["?"])[-1] if done.code else None
    try:
        engine.client.containers.run(
            image.id, list(command[1:]), entrypoint=command[0], network_mode="none", remove=True, stderr=True
        )
    except ContainerError as error:
        said = error.stderr or b"?"
        return (said if isinstance(said, str) else said.decode(errors="replace")).strip().splitlines()[-1]
    except (DockerException, OSError) as error:
        raise WorldFault("the engine could not start the image", str(error)[:300], "docker run it by hand") from error
    return None
