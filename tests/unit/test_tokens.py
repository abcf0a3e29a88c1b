"""What is a token in a file of an image is one in a manifest and in what is printed, and the other way round.

In a file it is one only where it is surely none of the many words of a program: entrypoint/printing/secrets.py is
stricter with names, images/plan/user_files.py with what follows the beginning of a token.
"""

from __future__ import annotations

import re

import pytest

from entrypoint.printing.secrets import SHAPES
from images.plan.user_files import SECRET

LETTERS = "a1B2c3D4e5" * 4
TOKENS = {
    "Hugging Face": f"hf_{LETTERS[:34]}",
    "GitHub": f"ghp_{LETTERS[:36]}",
    "GitHub, fine-grained": f"github_pat_{LETTERS}",
    "GitLab": f"glpat-{LETTERS[:20]}",
    "OpenAI": f"sk-proj-{LETTERS}",
    "Slack": f"xoxb-123456789012-{LETTERS[:24]}",
    "AWS": "AKIA" + "A1B2C3D4E5F6G7H8",
}


def list_beginnings(pattern: str) -> set[str]:
    """Return how the tokens of a pattern begin, such as `gh[opsu]_`."""
    word = re.compile(r"(?:\\b|\(|\?:|\s)*([A-Za-z]+(?:\[\w+\])?[A-Za-z_]*[-_]|AKIA)")
    return {match[1] for part in pattern.split("|") if (match := word.match(part))}


def test_both_know_the_same_beginnings() -> None:
    here, there = list_beginnings(SHAPES.pattern), list_beginnings(SECRET.pattern.decode())

    assert here == there, "a token is a part of SHAPES of printing/secrets.py and of SECRET of plan/user_files.py"
    assert [each for each in here if not any(re.match(each, token) for token in TOKENS.values())] == []


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_both_know_a_token(token: str) -> None:
    text = f'key = "{token}"'

    assert SHAPES.search(text) and SECRET.search(text.encode())


@pytest.mark.parametrize("text", ["class='sk-toggleable__label-arrow-of-the-estimator'", "AKIASOMETHING", "task-1"])
def test_other_words_are_none_in_a_file(text: str) -> None:
    assert not SECRET.search(text.encode())
