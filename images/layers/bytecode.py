"""Bytecode of a wheel's modules, made by the base's own interpreter, once per wheel and interpreter."""

from __future__ import annotations

import posixpath
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from images.foreign.sandbox import Given, Sandbox
from images.host import process
from images.host.disk.faults import ELSEWHERE, require_programs
from images.host.errors import Damaged, WorldFault
from images.host.store import Store, sha256
from images.layers import interpreter, trim
from images.layers.interpreter import PythonSource
from images.model import PLATFORM
from images.oci.layer import EPOCH
from images.wheels.archive import require_whole

WORKER = Path(__file__).parent / "programs" / "compile_wheel.py"
# Before this release marshal writes a set in the order of hashes: they need a seed, which -I would ignore.
SORTED = (3, 11)
SETTLED = WORKER.with_name("compile_settled.py")
ALONE = ("-I", "-S", "-B")
OWN = """
import importlib._bootstrap_external, py_compile, re, sys, warnings, zipfile
for module in list(sys.modules.values()):
    if (getattr(module, "__file__", None) or "").endswith(".py"):
        py_compile.compile(module.__file__, doraise=True)
"""
REMOVE_TREES = "remove the store's directory `trees` and build again"
REMEDY = f"{REMOVE_TREES}, or build with --no-bytecode"
WITHOUT = "--no-bytecode, without --lock"
UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError,
)  # fmt: skip


@dataclass(frozen=True)
class Interpreter:
    """The Python of a base, unpacked: the root directory, where it is from, and further directories of libraries.

    `sandbox` is None for the one base whose programs may run without: Debian's own packages.
    """

    root: Path
    source: PythonSource
    sandbox: Sandbox | None
    beside: tuple[Path, ...] = ()

    @property
    def command(self) -> list[str]:
        """Say how it is started without root and without entering its root file system: through its own loader."""
        directories = [self.root / directory for directory in interpreter.libraries(self.source.path)]
        there = [str(directory) for directory in dict.fromkeys((*directories, *self.beside)) if directory.is_dir()]
        loaders = [
            f"{directory}/{PLATFORM.loader}" for directory in there if Path(directory, PLATFORM.loader).is_file()
        ]
        return [*loaders[:1], "--library-path", ":".join(there), str(self.root / self.source.path)]

    def run(self, arguments: Sequence[str], given: Given, remedy: str) -> process.Result:
        """Run it to its end, with nothing but its own files and what it is `given`.

        Raises WorldFault where the disk of the store lets no program start.
        """
        require_programs(self.root, "the store", f"{ELSEWHERE} where they can, or {WITHOUT}")
        command = [*self.command, *arguments]
        if self.sandbox is None:
            return process.run(command, given.environment, remedy)
        return self.sandbox.run(command, Given(given.environment, (self.root, *given.reads), given.writes), remedy)


def unpacked(store: Store, source: PythonSource, found: Sandbox, *, trusted: bool) -> Interpreter:
    """Unpack the Python of a base, once; a `trusted` one also runs where there is no sandbox.

    Raises WorldFault for another one there.
    """
    if found.refusal is not None and not trusted:
        refuse(found, source.name)
    sandbox = None if found.refusal else found

    def ready(root: Path) -> None:
        if source.packaged:
            _compile_own(Interpreter(root, source, sandbox))

    return Interpreter(interpreter.unpack(store, source, ready), source, sandbox)


def _compile_own(python: Interpreter) -> None:
    """Compile the modules that WORKER imports, as a package does when it is installed: else each wheel takes longer.

    Raises WorldFault when the interpreter fails.
    """
    home = python.root / "usr/lib" / posixpath.basename(python.source.path)
    done = python.run([*ALONE, "-c", OWN], Given({}, (), (home,)), REMOVE_TREES)
    if done.code:
        raise WorldFault("the Python of the base does not run", f"{python.source.name}: {done.failure}", REMEDY)


def refuse(found: Sandbox, base: str | None) -> None:
    """Raise WorldFault: there is no sandbox, and the Python of this base does not run without."""
    value = f"{base or 'the base'} ({found.refusal})"
    fact = "the Python of a base image compiles in a sandbox only, and there is none here"
    raise WorldFault(fact, value, f"{found.remedy}, or {WITHOUT}")


