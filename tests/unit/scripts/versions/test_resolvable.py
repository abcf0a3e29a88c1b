"""Which pairs cover the table, and what is said of each."""

from __future__ import annotations

import pytest
from packaging.version import Version

from images.host.errors import Fault, UserFault, WorldFault
from images.plan import catalog, planner
from images.plan.request import Request
from scripts.versions import resolvable
from scripts.versions.resolvable import Outcome

TABLE = catalog.load()
PLANS = resolvable.chosen(TABLE)
CCL = planner.make_plan(Request(torch="2.4.0", transformers="4.46.3", base="debian"), TABLE)
NOTHING = UserFault("no set of packages fits", "six>=99 cannot be had", "another")
NO_INDEX = WorldFault("cannot reach a package index", "https://index.example/simple/six/", "a proxy")


def asked(torch: str) -> list[tuple[str, str, str]]:
    """List the transformers, base and backend of the rows of a torch."""
    rows = [plan for plan in PLANS if plan.torch == torch]
    return [(plan.transformers, plan.base, plan.backend) for plan in rows]


def test_every_release_of_torch_and_both_ends_of_every_range_are_asked() -> None:
    ranges: dict[str, list[Version]] = {}
    for version, row in sorted(TABLE.transformers.items()):
        if row.yanked is None:
            ranges.setdefault(row.era, []).append(version)

    assert {Version(plan.torch) for plan in PLANS} == set(TABLE.torch)
    ends = {end for found in ranges.values() for end in (found[0], found[-1])}
    assert ends <= {Version(plan.transformers) for plan in PLANS}
    assert all(TABLE.transformers[Version(plan.transformers)].yanked is None for plan in PLANS)


def test_every_range_is_asked_with_every_line_of_torch_that_it_goes_with() -> None:
    row = next(row for row in TABLE.transformers.values() if row.era == "4.52")  # requires torch >=2.1,<2.7

    lines = {
        Version(plan.torch).release[:2]
        for plan in PLANS
        if TABLE.transformers[Version(plan.transformers)].era == row.era
    }

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


@pytest.mark.parametrize(
    ("faults", "code", "said"),
    [
        ([], 0, "0 rows: 0 ok, 0 fail, 0 not asked"),
        ([None, None], 0, "2 rows: 2 ok, 0 fail, 0 not asked"),
        ([None, NO_INDEX], 1, "2 rows: 1 ok, 0 fail, 1 not asked"),
        ([NOTHING, None, NO_INDEX], 2, "3 rows: 1 ok, 1 fail, 1 not asked"),
    ],
)
def test_a_row_that_fails_decides_before_one_that_was_not_asked(
    faults: list[Fault | None], code: int, said: str
) -> None:
    found = [Outcome(CCL, fault=fault) for fault in faults]

    assert (resolvable.exit_code(found), resolvable.summary(found)) == (code, said)
