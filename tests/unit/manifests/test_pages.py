"""The commands of scripts/manifest.py that the pages show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.documents import Shown, pages
from tests.support.manifests import run

PROGRAM = "python scripts/manifest.py "
SHOWN = [shown for each in pages() for shown in each.shown if shown.text.startswith(PROGRAM)]


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in a directory with the scripts that the pages speak of."""
    for name in ("train.py", "sweep.py"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


def read_typed(shown: Shown) -> list[str]:
    """Return the words of a command, without what reads its output."""
    return shlex.split(re.split(" [|>] ", shown.text.removeprefix(PROGRAM))[0])


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.place)
def test_a_command_of_a_page_prints_a_manifest(shown: Shown) -> None:
    printed = run(*(word.replace("<DIGEST>", "0" * 64) for word in read_typed(shown)))

    assert printed.manifest["kind"]
    assert shown.output is None or printed.err.strip() == shown.output.strip()


@pytest.mark.parametrize("shown", [each for each in SHOWN if "<DIGEST>" in each.text], ids=lambda shown: shown.place)
def test_what_stands_in_the_place_of_a_digest_is_refused(shown: Shown) -> None:
    printed = run(*read_typed(shown))

    assert (printed.code, printed.out) == (2, "")
    assert "that is not a digest" in printed.err and "\n  try: --image registry.example/multinode" in printed.err


@pytest.mark.parametrize("shown", [each for each in SHOWN if " --script " in each.text], ids=lambda shown: shown.place)
def test_a_page_types_the_script_that_pods_run(shown: Shown) -> None:
    words = read_typed(shown)

    assert words[words.index("--script") + 1] in words[words.index("--script") + 2 :]
