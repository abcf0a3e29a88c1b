"""The command that names scripts of Debian's packages which nobody has read, asked of Debian's archive."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from images.context import Context
from images.dpkg import suites as known
from images.plan.catalog import BaseRow
from images.platforms import Platform
from scripts import maintainer_scripts as command

EDITOR = "nano.postinst"  # chooses it as an alternative


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lend a copy of the table, which the command may change."""
    place = Path(shutil.copy(known.KNOWN, tmp_path))
    monkeypatch.setattr(known, "KNOWN", place)
    known.read_known.cache_clear()
    return place


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the archive for each system once, however often the command is run: that takes seconds."""
    asked, ask = dict[Platform, command.System](), command._system

    def system(row: BaseRow, platform: Platform, more: Sequence[str], context: Context) -> command.System:
        if platform not in asked:
            asked[platform] = ask(row, platform, more, context)
        return asked[platform]

    monkeypatch.setattr(command, "_system", system)


def run(*words: str) -> int:
    known.read_known.cache_clear()
    return command.main(["--suite", "bookworm", "nano", *words], os.environ)


def test_a_script_is_shown_and_known_when_somebody_has_read_it(
    table: Path, once: None, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads(table.read_text())
    assert EDITOR not in before

    assert run() == 1
    said = capsys.readouterr()
    assert "update-alternatives" in said.out and f"--known {EDITOR}=nothing" in said.err
    assert run("--known", f"{EDITOR}=rows") == 2, "there are no such rows"
    assert run("--known", f"{EDITOR}=something") == 2
    assert run("--known", "dash.postinst=nothing") == 2, "that one is known"
    assert json.loads(table.read_text()) == before

    assert run("--known", f"{EDITOR}=nothing") == 0
    assert run() == 0
    after = json.loads(table.read_text())
    assert {name: after[name] for name in before} == before and after.keys() - before == {EDITOR}
