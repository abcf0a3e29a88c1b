"""What is compiled, by which arguments, and what is taken of what a base's Python wrote."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.base.facts import Site
from images.compiling import bytecode
from images.compiling.bytecode import Job
from images.compiling.compiler import Compiler, Run
from images.content import Content
from images.host import process
from images.host.errors import Fault, WorldFault
from images.layers.uncompiled import uncompiled_pattern
from images.store.store import Store
from images.wheels.wheel import Wheel
from tests.support.wheels import pack

MTIME = 1_704_067_200
HEADER = 16  # bytes (PEP 552)
GOOD = b"6 7\none.pybytecod0 0\n"


def compiler(run: Run, release: str = "3.11") -> Compiler:
    return Compiler(Site(release, "usr/lib/site", "/usr/bin/python"), "", run)


@dataclass
class Running:
    """This Python in the place of a base's."""

    program: str = sys.executable
    asked: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, arguments: Sequence[str], given: Path, out: Path) -> str | None:
        self.asked.append(arguments)
        with given.open("rb") as feed, out.open("wb") as written:
            return process.run([self.program, *arguments, ""], {"PYTHONHASHSEED": "0"}, "", feed, out=written).failure


def made(tmp_path: Path, *jobs: Job, running: Running | None = None) -> list[Mapping[str, bytes]]:
    store = Store(tmp_path / "store")
    digests = bytecode.compile_jobs(store, jobs, compiler(running or Running()))
    return [bytecode.read_bytecode(store, digest) for digest in digests]


def wheel(tmp_path: Path, files: Mapping[str, bytes], project: str = "thing", *, trimmed: bool = True) -> Job:
    path = pack(tmp_path, files, project)
    left_out = uncompiled_pattern(project, Content(trim=trimmed))
    return bytecode.wheel_job(Wheel(project, "1.0", path.name, path), "usr/lib/site", left_out)


def test_bytecode_has_the_time_and_the_size_of_its_source_and_its_path_in_the_image(tmp_path: Path) -> None:
    [found] = made(tmp_path, wheel(tmp_path, {"a/one.py": b"x = 1\n"}))

    data = found["a/one.py"]
    assert [int.from_bytes(data[at : at + 4], "little") for at in (4, 8, 12)] == [0, MTIME, len("x = 1\n")]
    assert marshal.loads(data[HEADER:]).co_filename == "/usr/lib/site/a/one.py"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("one.py", "one.py"), ("thing-1.0.data/purelib/two.py", "two.py"), ("thing-1.0.data/platlib/b/c.py", "b/c.py"),
        ("a/data.json", None), ("thing-1.0.data/scripts/run.py", None),
    ],
)  # fmt: skip
def test_modules_of_a_wheel_lie_in_site_wherever_the_wheel_has_them(
    tmp_path: Path, name: str, module: str | None
) -> None:
    [found] = made(tmp_path, wheel(tmp_path, {name: b""}))

    assert [*found] == ([module] if module else [])


@pytest.mark.parametrize("text", [b"def", b"x = '\0'", b"lambda:" * 1200 + b"0", b"\xff"])
def test_a_module_that_does_not_compile_is_left_out_and_the_others_are_not(tmp_path: Path, text: bytes) -> None:
    [found] = made(tmp_path, wheel(tmp_path, {"bad.py": text, "good.py": b"x = 1"}))

    assert [*found] == ["good.py"]


@pytest.mark.parametrize("trimmed", [True, False])
def test_what_no_task_imports_is_left_out(tmp_path: Path, trimmed: bool) -> None:
    files = {"torch/one.py": b"", "torch/_inductor/x.py": b""}

    [found] = made(tmp_path, wheel(tmp_path, files, "torch", trimmed=trimmed))

    assert found.keys() == ({"torch/one.py"} if trimmed else files.keys())


