"""Mounted metrics, copied to where evaluate looks without a network."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from entrypoint.tasks.metrics import place_metrics


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    directory = tmp_path / "metrics"
    for name in ("squad/squad.py", "squad/compute_score.py", "squad/README.md", "x/y.py", "file.py"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)
    return directory


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"HF_HOME": "{}/hf"}, "hf/modules"),
        ({"HOME": "{}/me"}, "me/.cache/huggingface/modules"),
        ({"HF_HOME": "{}/hf", "HF_MODULES_CACHE": "{}/m"}, "m"),
    ],
)
def test_a_metric_is_written_once_and_becomes_the_newest(
    mounted: Path, tmp_path: Path, environ: dict[str, str], place: str
) -> None:
    """Evaluate takes a directory whose name has 64 digits, and of several the newest."""
    environ = {name: value.format(tmp_path) for name, value in environ.items()}
    assert place_metrics(environ, str(mounted)) == []
    (script,) = (tmp_path / place).rglob("squad.py")
    os.utime(script, (1, 1))

    assert place_metrics(environ, str(mounted)) == []

    metrics = tmp_path / place / "evaluate_modules/metrics"
    assert [*metrics.iterdir()] == [metrics / "evaluate-metric--squad"]
    assert sorted(each.name for each in script.parent.iterdir()) == ["compute_score.py", "squad.py"]
    assert len(script.parent.name) == 64 and script.stat().st_mtime > 1

    (mounted / "squad/squad.py").write_text("another")
    place_metrics(environ, str(mounted))
    assert len([*(metrics / "evaluate-metric--squad").iterdir()]) == 2


def test_a_cache_that_cannot_be_written_is_a_note(mounted: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    (note,) = place_metrics({"HF_MODULES_CACHE": str(tmp_path / "cache")}, str(mounted))
    assert "Not a directory" in note and "HF_MODULES_CACHE" in note


@pytest.mark.parametrize("is_there", [True, False])
def test_another_pod_may_write_the_same_at_the_same_time(
    mounted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    def rename(aside: str, place: str) -> None:
        if is_there:
            shutil.copytree(aside, place)
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    monkeypatch.setattr(os, "rename", rename)
    assert len(place_metrics({"HF_MODULES_CACHE": str(tmp_path / "cache")}, str(mounted))) == (not is_there)
    place = tmp_path / "cache/evaluate_modules/metrics/evaluate-metric--squad"
    assert len([*place.iterdir()]) == is_there
