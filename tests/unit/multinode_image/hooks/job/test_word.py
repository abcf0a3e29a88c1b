"""What ranks leave for what has started them, and what becomes of it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from multinode_image.hooks.job import word
from multinode_image.hooks.job.word import JOINING, WORD


def test_the_last_line_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    environ = {"OTHER": "1"}
    word.offer_place(environ)
    assert word.leave_last_line("trained\n", environ)
    again = {**environ}
    word.offer_place(again)
    assert again == environ and [*Path(environ[WORD]).iterdir()] == []

    assert word.leave_last_line("trained", environ) and word.take_last_line(environ) == ["trained"]
    assert not Path(environ[WORD]).exists() and word.take_last_line(environ) == []


@pytest.mark.parametrize("environ", [{}, {WORD: "/absent"}])
def test_without_a_place_nothing_can_be_left(environ: dict[str, str]) -> None:
    assert not word.leave_last_line("trained", environ) and word.list_words(environ, JOINING) == {}


@pytest.mark.parametrize("fails", [True, False])
def test_a_rank_leaves_word_while_it_waits_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setenv(WORD, str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    seen: list[dict[str, str]] = []

    def form(backend: str) -> str:
        seen.append(word.list_words(os.environ, JOINING))
        if fails:
            raise TimeoutError
        return backend

    module = SimpleNamespace(init_process_group=form)
    word.watch_groups(module)
    if fails:
        with pytest.raises(TimeoutError):
            module.init_process_group("gloo")
    else:
        assert module.init_process_group("gloo") == "gloo"
    assert seen == [{"3": ""}] and word.list_words(os.environ, JOINING) == {}
