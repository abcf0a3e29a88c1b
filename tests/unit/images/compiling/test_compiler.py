"""How a base's Python is run, by what it is made of and what is there; and what is said where it cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from images.base.base import BaseImage
from images.compiling import compiler
from images.compiling.compiler import FOREIGN, UNSIGNED
from images.context import Context
from images.debian import packages
from images.host import process
from images.host.errors import WorldFault
from images.lock.lock import Lock
from images.platforms import AMD64, ARM64, Platform
from images.store.store import Store
from tests.golden.command import NO_ENGINE
from tests.support import locks
from tests.support import packages as packages_of
from tests.support.bases import base
from tests.support.stand_in import SYSTEM

PYTHON = compiler.Packaged(AMD64, "3.11", (), "")


def test_the_loader_finds_libraries_below_any_directory(tmp_path: Path) -> None:
    """It splits its list of places at colons, and would look for libraries of this machine instead."""
    root = tmp_path / "a:b"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (libraries / "ld-linux-x86-64.so.2").touch()

    loader, option, places, python = compiler.interpreter_command(root, PYTHON)

    assert (loader, option) == (str(libraries / "ld-linux-x86-64.so.2"), "--library-path")
    assert {root / place for place in places.split(":")} == {root / "usr/lib", libraries}
    assert python == str(root / "usr/bin/python3.11")


LIBRARY = "usr/lib/x86_64-linux-gnu"
FILES: dict[str, dict[str, bytes | str]] = {
    "python3.11-minimal": {
        "usr/share/doc/tool/copyright": b"of no use",
        "usr/bin/python3.11": b"#!an interpreter",
        "usr/bin/python3": "python3.11",
        "usr/bin/tool": b"#!of no use",
        "usr/lib/python3/dist-packages/six.py": b"of no use",
        "usr/lib/python3.11/__pycache__/os.cpython-311.pyc": b"of no use",
    },
    "libpython3.11-minimal": {"usr/lib/python3.11/os.py": b"a module"},
    "libc6": {
        "lib64/ld-linux-x86-64.so.2": "../lib/x86_64-linux-gnu/libc.so.6",
        f"lib/{AMD64.multiarch}/libc.so.6": b"a library",
        f"lib/{AMD64.multiarch}/gconv/UTF-7.so": b"of no use",
        f"lib/{AMD64.multiarch}/libc.a": b"of no use",
    },
    "libexpat1": {f"{LIBRARY}/libexpat.so.1": "libexpat.so.1.8", f"{LIBRARY}/liblost.so.1": "liblost.so.1.8",
                  f"{LIBRARY}/libexpat.so.1.8": b"another"},
    "zlib1g": {},
}  # fmt: skip


def test_an_interpreter_is_what_it_runs_on_whatever_the_order_of_its_packages(store: Store, tmp_path: Path) -> None:
    debs = [packages_of.make(store, tmp_path / "made", name, files) for name, files in {**FILES, "tini": {}}.items()]
    source = compiler.choose_interpreter(store, debs, AMD64, "3.11")
    root = compiler.unpack(store, source)

    assert compiler.choose_interpreter(store, debs[::-1], AMD64, "3.11") == source
    assert [path.parent.name for path in source.debs] == [deb.sha256 for deb in sorted(debs) if deb.package in FILES]
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_symlink() or path.is_file()}
    links = {name: str(path.readlink()) for name, path in files.items() if path.is_symlink()}
    assert links == {
        "usr/bin/python3": "python3.11", "usr/lib64/ld-linux-x86-64.so.2": "../lib/x86_64-linux-gnu/libc.so.6",
        f"{LIBRARY}/libexpat.so.1": "libexpat.so.1.8",
    }  # fmt: skip
    assert {name: (path.read_bytes(), path.stat().st_mode & 0o777) for name, path in files.items()
            if name not in links} == {
        "usr/bin/python3.11": (b"#!an interpreter", 0o755), "usr/lib/python3.11/os.py": (b"a module", 0o644),
        f"{LIBRARY}/libc.so.6": (b"a library", 0o644), f"{LIBRARY}/libexpat.so.1.8": (b"another", 0o644),
    }  # fmt: skip


def test_an_interpreter_of_which_packages_are_missing_is_refused(store: Store) -> None:
    debs = [replace(locks.TINI, package=name) for name in FILES if name not in ("libc6", "zlib1g")]

    with pytest.raises(WorldFault, match="libc6, zlib1g"):
        compiler.choose_interpreter(store, debs, AMD64, "3.11")


def test_an_interpreter_that_fails_is_removed_and_is_unpacked_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = list[Path]()

    def fill(root: Path, _: compiler.Packaged) -> None:
        root.mkdir()
        filled.append(root)

    monkeypatch.setattr(compiler, "_fill", fill)
    for _ in range(2):
        compiler.unpack(store, PYTHON)
        root = compiler.unpack(store, PYTHON)
        for _ in range(2):
            compiler.remove(store, root)

    assert len(filled) == 2 and not root.exists()


def test_of_two_builds_at_once_both_take_what_the_first_has_unpacked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = store.tree([PYTHON.identity, PYTHON.path])

    def fill(root: Path, _: compiler.Packaged) -> None:
        root.mkdir()
        (there / "usr").mkdir(parents=True)

    monkeypatch.setattr(compiler, "_fill", fill)

    assert compiler.unpack(store, PYTHON) == there
    assert [path.name for path in there.iterdir()] == ["usr"]


def test_what_cannot_be_moved_into_the_store_is_no_interpreter(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_fill", lambda *_: None)

    with pytest.raises(OSError, match="No such file"):
        compiler.unpack(store, PYTHON)


WORKS = "#!/bin/sh\nexit 0\n"


def machine(tmp_path: Path, *programs: str, native: Platform | None = AMD64) -> Context:
    """Have a machine with these programs, each of which says that all is well."""
    for name in programs:
        (tmp_path / name).write_text(WORKS)
        (tmp_path / name).chmod(0o755)
    environ = {**NO_ENGINE, "PATH": str(tmp_path)}
    return replace(locks.context(Store(tmp_path / "store"), None, environ), compiles=True, native=native)


def pulled() -> Lock:
    manifest = base(SYSTEM).manifest
    assert manifest
    return locks.lock(bytecode=True, base="a/b:1", base_image=BaseImage(manifest, ()))


DEBIAN = locks.lock(bytecode=True)
TWIN = locks.lock(platform=ARM64, bytecode=True, twin=(locks.TINI,))


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a program that is there say that all is well, without starting it."""

    def answer(command: Sequence[str], environ: Mapping[str, str], remedy: str, seconds: float) -> process.Result:
        if not Path(environ["PATH"], command[0]).is_file():
            raise WorldFault("cannot start a program", command[0], remedy)
        return process.Result(0, "", "")

    monkeypatch.setattr(process, "answer", answer)


