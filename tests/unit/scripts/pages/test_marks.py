"""What is made stands between its marks alone; all else of a page is written."""

from __future__ import annotations

import pytest

from images.host.errors import UserFault
from scripts.pages import parts
from scripts.pages.marks import PART, written

CODES = "<!-- made: exit codes -->\n"
END = "<!-- end -->\n"


def test_a_part_is_made_anew_and_the_rest_stays() -> None:
    text = parts.fill(f"before\n{CODES}old\n{END}after `{CODES.strip()}`\n")

    assert text.startswith(f"before\n{CODES}| code |") and text.endswith(f" |\n{END}after `{CODES.strip()}`\n")
    assert parts.fill(text) == text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"{CODES}{END}", ["exit codes"]),
        (f"{CODES}a\n\n{END}b\n<!-- made: tasks -->\n{END}", ["exit codes", "tasks"]),
        (f"{CODES}without an end\n<!-- made: tasks -->\n{END}", ["tasks"]),
        (CODES, []),
        (f"  {CODES}{END}", []),
        (f"<!-- other -->\n{END}", []),
    ],
)
def test_a_part_has_both_marks_at_the_beginning_of_lines(text: str, names: list[str]) -> None:
    assert [part["name"] for part in PART.finditer(text)] == names


def test_a_part_that_nobody_makes_is_refused() -> None:
    with pytest.raises(UserFault) as caught:
        parts.fill(f"<!-- made: nothing -->\n{END}")

    assert caught.value.value == "nothing" and "exit codes" in caught.value.remedy


def test_what_is_made_does_not_count_and_lines_keep_their_numbers() -> None:
    text = written(f"one\n{CODES}| code |\nmade words\n{END}two `{CODES.strip()}`\n")

    assert text == f"one\n\n\n\n\ntwo `{CODES.strip()}`\n"
