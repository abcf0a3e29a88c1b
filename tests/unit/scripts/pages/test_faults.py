"""The table of faults is as the tests that break something say, and these are held to it."""

from __future__ import annotations

import ast

import pytest

from scripts.pages.tables import Fault, read_faults
from tests.support.faults import Broken
from tests.support.harness import ROOT, Done

TEST = "cluster/test_pods.py::test_a_rank_dies"
ROW = Fault(
    TEST, "a rank dies", ("rank 1 on ... was killed | by signal 9",), {"the pod": 137, "the others": 1}, 30, "wait"
)
DONE = [Done(137, "", ""), Done(1, "", "x\nrank 1 on node1 was killed | by signal 9; y\n")]


def breaking_tests() -> list[str]:
    """List the tests in containers that take the fixture `broken`, as the rows name them."""
    files = [path for place in ("cluster", "image") for path in (ROOT / "tests" / place).glob("test_*.py")]
    return [
        f"{path.relative_to(ROOT / 'tests').as_posix()}::{node.name}"
        for path in files for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        and "broken" in [each.arg for each in node.args.args]
    ]  # fmt: skip


def test_every_test_that_breaks_something_has_a_row_and_every_row_such_a_test() -> None:
    assert sorted(row.test for row in read_faults()) == sorted(breaking_tests())


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param([DONE[0], Done(0, "", DONE[1].err)], id="another exit code"),
        pytest.param([DONE[1]], id="one end too few"),
        pytest.param([DONE[0], Done(1, "rank 1 on node1\n was killed | by signal 9", "")], id="in two lines"),
    ],
)
def test_ends_other_than_those_of_the_row_fail(ends: list[Done]) -> None:
    broken = Broken(ROW)

    with pytest.raises(AssertionError):
        broken.ended(*ends)
    assert not broken.checked
