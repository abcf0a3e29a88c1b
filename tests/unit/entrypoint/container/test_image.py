"""stack.json, and the versions in it."""

from __future__ import annotations

import json

import pytest

from entrypoint.container.image import Stack, read_stack, release
from entrypoint.errors import WORLD, Refusal

FACTS = {"torch": "2.13.0", "transformers": "5.23.0", "python": "3.11", "backend": "gloo", "examples": "", "site": "/s"}


def test_a_stack() -> None:
    assert read_stack(json.dumps(FACTS)) == Stack("2.13.0", "5.23.0", "3.11", "gloo", None, "/s")


def test_the_variables_of_an_image() -> None:
    text = json.dumps({**FACTS, "environment": {"I_MPI_ROOT": "/usr/local/opt/mpi"}})
    assert read_stack(text).environment == {"I_MPI_ROOT": "/usr/local/opt/mpi"}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({**FACTS, "environment": "A=1"}),
        None,
        "",
        "{",
        "[]",
        "null",
        *(json.dumps({**FACTS, "x": 0}).replace('"site"', '"y"'),),
    ],
)
def test_a_stack_that_is_missing_or_damaged(text: str | None) -> None:
    with pytest.raises(Refusal, match=r"stack\.json") as caught:
        read_stack(text)
    assert caught.value.code == WORLD


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("5.23.0", (5, 23)),
        ("4.46.0.dev0", (4, 46)),
        ("2.13.0+cpu", (2, 13)),
        ("1.9", (1, 9)),
        ("5", (0, 0)),
        ("x.y", (0, 0)),
    ],
)
def test_releases(version: str, numbers: tuple[int, int]) -> None:
    assert release(version) == numbers
