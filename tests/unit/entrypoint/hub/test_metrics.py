"""Mounted metrics, written to where evaluate looks without a network."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from entrypoint.hub.metrics import find_modules, hash_sources, place_metrics, read_metrics


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    directory = tmp_path / "metrics"
    for name, text in (
        ("squad/squad.py", "1"),
        ("squad/compute_score.py", "2"),
        ("squad/README.md", "3"),
        ("x/y.py", "4"),
    ):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"HF_HOME": "/hf"}, "/hf/modules/evaluate_modules/metrics"),
        ({"HOME": "/home/me"}, "/home/me/.cache/huggingface/modules/evaluate_modules/metrics"),
        ({"HF_HOME": "/hf", "HF_MODULES_CACHE": "/m"}, "/m/evaluate_modules/metrics"),
    ],
)
def test_the_cache_of_modules_follows_its_variables(environ: dict[str, str], place: str) -> None:
    assert find_modules(environ) == place


def test_a_metric_is_a_directory_with_a_script_of_its_name(mounted: Path, tmp_path: Path) -> None:
    assert read_metrics(str(mounted)) == {"squad": {"compute_score.py": b"2", "squad.py": b"1"}}
    assert read_metrics(str(tmp_path / "none")) == {}


def test_the_hash_is_one_of_names_and_contents() -> None:
    hashes = {hash_sources(files) for files in ({"a": b"1"}, {"b": b"1"}, {"a": b"2"}, {"a": b"", "b": b"1"}, {})}
    assert len(hashes) == 5 and {len(each) for each in hashes} == {64}


def test_a_metric_is_written_once_and_becomes_the_newest(mounted: Path, tmp_path: Path) -> None:
    environ = {"HF_MODULES_CACHE": str(tmp_path / "cache")}
    assert place_metrics(environ, str(mounted)) == []
    (script,) = (tmp_path / "cache").rglob("squad.py")
    os.utime(script, (1, 1))

    assert place_metrics(environ, str(mounted)) == []

    place = tmp_path / "cache/evaluate_modules/metrics/evaluate-metric--squad"
    assert [each.name for each in place.iterdir()] == [hash_sources(read_metrics(str(mounted))["squad"])]
    assert sorted(each.name for each in script.parent.iterdir()) == ["compute_score.py", "squad.py"]
    assert script.stat().st_mtime > 1


def test_a_metric_that_another_user_has_placed_is_no_hindrance(
    mounted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    (mounted / "ter").mkdir()
    (mounted / "ter/ter.py").write_text("5")
    monkeypatch.setattr(os, "utime", refuse)
    assert place_metrics({"HF_MODULES_CACHE": str(tmp_path / "cache")}, str(mounted)) == []
    assert len([*(tmp_path / "cache").rglob("*.py")]) == 3


def test_a_cache_that_cannot_be_written_is_a_note(mounted: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    (note,) = place_metrics({"HF_MODULES_CACHE": str(tmp_path / "cache")}, str(mounted))
    assert "Not a directory" in note and "HF_MODULES_CACHE" in note


def test_what_a_pod_of_the_same_number_has_left_is_no_hindrance(mounted: Path, tmp_path: Path) -> None:
    """Processes of pods that share a cache have the same small numbers."""
    place = tmp_path / "cache/evaluate_modules/metrics/evaluate-metric--squad"
    digest = hash_sources(read_metrics(str(mounted))["squad"])
    (place / f"{digest}.{os.getpid()}").mkdir(parents=True)
    assert place_metrics({"HF_MODULES_CACHE": str(tmp_path / "cache")}, str(mounted)) == []
    assert (place / digest / "squad.py").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_another_pod_may_write_the_same_at_the_same_time(
    mounted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    def rename(aside: str, place: str) -> None:
        if is_there:
            shutil.copytree(aside, place)
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    monkeypatch.setattr(os, "rename", rename)
    notes = place_metrics({"HF_MODULES_CACHE": str(tmp_path / "cache")}, str(mounted))

    assert [note for note in notes if "Directory not empty" not in note] == [] and len(notes) == (0 if is_there else 1)
    place = tmp_path / "cache/evaluate_modules/metrics/evaluate-metric--squad"
    assert [each.name for each in place.iterdir()] == [hash_sources(read_metrics(str(mounted))["squad"])] * is_there
