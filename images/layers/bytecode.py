"""Bytecode of a wheel's modules, made by the base's own interpreter, once per wheel and interpreter."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from images.base.base import Base
from images.host import process
from images.host.errors import Damaged, WorldFault
from images.host.store import Store, sha256
from images.layers import interpreter, trim
from images.oci.layer import EPOCH

WORKER = Path(__file__).parent / "programs" / "compile_wheel.py"


LOADER = "ld-linux-x86-64.so.2"


@dataclass(frozen=True)
class Interpreter:
    """The Python of a base, unpacked: the root directory, the base itself, and further directories of libraries."""

    root: Path
    base: Base
    beside: tuple[Path, ...] = ()

    @property
    def command(self) -> list[str]:
        """Say how it is started without root and without entering its root file system: through its own loader."""
        directories = [self.root / directory for directory in interpreter.libraries(self.base.interpreter)]
        there = [str(directory) for directory in dict.fromkeys((*directories, *self.beside)) if directory.is_dir()]
        loaders = [f"{directory}/{LOADER}" for directory in there if Path(directory, LOADER).is_file()]
        start = [*loaders[:1], "--library-path", ":".join(there), str(self.root / self.base.interpreter)]
        return [*start, "-I", "-S", "-B"]

    @property
    def environment(self) -> dict[str, str]:
        """Say which variables it needs."""
        return {"PYTHONHOME": str(self.root / posixpath.dirname(posixpath.dirname(self.base.interpreter)))}


def unpacked(store: Store, base: Base) -> Interpreter:
    """Unpack the Python of a base, once."""
    return Interpreter(interpreter.unpack(store, base), base)


def make(store: Store, wheels: Sequence[tuple[str, str, Path]], python: Interpreter) -> dict[str, str]:
    """Compile wheels given as (project, sha256, path); answer sha256 of the wheel -> sha256 of its bytecode.

    Modules that this Python cannot compile (templates, other languages' dialects) are left out, as pip does.
    Raises WorldFault when the interpreter itself fails.
    """
    made = {}
    for project, digest, path in wheels:
        row = trim.pattern(project)
        left_out = row.pattern if row else "(?!)"

        def compile_(path: Path = path, left_out: str = left_out) -> str:
            return _compile(store, path, python, left_out)

        inputs = [digest, python.base.identity, left_out]
        made[digest] = str(
            store.cached("bytecode", inputs, compile_, lambda known: store.blob(known) is not None).value
        )
    return made


def _compile(store: Store, wheel: Path, python: Interpreter, left_out: str) -> str:
    site = f"/{python.base.site.directory}"
    with store.aside() as out:
        command = [*python.command, str(WORKER), str(wheel), str(out), site, str(EPOCH), left_out]
        done = process.run(command, python.environment, "remove the store's directory `trees` and build again")
        if done.code:
            said = (done.err.strip().splitlines() or [f"exit code {done.code}"])[-1]
            remedy = "remove the store's directory `trees` and build again, or build with --no-bytecode"
            raise WorldFault("cannot compile the modules of a wheel", f"{wheel.name}: {said}", remedy)
        digest = sha256(out)
        store.keep(out, digest)
    return digest


def read(store: Store, digest: str) -> Mapping[str, bytes]:
    """Read what was compiled: path of the module in site -> bytecode."""
    path = store.whole(digest, "blob")
    if path is None:
        raise Damaged(store.place(digest))
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
