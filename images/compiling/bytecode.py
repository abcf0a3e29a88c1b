"""Bytecode of modules, made by the base's own interpreter, once per archive and interpreter."""

from __future__ import annotations

import hashlib
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from images.compiling.compiler import Compiler
from images.host.errors import WorldFault
from images.oci.layer_writer import EPOCH
from images.store.blobs import sha256
from images.store.store import Store
from images.wheels import archive
from images.wheels.archive import Wheel

# Programs that another interpreter runs.
WORKER, SETTLE = (Path(__file__).with_name(name) for name in ("compile_modules.py", "settle.py"))
# Before this release marshal writes a set in the order of hashes: they need a seed, which -I would ignore.
SORTED = (3, 11)
# No bytecode of its own modules, which a base may have or not; no SyntaxWarnings of others' code.
QUIET = ("-S", "-B", "-X", "pycache_prefix=/nonexistent", "-W", "ignore")
LONGEST = 64  # bytes of the line before an entry
REMEDY = "run it again, or build with --no-bytecode"

Modules = Iterable[tuple[str, bytes]]  # path below the site, source or bytecode


@dataclass(frozen=True)
class Job:
    """Modules that will lie in `site` of the image, empty for its root; `inputs` decide what they are.

    `name` is what messages call them.
    """

    name: str
    site: str
    inputs: object
    modules: Callable[[], Modules]


def wheel_job(wheel: Wheel, site: str, left_out: re.Pattern[str]) -> Job:
    """Return the modules of a wheel, without those that get no bytecode."""

    def modules() -> Iterator[tuple[str, bytes]]:
        with archive.open_wheel(wheel.path) as opened:
            for name, member in opened.members.items():
                module = archive.site_path(name)
                if module and module.endswith(".py") and not left_out.match(module):
                    yield module, member.read()

    return Job(wheel.path.name, site, [wheel.sha256, left_out.pattern], modules)


def base_job(store: Store, digest: str) -> Job:
    """Return the modules of a base, which are in a zip of the store by their paths."""

    def modules() -> Iterator[tuple[str, bytes]]:
        with zipfile.ZipFile(store.whole(digest)) as opened:
            yield from ((name, opened.read(name)) for name in opened.namelist())

    return Job("the base", "", [digest, "own"], modules)


def files_job(name: str, site: str, files: Mapping[str, bytes]) -> Job:
    """Return the modules among some files."""
    modules = {path: data for path, data in files.items() if path.endswith(".py")}
    hashes = {path: hashlib.sha256(data).hexdigest() for path, data in modules.items()}
    return Job(name, site, [name, hashes], lambda: modules.items())


def compile_jobs(store: Store, jobs: Sequence[Job], compiler: Compiler) -> list[str]:
    """Compile; return the sha256 of each bytecode, which is in the store then.

    Modules that this Python cannot compile (templates, other languages' dialects) are left out, as pip does.
    Raises WorldFault when the interpreter itself fails.
    """
    keys = [[compiler.identity, job.site, job.inputs] for job in jobs]
    lacking = [n for n, key in enumerate(keys) if store.known("bytecode", key, store.has) is None]
    compiled = dict(zip(lacking, _compile(store, [jobs[n] for n in lacking], compiler), strict=True)) if lacking else {}
    return [str(store.cached("bytecode", key, partial(compiled.get, n), store.has).value) for n, key in enumerate(keys)]


def _compile(store: Store, jobs: Sequence[Job], compiler: Compiler) -> list[str]:
    names = ", ".join(job.name for job in jobs)
    with store.temporary() as given, store.temporary() as out:
        with given.open("wb") as stream:
            for job in jobs:
                _write(stream, ((posixpath.join(job.site, path), text) for path, text in job.modules()))
        if failure := compiler.run(_arguments(compiler.site.python), given, out):
            raise WorldFault("the Python of the base cannot compile", f"{names}: {failure}", REMEDY)
        with out.open("rb") as stream:
            digests = [_keep_bytecode(store, job, _read_entries(stream, out.stat().st_size, names)) for job in jobs]
            if stream.read(1):
                raise _damaged(names)
    return digests


def _arguments(python: str) -> list[str]:
    program = WORKER.read_text()
    if tuple(map(int, python.split("."))) < SORTED:
        return ["-s", *QUIET, "-c", f"{SETTLE.read_text()}\n{program}", str(EPOCH)]
    return ["-I", *QUIET, "-c", program, str(EPOCH)]


def _keep_bytecode(store: Store, job: Job, modules: Modules) -> str:
    with store.temporary() as path:
        with path.open("wb") as stream:
            _write(stream, ((name.removeprefix(f"{job.site}/"), data) for name, data in modules))
        digest = sha256(path)
        store.keep(path, digest)
    return digest


def read_bytecode(store: Store, digest: str) -> Mapping[str, bytes]:
    """Read what was compiled: path of the module in site -> bytecode."""
    path = store.whole(digest)
    with path.open("rb") as stream:
        return dict(_read_entries(stream, path.stat().st_size, path.parent.name))


def _write(stream: IO[bytes], modules: Modules) -> None:
    for path, data in modules:
        name = path.encode()
        stream.write(b"%d %d\n" % (len(name), len(data)) + name + data)
    stream.write(b"0 0\n")


def _read_entries(stream: IO[bytes], size: int, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the entries of an archive as a base's Python wrote it to a file of `size` bytes.

    Raises WorldFault when it wrote something else.
    """
    while True:
        match = re.fullmatch(rb"(\d{1,18}) (\d{1,18})\n", stream.readline(LONGEST))
        if match is None:
            raise _damaged(name)
        path, length = map(int, match.groups())
        if not path:
            return
        if stream.tell() + path + length > size:
            raise _damaged(name)
        try:
            yield stream.read(path).decode(), stream.read(length)
        except UnicodeError as error:
            raise _damaged(name) from error


def _damaged(name: str) -> WorldFault:
    fact = "the Python of the base wrote something else than bytecode"
    return WorldFault(fact, name, "another base, or --no-bytecode")


def bytecode_path(module: str, python: str) -> str:
    """Return where the bytecode of a module lies (PEP 3147), for Python `python` (3.X)."""
    directory, name = posixpath.split(module)
    tag = f"cpython-{python.replace('.', '')}"
    return posixpath.join(directory, "__pycache__", f"{name.removesuffix('.py')}.{tag}.pyc")
