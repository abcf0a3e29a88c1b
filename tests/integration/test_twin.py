"""The Python that compiles for a machine which this one cannot imitate gives the same bytes as that machine's own.

That is started by qemu, by its name: nothing has to be registered in the kernel.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from images.base.inspect import of_debian
from images.debian import deb, packages
from images.host import process
from images.host.pip_config import Sources
from images.host.store import Store
from images.layers import bytecode, compiler, interpreter
from images.layers.bytecode import Job
from images.layers.compiler import Compiler
from images.model import Deb, Debian
from images.plan import catalog
from images.plan.catalog import Base as Row
from images.platforms import ARM64, TWIN
from tests.support import emulation, locks

SUITES = catalog.load().suites


def library(store: Store, debs: Sequence[Deb]) -> Job:
    """Return the standard library as modules of one job: all kinds of code."""
    found: dict[str, bytes] = {}
    for each in debs:
        content = deb.load(packages.require(store, each))
        found |= {path: data for path, _, data in deb.entries(content) if path.endswith(".py")}
    return bytecode.of_files("the library", "usr/lib", found)


@pytest.fixture(scope="module")
def qemu(module_path: Path) -> Path:
    return emulation.fetch(module_path)


def emulated(store: Store, debs: Sequence[Deb], python: str, qemu: Path) -> Compiler:
    """Return the Python of the image, which qemu runs."""
    source = interpreter.of_packages(store, debs, ARM64, python)
    root = interpreter.unpack(store, source)

    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        line = [str(qemu), *interpreter.command(root, source), *arguments, ""]
        with given.open("rb") as feed, out.open("wb") as written:
            return process.run(line, compiler.SEED, "", feed, out=written, cwd=root).failure

    return Compiler(of_debian(python), source.identity, run)


@pytest.mark.slow
@pytest.mark.parametrize("row", SUITES, ids=[row.suite for row in SUITES])
def test_a_twin_gives_the_bytes_of_the_images_own_python(row: Row, qemu: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    here = locks.context(store, Sources(), os.environ)
    context = replace(here, today=datetime.date.today(), compiles=True, native=TWIN)
    names = [*packages.of_python(row.python), f"libpython{row.python}-stdlib"]
    own, twin = (packages.named(row.suite, names, each, context) for each in (ARM64, TWIN))
    recipe = Debian(row.suite, (), "", own)
    lock = locks.lock(platform=ARM64, python=row.python, bytecode=True, debian=recipe, twin=twin)
    chosen = compiler.choose(lock, context)
    by_twin = chosen(None) if chosen else None
    assert by_twin
    job = library(store, own)

    [made] = bytecode.make(store, [job], by_twin)
    [expected] = bytecode.make(store, [job], emulated(store, own, row.python, qemu))

    assert by_twin.identity != interpreter.of_packages(store, own, ARM64, row.python).identity
    assert len(bytecode.read(store, expected)) > 500
    assert made == expected
