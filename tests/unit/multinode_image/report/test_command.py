"""What `report` is asked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

import pytest

from multinode_image.errors import EXIT_USER, Refusal
from multinode_image.report.command import MOST, write_report


def train(place: Path) -> str:
    (place / "_multinode").mkdir(parents=True)
    file = place / "_multinode/history.jsonl"
    file.write_text('{"began": 1, "step": 0, "script": "train.py"}\n')
    os.utime(file, (1, ord(place.name[-1])))
    return str(place)


@pytest.mark.parametrize(
    ("words", "title"), [([], "train.py in"), (["a/", "b"], "a, b"), (["c"], "train.py in"), (["."], "b, a")]
)
def test_a_page_goes_to_stdout(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    title: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b", "a", "a/c"):
        train(tmp_path / name)

    assert write_report(words, f"{tmp_path}/a") == 0
    assert f"<h1>{title}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "terminal", "value"),
    [
        (["--html"], False, "--html"), (["none"], False, "none"), (["one", "empty"], False, "empty"),
        (["one"], True, "stdout"), ([*map(str, range(MOST + 1))], False, f"{MOST + 1} of {MOST}"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], terminal: bool, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", *map(str, range(MOST + 1))):
        train(tmp_path / name)
    (tmp_path / "empty").mkdir()

    with mock.patch.object(sys.stdout, "isatty", lambda: terminal), pytest.raises(Refusal) as refused:
        write_report(words, "none")

    assert refused.value.code == EXIT_USER and value in refused.value.value


def test_of_many_trainings_in_a_directory_the_newest_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(MOST + 1):
        train(tmp_path / str(number))

    assert write_report([str(tmp_path)], "") == 0
    assert f"the newest {MOST} of {MOST + 1} trainings" in capsys.readouterr().out