def make(
    store: Store, wheels: Sequence[tuple[str, str, Path]], python: Interpreter, *, trimmed: bool
) -> dict[str, str]:
    """Compile wheels given as (project, sha256, path); return sha256 of the wheel -> sha256 of its bytecode.

    Modules that this Python cannot compile (templates, other languages' dialects) are left out, as pip does, and those
    that no task imports, where the image is to be `trimmed`.
    Raises WorldFault when the interpreter itself fails.
    """
    made = {}
    for project, digest, path in wheels:
        process.end_if_stopped()
        left_out = trim.uncompiled(project, trimmed=trimmed)

        def compile_(path: Path = path, left_out: str = left_out) -> str:
            return _compile(store, path, python.source.site.directory, python, left_out)

        inputs = [digest, python.source.identity, left_out]
        made[digest] = str(store.cached("bytecode", inputs, compile_, store.has).value)
    return made


def of_base(store: Store, digest: str, modules: Path, python: Interpreter) -> str:
    """Compile the modules of a base, which are in an archive by their paths; return the sha256 of the bytecode.

    Raises WorldFault when the interpreter itself fails.
    """
    inputs = [digest, python.source.identity, "own"]
    made = store.cached("bytecode", inputs, lambda: _compile(store, modules, "", python, "(?!)"), store.has)
    return str(made.value)


def place_of(module: str, python: str) -> str:
    """Return where the bytecode of a module lies (PEP 3147), for Python `python` (3.X)."""
    directory, _, name = module.rpartition("/")
    return f"{directory}/__pycache__/{name.removesuffix('.py')}.cpython-{python.replace('.', '')}.pyc"


def _compile(store: Store, wheel: Path, site: str, python: Interpreter, left_out: str) -> str:
    with store.aside(directory=True) as place:
        out = place / "bytecode.zip"
        done = compile_to(out, wheel, site, python, left_out)
        if done.code:
            require_whole(wheel)  # else it is not the interpreter's fault
            raise WorldFault("cannot compile the modules of a wheel", f"{wheel.name}: {done.failure}", REMEDY)
        return keep(store, out, wheel.name)


def keep(store: Store, compiled: Path, name: str) -> str:
    """Move what a base's Python wrote into the store; return its sha256.

    Raises WorldFault when it is no bytecode of the archive `name`.
    """
    contents(compiled, name)
    digest = sha256(compiled)
    store.keep(compiled, digest)
    return digest


def compile_to(out: Path, archive: Path, site: str, python: Interpreter, left_out: str) -> process.Result:
    """Compile the modules of an archive that will lie in `site` of the image, empty for its root, into another one.

    `out` is a new file in a directory that nobody else enters.
    """
    out.touch()
    options, environment, programs = ALONE, {}, [WORKER]
    if tuple(map(int, python.source.site.python.split("."))) < SORTED:
        options, environment, programs = ("-s", "-S", "-B"), {"PYTHONHASHSEED": "0"}, [SETTLED, WORKER]
    arguments = [
        *options,
        *map(str, programs),
        str(archive),
        str(out),
        f"/{site}" if site else "",
        str(EPOCH),
        left_out,
    ]
    return python.run(arguments, Given(environment, (*programs, archive), (out,)), REMOVE_TREES)


def contents(compiled: Path, name: str) -> dict[str, bytes]:
    """Read what a base's Python wrote: path of the module -> bytecode; `name` is the archive that it was given.

    Raises WorldFault when it wrote something else.
    """
    try:
        with zipfile.ZipFile(compiled) as archive:
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                raise ValueError("compressed")  # it could unpack to any size
            if sum(info.file_size for info in archive.infolist()) > compiled.stat().st_size:
                raise ValueError("files that overlap")
            return {info.filename: archive.read(info) for info in archive.infolist()}
    except UNREADABLE as error:
        fact = "the Python of the base wrote something else than bytecode"
        raise WorldFault(fact, f"{name} ({error})", "another base, or --no-bytecode") from error


def read(store: Store, digest: str) -> Mapping[str, bytes]:
    """Read what was compiled: path of the module in site -> bytecode."""
    path = store.whole(digest, "blob")
    if path is None:
        raise Damaged(store.place(digest))
    return contents(path, path.parent.name)
