"""What is said of a process that failed."""

from __future__ import annotations

import pytest

from images.host.process import Result


@pytest.mark.parametrize(
    ("err", "said"),
    [
        ("I: going on\nE: no space\nE: giving up\n", "E: no space E: giving up"),
        ("W: slow\nkilled\n", "killed"),
        ("", "exit code 7"),
    ],
)
def test_a_failure_of_apt_says_its_errors(err: str, said: str) -> None:
    assert Result(7, "", err).complaint == said


@pytest.mark.parametrize(
    ("err", "said"),
    [
        ("first\nlast: na\u00efve\n", "last: na\u00efve"),
        ("\x1b]0;a title\x07\x1b[2Jgone\x9b1m", "?]0;a title??[2Jgone?1m"),
        ("", "exit code 7"),
    ],
)
def test_a_failure_is_a_line_that_does_not_steer_the_terminal(err: str, said: str) -> None:
    assert Result(7, "", err).failure == said
    assert Result(0, "", err).failure is None
