"""Directories that last, and directories that do not."""

from __future__ import annotations

import pytest

from entrypoint.machine.places import choose_caches, list_caches, list_lost, move_models, read_mounts

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
