"""Whose Python may compile without a sandbox, with what, and what is taken of what it wrote."""

from __future__ import annotations

import io
import os
import threading
import zipfile
from contextvars import copy_context
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.foreign.sandbox import Given, Sandbox
from images.host import process
from images.host.errors import Fault, WorldFault
from images.host.process import Result
from images.host.store import Store
from images.layers import bytecode, interpreter
from images.layers.bytecode import Interpreter
from images.model import Site
from images.wheels.archive import ANOTHER
from tests.support.bases import base
from tests.support.stand_in import SYSTEM
from tests.support.wheels import damaged, pack

NONE = Sandbox("", "no bwrap in PATH")


def packed(method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("one/two.py", b"bytecode " * 9)
    return stream.getvalue()


def overlapping() -> bytes:
    """Pack one file that its directory lists a hundred times."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("one.py", bytes(10_000))
        archive.filelist *= 100
    return stream.getvalue()


@pytest.mark.parametrize("trusted", [True, False])
def test_a_sandbox_is_used_where_there_is_one(tmp_path: Path, trusted: bool) -> None:
    found = Sandbox("/usr/bin/bwrap")

    store = Store(tmp_path)

    source = interpreter.of_base(store, base(SYSTEM))

    assert bytecode.unpacked(store, source, found, trusted=trusted).sandbox is found


def test_without_one_only_debians_own_packages_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    source = interpreter.of_base(store, base(SYSTEM))

    assert bytecode.unpacked(store, source, NONE, trusted=True).sandbox is None
    with pytest.raises(WorldFault, match=r"a/b:1 \(no bwrap in PATH\)\n  try: .*install bubblewrap.*--no-bytecode"):
        bytecode.unpacked(store, source, NONE, trusted=False)


@pytest.mark.parametrize(
    ("release", "options", "environment", "programs"),
    [
        ("3.9", ["-s", "-S", "-B"], {"PYTHONHASHSEED": "0"}, [bytecode.SETTLED, bytecode.WORKER]),
        ("3.10", ["-s", "-S", "-B"], {"PYTHONHASHSEED": "0"}, [bytecode.SETTLED, bytecode.WORKER]),
        ("3.11", ["-I", "-S", "-B"], {}, [bytecode.WORKER]),
        ("3.13", ["-I", "-S", "-B"], {}, [bytecode.WORKER]),
    ],
)
def test_sets_have_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, options: list[str], environment: dict[str, str],
    programs: list[Path],
) -> None:  # fmt: skip
    """Before 3.11 by a seed, which -I would ignore; so nothing else of ours is in the environment."""
    ran: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], environ: dict[str, str], _: str) -> Result:
        ran.append((command, environ))
        return Result(0, "", "")

    monkeypatch.setattr(process, "run", run)
    source = interpreter.PythonSource(
        "a/b:1", "usr/bin/python", Site(release, "site", "/usr/bin/python"), "", lambda _: None
    )
    out, wheel = tmp_path / "out", tmp_path / "a.whl"
    bytecode.compile_to(out, wheel, "site", Interpreter(tmp_path, source, None), "(?!)")

    ((command, given),) = ran
    assert given == environment
    assert command[command.index(options[0]) : command.index(str(wheel))] == [*options, *map(str, programs)]


@pytest.mark.parametrize("sandbox", [None, Sandbox("/usr/bin/bwrap")])
def test_a_store_on_a_disk_without_programs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox | None
) -> None:
    """To remove the store's trees, as the message said before, changed nothing."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    python = Interpreter(tmp_path, interpreter.of_base(Store(tmp_path), base(SYSTEM)), sandbox)

    with pytest.raises(WorldFault, match=r"programs cannot be started in the store: .* \(noexec\)") as caught:
        python.run(["-c", "pass"], Given({}, ()), bytecode.REMOVE_TREES)

    assert caught.value.remedy == f"set XDG_CACHE_HOME to a directory where they can, or {bytecode.WITHOUT}"


def test_bytecode_that_fits_its_wheel_is_read(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(packed())

    assert bytecode.contents(tmp_path / "out", "a.whl") == {"one/two.py": b"bytecode " * 9}


@pytest.mark.parametrize("written", [b"", b"#!/bin/sh", packed()[:-9], packed(zipfile.ZIP_DEFLATED), overlapping()])
def test_what_is_no_bytecode_is_refused(tmp_path: Path, written: bytes) -> None:
    (tmp_path / "out").write_bytes(written)

    with pytest.raises(WorldFault, match=r"wrote something else than bytecode: a\.whl \(.*\n  try: "):
        bytecode.contents(tmp_path / "out", "a.whl")


@given(st.integers(0, len(packed()) - 1), st.binary(max_size=4))
def test_whatever_it_wrote_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, at: int, more: bytes) -> None:
    out = tmp_path_factory.getbasetemp() / "changed"
    good = packed()
    out.write_bytes(good[:at] + more + good[at + len(more) :])

    try:
        bytecode.contents(out, "a.whl")
    except Fault:
        pass


def test_no_wheel_is_begun_that_is_not_wanted_any_more(tmp_path: Path) -> None:
    store, stop = Store(tmp_path), threading.Event()
    python = Interpreter(tmp_path, interpreter.of_base(store, base(SYSTEM)), None)
    stop.set()

    def task() -> None:
        bytecode.make(store, [("one", "0" * 64, tmp_path / "missing.whl")], python, trimmed=True)

    with pytest.raises(process.Stopped):
        copy_context().run(process.run_stoppable, stop, task)


@pytest.mark.parametrize(
    ("is_damaged", "fact", "remedy"),
    [
        (True, "cannot install a wheel", ANOTHER),
        (False, "cannot compile the modules of a wheel", bytecode.REMEDY),
    ],
)
def test_an_interpreter_that_fails_is_not_blamed_for_a_damaged_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool, fact: str, remedy: str
) -> None:
    store, wheel = Store(tmp_path / "store"), pack(tmp_path, {"one.py": b"first = second = third = 1\n" * 9})
    if is_damaged:
        damaged(wheel, "one.py")
    monkeypatch.setattr(process, "run", lambda *_, **__: Result(1, "", "zlib.error: Error -3"))
    python = Interpreter(tmp_path, interpreter.of_base(store, base(SYSTEM)), None)

    with pytest.raises(WorldFault) as caught:
        bytecode.make(store, [("thing", "0" * 64, wheel)], python, trimmed=True)

    assert (caught.value.fact, caught.value.remedy) == (fact, remedy)
    assert wheel.name in caught.value.value
