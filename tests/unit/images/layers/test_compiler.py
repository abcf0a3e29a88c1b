"""Which way is taken to run a base's Python, by what is there; and what is said where there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from images.deliver.engine import Engine, Search
from images.deliver.podman import Podman
from images.host.errors import WorldFault
from images.host.store import Store
from images.layers import compiler
from images.layers.compiler import FOREIGN, WAYS, Situation
from images.layers.sandbox import Sandbox
from tests.support import locks

HERE, BOX, ENGINE = WAYS
NO_BOX, NO_ENGINE = Sandbox("", "no bwrap in PATH"), Search(None)


@dataclass(frozen=True)
class Made(Situation):
    """A machine as a test wants it."""

    sandbox: Sandbox = NO_BOX
    engine: Search = NO_ENGINE


def situation(
    tmp_path: Path, *, native: bool, signed: bool, box: Sandbox = NO_BOX, engine: Engine | None = None
) -> Situation:
    context = replace(locks.context(Store(tmp_path / "store"), None, {}), compiles=True, native=native)
    return Made("a/b:1", context, lambda: signed, sandbox=box, engine=Search(engine))


@pytest.mark.parametrize(
    ("native", "signed", "box", "way"),
    [
        (True, True, NO_BOX, HERE),
        (True, True, Sandbox("/usr/bin/bwrap"), HERE),
        (True, False, Sandbox("/usr/bin/bwrap"), BOX),
        (True, False, NO_BOX, ENGINE),
        (False, True, Sandbox("/usr/bin/bwrap"), ENGINE),
    ],
)
def test_the_first_way_is_taken_that_can_be_used(
    tmp_path: Path, native: bool, signed: bool, box: Sandbox, way: compiler.Way
) -> None:
    assert compiler._first(situation(tmp_path, native=native, signed=signed, box=box, engine=Podman({}))) is way


@pytest.mark.parametrize(
    ("native", "signed", "words"),
    [(True, False, ["is not signed", "no bwrap in PATH"]), (False, True, [FOREIGN])],
)
def test_where_there_is_none_every_reason_is_named(
    tmp_path: Path, native: bool, signed: bool, words: list[str]
) -> None:
    with pytest.raises(WorldFault) as caught:
        compiler._first(situation(tmp_path, native=native, signed=signed))

    assert all(word in caught.value.value for word in words)
    assert caught.value.value.startswith("a/b:1 (") and "--no-bytecode" in caught.value.remedy


@pytest.mark.parametrize(("wanted", "compiles"), [(False, True), (True, False)])
def test_nothing_is_compiled_for_an_image_without_bytecode_or_where_nothing_may_run(
    tmp_path: Path, wanted: bool, compiles: bool
) -> None:
    context = replace(locks.context(Store(tmp_path), None, {}), compiles=compiles, native=False)

    assert compiler.choose(locks.lock(bytecode=wanted), context) is None
