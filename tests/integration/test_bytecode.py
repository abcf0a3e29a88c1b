"""What this Python compiles in the place of a base's."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from images.base.base import Site
from images.compiling import bytecode
from images.compiling.bytecode import Job
from images.compiling.compiler import Compiler
from images.host import process
from images.store.store import Store
from images.wheels.archive import Wheel
from tests.support.wheels import pack

SITE = Site("3.11", "usr/lib/site", "/usr/bin/python")


@dataclass
class Running:
    """This Python in the place of a base's."""

    asked: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, arguments: Sequence[str], given: Path, out: Path) -> str | None:
        self.asked.append(arguments)
        with given.open("rb") as feed, out.open("wb") as written:
            return process.run([sys.executable, *arguments, ""], {"PYTHONHASHSEED": "0"}, "", feed, out=written).failure


def compile_jobs(tmp_path: Path, *jobs: Job, running: Running | None = None) -> list[Mapping[str, bytes]]:
    store = Store(tmp_path / "store")
    digests = bytecode.compile_jobs(store, jobs, Compiler(SITE, "", running or Running()))
    return [bytecode.read_bytecode(store, digest) for digest in digests]


def wheel(tmp_path: Path, files: Mapping[str, bytes], project: str = "thing") -> Job:
    path = pack(tmp_path, files, project)
    return bytecode.wheel_job(Wheel(project, "1.0", path.name, path), "usr/lib/site", re.compile("(?!)"))


def test_modules_of_a_wheel_lie_in_site_wherever_the_wheel_has_them(tmp_path: Path) -> None:
    moved = {f"thing-1.0.data/{place}": b"" for place in ("purelib/two.py", "platlib/b/c.py", "scripts/run.py")}

    [compiled] = compile_jobs(tmp_path, wheel(tmp_path, {"one.py": b"", "a/data.json": b"", **moved}))

    assert compiled.keys() == {"one.py", "two.py", "b/c.py"}


@pytest.mark.parametrize("text", [b"def", b"x = '\0'", b"lambda:" * 1200 + b"0", b"\xff"])
def test_a_module_that_does_not_compile_is_left_out_and_the_others_are_not(tmp_path: Path, text: bytes) -> None:
    [compiled] = compile_jobs(tmp_path, wheel(tmp_path, {"bad.py": text, "good.py": b"x = 1"}))

    assert [*compiled] == ["good.py"]


def test_what_is_compiled_before_does_not_show(tmp_path: Path) -> None:
    """marshal marks names that the process has elsewhere, too."""
    shared = "\n".join(f"def rare_{n}(other_{n}): return other_{n}.rare_{n}" for n in range(99)).encode()
    first, job = (wheel(tmp_path, {"a.py": shared}, name) for name in ("first", "second"))

    [alone] = compile_jobs(tmp_path / "alone", job)
    _, behind = compile_jobs(tmp_path / "behind", first, job)

    assert alone == behind


def test_each_is_compiled_once_and_again_when_it_changed_or_is_gone(tmp_path: Path) -> None:
    running, one = Running(), wheel(tmp_path, {"a.py": b"a"}, "one")
    others = [bytecode.files_job("ours", "opt/ours", {"b.py": text, "stays.txt": b""}) for text in (b"b", b"c")]

    first = compile_jobs(tmp_path, one, running=running)
    both = compile_jobs(tmp_path, one, others[0], running=running)
    again = compile_jobs(tmp_path, others[0], one, running=running)
    assert ([first[0], both[1]], [both[1], both[0]], len(running.asked)) == (both, again, 2)
    assert [*both[1]] == ["b.py"]

    assert compile_jobs(tmp_path, others[1], running=running) != [both[1]]
    for path in (tmp_path / "store/blobs").glob("*/blob"):
        path.unlink()
    assert (compile_jobs(tmp_path, one, running=running), len(running.asked)) == (first, 4)
