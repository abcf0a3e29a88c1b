"""What is a token in a file of an image is one in a manifest and in what is printed, and the other way round."""

from __future__ import annotations

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


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_both_know_a_token(token: str) -> None:
    text = f'key = "{token}"'

    assert SHAPES.search(text) and SECRET.search(text.encode())


@pytest.mark.parametrize("text", ["class='sk-toggleable__label-arrow-of-the-estimator'", "AKIASOMETHING", "task-1"])
def test_other_words_are_none_in_a_file(text: str) -> None:
    assert not SECRET.search(text.encode())
