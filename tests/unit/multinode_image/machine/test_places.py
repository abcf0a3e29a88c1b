"""Directories that last, and directories that do not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from multinode_image.errors import Refusal
from multinode_image.machine.places import (
    check_output,
    choose_caches,
    explain_closed,
    find_closed,
    list_caches,
    list_lost,
    move_models,
    read_mounts,
)

INFO = "22 27 0:21 / / rw - overlay overlay rw\n23 22 0:22 / /workspace/my\\040output rw - ext4 /dev/sda rw\n"


def test_what_nothing_is_mounted_at_is_lost() -> None:
    points = [point for point, _, _ in read_mounts(INFO)]
    assert points == ["/", "/workspace/my output"]
    assert list_lost(["/workspace/my output/qa", "/workspace/my outputs"], points) == ["/workspace/my outputs"]
    assert list(read_mounts(None)) == []


@pytest.mark.parametrize(
    ("environ", "bad", "there", "moved"),
    [
        ({"HF_HOME": "/w/hf"}, "", "", {}),
        ({"HF_HOME": "/w/hf"}, "/w/hf", "", {"HF_HOME": "/h/.cache/huggingface"}),
        ({"HF_HOME": "/w"}, "/w", "/w/hub", {"HF_HOME": "/h/.cache/huggingface", "HF_HUB_CACHE": "/w/hub"}),
        ({"HF_HOME": "/w", "HF_HUB_CACHE": "/m"}, "/w", "/w/hub", {"HF_HOME": "/h/.cache/huggingface"}),
        ({"HF_HOME": "/w", "HUGGINGFACE_HUB_CACHE": "/m"}, "/w", "/w/hub", {"HF_HOME": "/h/.cache/huggingface"}),
        ({}, "", "", {}),
        ({}, "/h/.cache/huggingface", "", {}),
        ({"HF_HOME": "/h/.cache/huggingface"}, "/h/.cache/huggingface", "", {}),
    ],
)
def test_caches_that_cannot_be_written_are_moved(
    environ: dict[str, str], bad: str, there: str, moved: dict[str, str]
) -> None:
    assert choose_caches(environ, "/h", lambda path: path != bad, lambda path: path == there) == moved


@pytest.mark.parametrize(
    ("environ", "transformers", "moved"),
    [
        ({"TRANSFORMERS_CACHE": "/pvc/models"}, "5.23.0", {"HF_HUB_CACHE": "/pvc/models"}),
        ({"TRANSFORMERS_CACHE": "/pvc/models"}, "4.57.6", {}),
        ({"TRANSFORMERS_CACHE": "/pvc/models", "HF_HUB_CACHE": "/hub"}, "5.23.0", {}),
        ({}, "5.23.0", {}),
    ],
)
def test_models_stay_where_the_guide_puts_them(
    environ: dict[str, str], transformers: str, moved: dict[str, str]
) -> None:
    assert {each.name: each.value for each in move_models(environ, transformers)} == moved


@pytest.mark.parametrize(
    ("environ", "transformers", "caches"),
    [
        ({"HF_HOME": "/h"}, "5.23.0", {"caches": "/h"}),
        ({"HOME": "/home/me"}, "5.23.0", {"caches": "/home/me/.cache/huggingface"}),
        ({"HF_HOME": "/h", "TRANSFORMERS_CACHE": "/m"}, "4.57.6", {"models": "/m", "data sets": "/h/datasets"}),
        ({"HF_HOME": "/h", "TRANSFORMERS_CACHE": "/m"}, "5.23.0", {"caches": "/h"}),
        (
            {"HF_HOME": "/h", "HF_HUB_CACHE": "/m", "HF_DATASETS_CACHE": "/d"},
            "5.0.0",
            {"models": "/m", "data sets": "/d"},
        ),
    ],
)
def test_where_models_and_data_sets_are_kept(
    environ: dict[str, str], transformers: str, caches: dict[str, str]
) -> None:
    assert list_caches(environ, transformers) == caches


def test_what_another_user_has_left_in_a_cache_is_found(tmp_path: Path) -> None:
    for name in ("a/hub/.locks", "a/datasets", "b/datasets", "b/hub/models--x"):
        (tmp_path / name).mkdir(parents=True)
    closed = [str(tmp_path / name) for name in ("a/hub/.locks", "a/datasets", "b", "b/datasets", "b/hub/models--x")]
    found = find_closed([f"{tmp_path}/a", f"{tmp_path}/b", f"{tmp_path}/none"], lambda path: path not in closed)
    assert found == [f"{tmp_path}/a/datasets", f"{tmp_path}/a/hub/.locks"]  # b is not ours at all


def test_what_is_closed_is_named_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    mine = explain_closed("closed", str(tmp_path), "another")
    assert mine.value == f"{tmp_path} of uid {uid}, and this is uid {uid + 1}"
    assert f"--user {uid}:0" in mine.remedy and f"chown -R {uid + 1}" in mine.remedy and "another" in mine.remedy
    assert f"-v results:{tmp_path}/a/b" in explain_closed("closed", f"{tmp_path}/a/b").remedy


def test_each_directory_that_is_written_to_is_checked(tmp_path: Path) -> None:
    ours = f"{tmp_path}/_multinode"
    (tmp_path / "_multinode").mkdir()
    check_output((str(tmp_path), ours), lambda _: True, "--output_dir")
    with pytest.raises(Refusal, match="_multinode"):
        check_output((str(tmp_path), ours), lambda path: path != ours, "--output_dir")
