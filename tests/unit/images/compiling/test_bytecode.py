"""What is compiled, by which arguments, and what is taken of what a base's Python wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.base.base import Site
from images.compiling import bytecode
from images.compiling.bytecode import Job
from images.compiling.compiler import Compiler, Run
from images.content import Content
from images.host.errors import Fault, WorldFault
from images.layers import trim
from images.layers.trim import uncompiled_patterns
from images.store.store import Store
from images.wheels.archive import Wheel
from tests.support.wheels import pack

GOOD = b"6 7\none.pybytecod0 0\n"


def compiler(run: Run, release: str = "3.11") -> Compiler:
    return Compiler(Site(release, "usr/lib/site", "/usr/bin/python"), "", run)


def writing(data: bytes, asked: list[Sequence[str]] | None = None) -> Run:
    """Stand in for a base's Python, which writes this whatever it is given."""

    def run(arguments: Sequence[str], _: Path, out: Path) -> None:
        out.write_bytes(data)
        if asked is not None:
            asked.append(arguments)

    return run


def wheel(tmp_path: Path, files: Mapping[str, bytes], project: str = "thing", *, trimmed: bool = True) -> Job:
    path = pack(tmp_path, files, project)
    options = Content(trim=trimmed)
    omitted = uncompiled_patterns({project: trim.trimmed_pattern(project, options)}, options)
    return bytecode.wheel_job(Wheel(project, "1.0", path.name, path), "usr/lib/site", omitted[project])


@pytest.mark.parametrize(("release", "options"), [("3.10", "-s"), ("3.11", "-I"), ("3.13", "-I")])
def test_sets_have_one_order(tmp_path: Path, release: str, options: str) -> None:
    """Before 3.11 by a seed, which -I would ignore."""
    asked = list[Sequence[str]]()
    run = writing(b"4 7\na.pybytecod0 0\n", asked)
    bytecode.compile_jobs(Store(tmp_path), [wheel(tmp_path, {"a.py": b""})], compiler(run, release))

    ((first, *_, program, _),) = asked
    assert (first, "def settle(" in program) == (options, release == "3.10")


@pytest.mark.parametrize(
    "written",
    [b"", b"#!/bin/sh", GOOD[:-1], GOOD + b"x", GOOD + GOOD, b"6 99\none.pybytecod0 0\n", b"1 1\n\xffx0 0\n",
     b"-1 1\n", b"9" * 99 + b" 1\n"],
)  # fmt: skip
def test_what_is_no_bytecode_is_refused(tmp_path: Path, written: bytes) -> None:
    with pytest.raises(WorldFault, match=r"wrote something else than bytecode: thing-1\.0.*\n  try: "):
        take(tmp_path, written)


def take(tmp_path: Path, written: bytes) -> Mapping[str, bytes]:
    """Compile with a Python that writes this."""
    store = Store(tmp_path / "store")
    [digest] = bytecode.compile_jobs(store, [wheel(tmp_path, {"one.py": b""})], compiler(writing(written)))
    return bytecode.read_bytecode(store, digest)


def test_what_fits_is_read(tmp_path: Path) -> None:
    assert take(tmp_path, GOOD) == {"one.py": b"bytecod"}


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
