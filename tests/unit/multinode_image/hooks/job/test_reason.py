"""What a rank leaves for its agent, in the file that torch reads."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.__main__ import main
from multinode_image.hooks.job.reason import FILE, leave_reason, read_reason, read_time
from tests.support.launchers import left_by

PARTS = ["no shared memory is left", "/dev/shm has 64 MB", "docker run --shm-size 1g"]


def read(path: Path) -> Any:
    """Return what torch's agent reads there."""
    return SimpleNamespace(message=json.loads(path.read_text())["message"])


def test_the_agent_has_what_the_rank_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 41.5)
    path = tmp_path / "error.json"

    leave_reason(PARTS, {FILE: str(path)})
    leave_reason(["another"] * 3, {FILE: str(path)})

    assert read_reason(read(path)) == tuple(PARTS) and read_time(read(path)) == 41.5
    assert [*tmp_path.iterdir()] == [path]
    report = read(path).message  # as torch prints it: without the value, which may have a password
    assert report["extraInfo"]["timestamp"] == "41" and "py_callstack" not in report["extraInfo"]
    assert PARTS[0] in report["message"] and PARTS[1] not in report["message"]


def test_a_traceback_that_torch_has_left_stays(tmp_path: Path) -> None:
    path, extra = tmp_path / "error.json", {"py_callstack": "Traceback", "timestamp": "7"}
    path.write_text(json.dumps({"message": {"message": "OSError: 28", "extraInfo": extra}}))

    leave_reason(PARTS, {FILE: str(path)})

    assert read_reason(read(path)) == tuple(PARTS)
    assert extra.items() <= read(path).message["extraInfo"].items() and read(path).message["message"] == "OSError: 28"


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"message": "a text"}'])
def test_a_file_that_is_not_torchs_stays_as_it_is(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / ("error.json" if text is not None else "gone/error.json")
    if text is not None:
        path.write_text(text)

    leave_reason(PARTS, {FILE: str(path)})
    leave_reason(PARTS, {})

    assert (path.read_text() if path.exists() else None) == text


@pytest.mark.parametrize(
    "message", ["a text", {}, {"extraInfo": None}, {"extraInfo": {"multinode": {"parts": ["one"]}}}]
)
def test_a_rank_that_has_left_nothing_has_no_reason(message: object) -> None:
    assert read_reason(SimpleNamespace(message=message)) is None and read_time(SimpleNamespace(message=message)) == 0
    assert read_reason(SimpleNamespace()) is None


def test_a_rank_that_is_refused_before_its_script_leaves_word(tmp_path: Path) -> None:
    environ = {**left_by("torchrun-worker"), "MULTINODE_COUNTS": "1", "MULTINODE_WORLD_SIZE": "8"}

    code = main(["rank", "x.py"], {**environ, FILE: str(tmp_path / "error.json")}, "/nowhere")

    reason = read_reason(read(tmp_path / "error.json"))
    assert code == 2 and reason is not None and reason[1] == "2 of 8"
