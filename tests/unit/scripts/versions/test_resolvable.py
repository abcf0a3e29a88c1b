"""Which pairs cover the table, what is said of each, and what takes the place of what cannot be downloaded."""

from __future__ import annotations

import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from images.host import process
from images.host.errors import Fault, UserFault, WorldFault
from images.host.pip_config import Sources
from images.host.store import Store
from images.lock import resolve
from images.lock.missing import Unreachable
from images.lock.resolve import Resolved
from images.plan import catalog, planner
from images.plan.planner import Plan
from images.wheels import archive
from scripts.versions import resolvable, stand_ins
from scripts.versions.resolvable import Outcome
from tests.support import locks

TABLE = catalog.load()
PLANS = resolvable.chosen(TABLE)
CCL = planner.resolve(planner.Request(torch="2.4.0", transformers="4.46.3", base="debian"), TABLE)
GLOO = planner.resolve(planner.Request(torch="2.4.0", transformers="5.14.1", base="debian"), TABLE)
NEWER = planner.resolve(planner.Request(torch="2.13.0", transformers="5.14.1", base="debian"), TABLE)
NOTHING = UserFault("no set of packages fits", "six>=99 cannot be had", "another")
NO_TORCH = Unreachable("no build of torch", "https://torch.example", "a mirror", "torch")
NO_BINDINGS = Unreachable("no bindings", "https://ccl.example", "a mirror", "oneccl_bind_pt")
LIKE_NO_TORCH = WorldFault("the system refuses", "torch 2.4.0, https://torch.example", "chmod")
NO_INDEX = WorldFault("cannot reach a package index", "https://index.example/simple/six/", "a proxy")
ROW = "torch 2.4.0, transformers 4.46.3 (debian, Python 3.11, ccl)"


def asked(torch: str) -> list[tuple[str, str, str]]:
    """List the transformers, base and backend of the rows of a torch."""
    rows = [plan for plan in PLANS if plan.torch.version == Version(torch)]
    return [(str(plan.transformers.version), plan.base_name, plan.backend) for plan in rows]


def test_every_release_of_torch_and_both_ends_of_every_range_are_asked() -> None:
    ranges: dict[str, list[Version]] = {}
    for version, row in sorted(TABLE.transformers.items()):
        if row.yanked is None:
            ranges.setdefault(row.era, []).append(version)

    assert {plan.torch.version for plan in PLANS} == set(TABLE.torch)
    ends = {end for found in ranges.values() for end in (found[0], found[-1])}
    assert ends <= {plan.transformers.version for plan in PLANS}
    assert all(plan.transformers.yanked is None for plan in PLANS)


def test_every_range_is_asked_with_every_line_of_torch_that_it_goes_with() -> None:
    row = next(row for row in TABLE.transformers.values() if row.era == "4.52")  # requires torch >=2.1,<2.7

    lines = {plan.torch.version.release[:2] for plan in PLANS if plan.transformers.era == row.era}

    assert lines == {(2, minor) for minor in range(1, 7)}


@pytest.mark.parametrize(
    ("torch", "row"),
    [
        ("2.4.0", ("4.30.0", "intel", "ccl")),
        ("2.4.0", ("4.30.0", "debian", "ccl")),
        ("2.4.0", ("5.14.1", "intel", "gloo")),
        ("2.4.1", ("5.14.1", "debian", "gloo")),
        ("1.13.1", ("4.30.0", "debian", "gloo")),
        ("1.13.1", ("4.47.1", "IMAGE", "ccl")),
        ("1.12.1", ("4.47.1", "IMAGE", "ccl")),
        ("2.15.0", ("5.24.0", "debian", "gloo")),
    ],
)
def test_every_base_of_a_torch_is_asked(torch: str, row: tuple[str, str, str]) -> None:
    assert row in asked(torch)


def test_rows_come_once_and_in_order() -> None:
    rows = [(plan.torch.version, plan.transformers.version, plan.base_name) for plan in PLANS]

    assert rows == sorted(set(rows))


@pytest.mark.parametrize(
    ("outcome", "line", "code"),
    [
        (Outcome(CCL, 88), f"{ROW}: ok, 88 packages", 0),
        (
            Outcome(CCL, 88, ("oneccl-bind-pt", "torch")),
            f"{ROW}: ok, 88 packages, with a stand-in for oneccl-bind-pt and torch",
            0,
        ),
        (Outcome(CCL, fault=NOTHING), f"{ROW}: fails: no set of packages fits: six>=99 cannot be had", 2),
        (Outcome(CCL, fault=NO_INDEX), f"{ROW}: not asked: {NO_INDEX.fact}: {NO_INDEX.value}", 1),
    ],
)
def test_a_row_is_one_line(outcome: Outcome, line: str, code: int) -> None:
    assert (outcome.line, resolvable.exit_code([outcome])) == (line, code)


@pytest.mark.parametrize(
    ("faults", "code", "said"),
    [
        ([], 0, "0 rows: 0 ok (0 with stand-ins), 0 fail, 0 not asked"),
        ([None, None], 0, "2 rows: 2 ok (0 with stand-ins), 0 fail, 0 not asked"),
        ([None, NO_INDEX], 1, "2 rows: 1 ok (0 with stand-ins), 0 fail, 1 not asked"),
        ([NOTHING, None, NO_INDEX], 2, "3 rows: 1 ok (0 with stand-ins), 1 fail, 1 not asked"),
    ],
)
def test_a_row_that_fails_decides_before_one_that_was_not_asked(
    faults: list[Fault | None], code: int, said: str
) -> None:
    found = [Outcome(CCL, fault=fault) for fault in faults]

    assert (resolvable.exit_code(found), resolvable.summary(found)) == (code, said)


