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

from images.base.inspect import debian_site
from images.compiling import bytecode, compiler
from images.compiling.bytecode import Job
from images.compiling.compiler import Compiler
from images.debian import deb, packages
from images.debian.deb import Deb, Debian
from images.host import process
from images.pip_config import Sources
from images.plan import catalog
from images.plan.catalog import BaseRow as Row
from images.platforms import ARM64, TWIN
from images.store.store import Store
from tests.support import emulation, locks

SUITES = catalog.load().suites


def library(store: Store, debs: Sequence[Deb]) -> Job:
    """Return the standard library as modules of one job: all kinds of code."""
    sources: dict[str, bytes] = {}
    for package in debs:
        content = deb.load_package(packages.require_package(store, package))
        sources |= {path: data for path, _, data in deb.read_entries(content) if path.endswith(".py")}
    return bytecode.files_job("the library", "usr/lib", sources)


@pytest.fixture(scope="module")
def qemu(module_path: Path) -> Path:
    return emulation.fetch(module_path)


def emulated(store: Store, debs: Sequence[Deb], python: str, qemu: Path) -> Compiler:
    """Return the Python of the image, which qemu runs."""
    source = compiler.choose_interpreter(store, debs, ARM64, python)
    root = compiler.unpack(store, source)

    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        line = [str(qemu), *compiler.interpreter_command(root, source), *arguments, ""]
        with given.open("rb") as feed, out.open("wb") as written:
            return process.run(line, compiler.SEED, "", feed, out=written, cwd=root).failure

    return Compiler(debian_site(python), source.identity, run)


@pytest.mark.slow
@pytest.mark.parametrize("row", SUITES, ids=[row.suite for row in SUITES])
def test_a_twin_gives_the_bytes_of_the_images_own_python(row: Row, qemu: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    here = locks.context(store, Sources(), os.environ)
    context = replace(here, today=datetime.date.today(), compiles=True, native=TWIN)
    names = [*packages.python_packages(row.python), f"libpython{row.python}-stdlib"]
    native, twin = (packages.resolve_single(row.suite, names, platform, context) for platform in (ARM64, TWIN))
    recipe = Debian(row.suite, (), "", native)
    lock = locks.lock(platform=ARM64, python=row.python, bytecode=True, debian=recipe, twin=twin)
    choice = compiler.choose_compiler(lock, context)
    assert choice and choice.engine is None
    by_twin = compiler.unpack_debian(lock, context)
    job = library(store, native)

    [compiled] = bytecode.compile_jobs(store, [job], by_twin)
    [expected] = bytecode.compile_jobs(store, [job], emulated(store, native, row.python, qemu))

    assert by_twin.identity != compiler.choose_interpreter(store, native, ARM64, row.python).identity
    assert len(bytecode.read_bytecode(store, expected)) > 500
    assert compiled == expected
