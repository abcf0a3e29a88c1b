"""The table of faults is as the tests that break something say, and these are held to it."""

from __future__ import annotations

import time

import pytest

from scripts.faults import HEAD, PAGE, fill, read_faults, write_row
from tests.support.faults import Broken, Fault, fault, read_fault
from tests.support.harness import Done

ROW = Fault("a rank dies", ("rank 1 on ... was killed | by signal 9",), {"the pod": 137, "the others": 1}, 30, "wait")
DONE = [Done(137, "", ""), Done(1, "", "x\nrank 1 on node1 was killed | by signal 9; y\n")]


def test_the_page_is_as_the_script_writes_it() -> None:
    text = PAGE.read_text()

    assert fill(text, read_faults()) == text, "scripts/faults.py --write writes it anew"


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(SystemExit, match="no markers"):
        fill("no table here", [ROW])


def test_a_row_has_the_words_of_its_test() -> None:
    row = r"| a rank dies | `rank 1 on ... was killed \| by signal 9` | 137 (the pod), 1 (the others) | 30 s | wait |"

    assert write_row(ROW) == f"{row}\n"
    assert (
        fill("a <!-- faults -->\nold\n<!-- end --> b", [ROW]) == f"a <!-- faults -->\n\n{HEAD}{row}\n\n<!-- end --> b"
    )


def test_a_test_is_marked_with_its_row() -> None:
    @fault("a rank dies", "it died", codes=1, within=30, remedy="wait")
    def test() -> None: ...

    assert read_fault(test) == Fault("a rank dies", ("it died",), {"": 1}, 30, "wait")
    assert read_fault(print) is None


def test_every_row_has_something_to_tell() -> None:
    rows = read_faults()

    assert rows
    assert [row for row in rows if not (row.what and row.said and row.codes and row.within > 0 and row.remedy)] == []
    assert len({row.what for row in rows}) == len(rows)


def test_ends_as_the_row_says_are_right() -> None:
    broken = Broken(ROW)

    broken.ended(*DONE)

    assert broken.checked


def test_one_code_is_that_of_all() -> None:
    broken = Broken(Fault("a rank dies", (), {"": 1}, 30, "wait"))

    broken.ended(Done(1, "", ""), Done(1, "", ""))

    with pytest.raises(AssertionError):
        broken.ended(Done(1, "", ""), Done(0, "", ""))


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param([DONE[0], Done(0, "", DONE[1].err)], id="another exit code"),
        pytest.param([DONE[1]], id="one end too few"),
        pytest.param([DONE[0], Done(1, "rank 1 on node1\n was killed | by signal 9", "")], id="in two lines"),
    ],
)
def test_other_ends_fail(ends: list[Done]) -> None:
    broken = Broken(ROW)

    with pytest.raises(AssertionError):
        broken.ended(*ends)
    assert not broken.checked


def test_the_deadline_ends_whatever_waits() -> None:
    broken = Broken(Fault("a rank dies", (), {}, within=1, remedy=""))

    with pytest.raises(pytest.fail.Exception, match="no end after 1 s"), broken.happens():
        time.sleep(20)