class World:
    """A world in which resolving goes as the test says; `wheels` is what lay in the wheelhouse each time."""

    def __init__(self, answer: Callable[[set[str]], Fault | None]) -> None:
        self.answer = answer
        self.wheels: list[set[str]] = []

    def packages(self, plan: Plan, _: object) -> Resolved:
        place = Path(plan.wheelhouse) if plan.wheelhouse else None
        names = {path.name.partition("-")[0] for path in place.iterdir()} if place else set()
        self.wheels.append(names)
        if fault := self.answer(names):
            raise fault
        url = place.as_uri() if place else "https://index.example"
        made = [locks.artifact(name.replace("_", "-"), "1") for name in sorted(names)]
        return Resolved(
            (*(replace(each, url=f"{url}/{each.filename}") for each in made), locks.artifact("six", "1")), ()
        )


def ask(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *plans: Plan, requires: Fault | None = None
) -> list[Outcome]:
    def torch(_: str) -> list[str]:
        if requires:
            raise requires
        return ["six", "nvidia-cublas==1 ; platform_system == 'Linux'"]

    monkeypatch.setattr(resolve, "packages", world.packages)
    context = locks.context(Store(tmp_path / "store"), Sources(), {})
    return list(resolvable.outcomes(plans, context, torch, 2))


def test_a_stand_in_takes_the_place_of_what_cannot_be_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(wheels: set[str]) -> Fault | None:
        return next((fault for name, fault in lacking.items() if name not in wheels), None)

    lacking = {"torch": NO_TORCH, "oneccl_bind_pt": NO_BINDINGS}
    world = World(answer)

    found = ask(world, tmp_path, monkeypatch, CCL, GLOO)

    assert [outcome.replaced for outcome in found] == [("oneccl-bind-pt", "torch")] * 2
    assert world.wheels == [set(), {"torch"}, {*lacking}, {*lacking}]  # the second row has what the first needed


@pytest.mark.parametrize("fault", [NOTHING, NO_INDEX, LIKE_NO_TORCH])
def test_any_other_fault_is_that_of_the_row(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.fault for each in ask(World(lambda _: fault), tmp_path, monkeypatch, CCL, GLOO)] == [fault, fault]


def test_a_stand_in_that_does_not_help_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(lambda _: NO_TORCH)

    assert [outcome.fault for outcome in ask(world, tmp_path, monkeypatch, GLOO)] == [NO_TORCH]
    assert world.wheels == [set(), {"torch"}]


def test_what_torch_requires_must_be_known_for_a_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(World(lambda _: NO_TORCH), tmp_path, monkeypatch, GLOO, requires=NO_INDEX)

    assert [outcome.fault for outcome in found] == [NO_INDEX]


def test_a_row_that_takes_too_long_counts_as_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolvable, "ROW", -1)

    (found,) = ask(World(lambda _: None), tmp_path, monkeypatch, GLOO)

    assert found.line.partition(": ")[2].startswith("not asked: no answer in time")


def test_the_stand_in_of_torch_is_a_good_wheel_without_what_is_for_a_gpu(tmp_path: Path) -> None:
    requires = ["filelock", "sympy (==1.13.1) ; python_version >= '3.9'", "nvidia-nccl-cu12==1", "triton (==3.0.0)",
                "cuda-bindings<14", "pytorch-triton-rocm==3"]  # fmt: skip

    path = stand_ins.of("torch", CCL, lambda _: requires, tmp_path)

    archive.check(path)
    with zipfile.ZipFile(path) as file:
        lines = file.read("torch-2.4.0+cpu.dist-info/METADATA").decode().splitlines()
    assert [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist")] == requires[:2]


def test_the_stand_in_of_the_bindings_requires_nothing(tmp_path: Path) -> None:
    path = stand_ins.of("oneccl_bind_pt", CCL, lambda _: ["six"], tmp_path)

    archive.check(path)
    assert path.name == "oneccl_bind_pt-2.4.0-py3-none-any.whl"
    assert b"Requires-Dist" not in zipfile.ZipFile(path).read("oneccl_bind_pt-2.4.0.dist-info/METADATA")


@pytest.mark.parametrize("ends", [lambda asked: asked.close(), lambda asked: asked.throw(KeyboardInterrupt)])
def test_what_has_begun_ends_where_nobody_asks_for_the_rest(
    ends: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After ^C, or where the reader of the lines is gone, all other rows were resolved first."""
    begun, ended = threading.Event(), list[Plan]()

    def of_torch(plans: Sequence[Plan], *_: object) -> list[Outcome]:
        if plans[0] == GLOO:
            assert begun.wait(10)
            return [Outcome(GLOO)]
        begun.set()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                process.end_if_stopped()
            except process.Stopped:
                ended.append(plans[0])
                raise
        return []

    monkeypatch.setattr(resolvable, "_of_torch", of_torch)
    context = locks.context(Store(tmp_path), Sources(), {})
    asked = resolvable.outcomes([GLOO, NEWER], context, lambda _: [], 2)

    assert next(asked) == Outcome(GLOO)
    with suppress(KeyboardInterrupt):
        ends(asked)
    assert ended == [NEWER]