@pytest.mark.parametrize(
    ("lock", "native", "signed", "refusal"),
    [
        (DEBIAN, AMD64, True, None),
        (DEBIAN, AMD64, False, UNSIGNED),
        (DEBIAN, ARM64, True, FOREIGN),
        (DEBIAN, None, True, FOREIGN),
        (pulled(), AMD64, True, UNSIGNED),
        (pulled(), None, True, FOREIGN),
        (TWIN, AMD64, True, None),  # the same Python for this machine
        (TWIN, ARM64, True, None),  # its own
        (replace(TWIN, twin=None), AMD64, True, FOREIGN),
        (TWIN, None, True, FOREIGN),
    ],
)
def test_a_python_runs_as_it_is_only_where_debian_signed_it_else_in_an_engine(
    tmp_path: Path, lock: Lock, native: Platform | None, signed: bool, refusal: str | None
) -> None:
    context = machine(tmp_path, native=native)
    if signed:
        context.store.write_record(packages.SIGNED, locks.TINI.sha256, "")

    if refusal is None:
        assert compiler.choose_compiler(lock, context)
    else:
        with pytest.raises(WorldFault, match="nothing here may run the Python of the base") as caught:
            compiler.choose_compiler(lock, context)
        assert caught.value.value.startswith(f"{lock.base} ({refusal}; Docker cannot be used")
        assert "--no-bytecode" in caught.value.remedy
        assert compiler.choose_compiler(lock, machine(tmp_path, "podman", native=native))


@pytest.mark.parametrize(("wanted", "compiles"), [(False, True), (True, False)])
def test_nothing_is_compiled_for_an_image_without_bytecode_or_where_nothing_may_run(
    tmp_path: Path, wanted: bool, compiles: bool
) -> None:
    context = replace(machine(tmp_path, native=None), compiles=compiles)

    assert compiler.choose_compiler(locks.lock(bytecode=wanted), context) is None


@pytest.mark.parametrize(("code", "failure"), [(0, None), (1, "said why")])
def test_debians_python_reads_its_standard_input_and_is_removed_where_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, failure: str | None
) -> None:
    root, (given, out), context = tmp_path / "root", (tmp_path / "given", tmp_path / "out"), machine(tmp_path)
    root.mkdir()
    given.write_bytes(b"given")
    monkeypatch.setattr(compiler, "choose_interpreter", lambda *_: PYTHON)
    monkeypatch.setattr(compiler, "unpack", lambda *_: root)

    def run(
        command: Sequence[str], env: object, _: str, feed: IO[bytes], *, out: IO[bytes], cwd: Path
    ) -> process.Result:
        assert [*command[-3:]] == ["-c", "program", ""] and command[-4] == str(root / PYTHON.path)
        assert (env, cwd, feed.read(), out.write(b"out")) == ({"PYTHONHASHSEED": "0"}, root, b"given", 3)
        return process.Result(code, "", "said why")

    monkeypatch.setattr(process, "run", run)
    python = compiler.prepare_compiler(compiler.Choice(None), locks.lock(bytecode=True), base(SYSTEM), context)

    assert python.run(["-c", "program"], given, out) == failure
    assert out.read_bytes() == b"out" and root.is_dir() is (code == 0)
    assert (python.site.python, python.identity) == (locks.lock().python, PYTHON.identity)
