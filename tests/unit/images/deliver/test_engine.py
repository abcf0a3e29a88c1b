"""Which engine is taken, and what is said of those that are not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from images.deliver import engine
from images.deliver.engine import EngineRow, choose_engine, find_engine
from images.host.errors import Fault, WorldFault

TAKEN = Path("taken")
DENIED = WorldFault("Docker cannot be used", "/var/run/docker.sock (Permission denied)", "join the group")
ODD = WorldFault("podman does not work", "no subuid", "podman info")


class Answering:
    """An engine that is there."""

    name = "podman"


@pytest.mark.parametrize(
    ("rows", "asked", "elsewhere", "taken", "said"),
    [
        ([None, Answering], None, False, True, ""),
        ([DENIED, Answering], None, False, True, "note: the image goes into podman: Docker cannot be used: /var/run/"),
        ([None, None], None, False, False, "kept nowhere: no Docker, no podman; start Docker (or install podman), or"),
        ([DENIED, ODD], None, False, False, "(Permission denied); podman does not work: no subuid; join the group, or"),
        ([DENIED, None], None, True, False, "the image is not loaded: Docker cannot be used"),
        ([None, None], None, True, False, ""),
        ([Answering, None], False, False, False, ""),
    ],
)
def test_the_first_engine_that_answers_is_taken_and_an_image_that_is_kept_nowhere_is_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
    rows: Sequence[object], asked: bool | None, elsewhere: bool, taken: bool, said: str,
) -> None:  # fmt: skip
    answering(monkeypatch, rows)
    told = list[str]()

    found = choose_engine(asked, {}, told.append, elsewhere=elsewhere)

    assert (found is not None) is taken
    assert len(told) == bool(said) and all(said in line for line in told)


@pytest.mark.parametrize(
    ("rows", "value", "remedy"),
    [([None, None], "no Docker, no podman", "start Docker"), ([DENIED, None], DENIED.value, DENIED.remedy)],
)
def test_an_engine_that_has_to_be_there_is_missed(
    monkeypatch: pytest.MonkeyPatch, rows: Sequence[object], value: str, remedy: str
) -> None:
    answering(monkeypatch, rows)

    with pytest.raises(Fault) as caught:
        choose_engine(True, {}, pytest.fail)
    assert value in caught.value.value and caught.value.remedy.startswith(remedy)
    assert "--no-load --output FILE" in caught.value.remedy


def answering(monkeypatch: pytest.MonkeyPatch, rows: Sequence[object]) -> None:
    """Have these engines: one that answers, None, or the fault of one that cannot be used."""

    def connect(row: object) -> Any:
        if isinstance(row, Fault):
            raise row
        return row() if row is Answering else None

    monkeypatch.setattr(
        engine,
        "ENGINES",
        [EngineRow(n, lambda *_, row=row: connect(row)) for n, row in zip(("Docker", "podman"), rows, strict=True)],
    )


def test_without_any_engine_nothing_is_found() -> None:
    assert find_engine({"PATH": "/nowhere", "DOCKER_HOST": "unix:///nowhere"}).engine is None