def test_what_is_compiled_before_does_not_show(tmp_path: Path) -> None:
    """marshal marks names that the process has elsewhere, too."""
    shared = "\n".join(f"def rare_{n}(other_{n}): return other_{n}.rare_{n}" for n in range(99)).encode()
    first, job = (wheel(tmp_path, {"a.py": shared}, name) for name in ("first", "second"))

    [alone] = made(tmp_path / "alone", job)
    _, behind = made(tmp_path / "behind", first, job)

    assert alone == behind


def test_each_is_compiled_once_and_again_when_it_changed_or_is_gone(tmp_path: Path) -> None:
    running, one = Running(), wheel(tmp_path, {"a.py": b"a"}, "one")
    others = [bytecode.files_job("ours", "opt/ours", {"b.py": text, "stays.txt": b""}) for text in (b"b", b"c")]

    first = made(tmp_path, one, running=running)
    both = made(tmp_path, one, others[0], running=running)
    again = made(tmp_path, others[0], one, running=running)
    assert ([first[0], both[1]], [both[1], both[0]], len(running.asked)) == (both, again, 2)
    assert [*both[1]] == ["b.py"]

    assert made(tmp_path, others[1], running=running) != [both[1]]
    for path in (tmp_path / "store/blobs").glob("*/blob"):
        path.unlink()
    assert (made(tmp_path, one, running=running), len(running.asked)) == (first, 4)


@pytest.mark.parametrize(("release", "options"), [("3.10", "-s"), ("3.11", "-I"), ("3.13", "-I")])
def test_sets_have_one_order(tmp_path: Path, release: str, options: str) -> None:
    """Before 3.11 by a seed, which -I would ignore."""
    running = Running()
    bytecode.compile_jobs(Store(tmp_path), [wheel(tmp_path, {"a.py": b"x in {None, 1}"})], compiler(running, release))

    ((first, *_, program, _),) = running.asked
    assert (first, "def settle(" in program) == (options, release == "3.10")


@pytest.mark.parametrize(
    "written",
    [b"", b"#!/bin/sh", GOOD[:-1], GOOD + b"x", GOOD + GOOD, b"6 99\none.pybytecod0 0\n", b"1 1\n\xffx0 0\n",
     b"-1 1\n", b"9" * 99 + b" 1\n"],
)  # fmt: skip
def test_what_is_no_bytecode_is_refused(tmp_path: Path, written: bytes) -> None:
    with pytest.raises(WorldFault, match=r"wrote something else than bytecode: thing-1\.0.*\n  try: "):
        take(tmp_path, written)


def take(tmp_path: Path, written: bytes) -> list[Mapping[str, bytes]]:
    """Compile with a Python that writes this."""
    program = tmp_path / "python"
    (tmp_path / "written").write_bytes(written)
    program.write_text(f"#!/bin/sh\nexec cat {tmp_path}/written\n")
    program.chmod(0o755)
    return made(tmp_path, wheel(tmp_path, {"one.py": b""}), running=Running(str(program)))


def test_what_fits_is_read(tmp_path: Path) -> None:
    assert take(tmp_path, GOOD) == [{"one.py": b"bytecod"}]


@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=4))
def test_whatever_it_wrote_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, at: int, more: bytes) -> None:
    place = tmp_path_factory.getbasetemp() / "changed"
    place.write_bytes(GOOD[:at] + more + GOOD[at + len(more) :])

    with place.open("rb") as stream:
        try:
            dict(bytecode._read_entries(stream, place.stat().st_size, "a.whl"))
        except Fault:
            pass


def test_an_interpreter_that_fails_is_named_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match=r"cannot compile: thing-1\.0-py3-none-any\.whl: no memory\n  try: ") as caught:
        bytecode.compile_jobs(Store(tmp_path), [wheel(tmp_path, {})], compiler(lambda *_: "no memory"))

    assert "--no-bytecode" in caught.value.remedy


def test_a_process_that_dies_fails_all(tmp_path: Path) -> None:
    program = bytecode.WORKER.read_text().replace("posix._exit(0)", "posix._exit(3)")
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, "0", ""], input=b"0 0\n", env=dict(os.environ), capture_output=True
    )

    assert (done.returncode, done.stderr.strip()) == (1, b"the process that compiles has failed")
