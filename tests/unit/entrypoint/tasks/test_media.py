"""The tasks whose data are images or sound."""

from __future__ import annotations

import pytest

from entrypoint.needs.packages import BUILT, SOUND
from entrypoint.tasks.media import MEDIA
from entrypoint.tasks.tasks import TASKS


@pytest.mark.parametrize("name", TASKS)
def test_the_builder_has_packages_for_text_alone(name: str) -> None:
    assert (name in MEDIA) is (TASKS[name].directory not in BUILT)


def test_directories_with_sound_have_tasks() -> None:
    assert set(SOUND) <= {task.directory for task in MEDIA.values()}


@pytest.mark.parametrize("name", [name for name, task in MEDIA.items() if task.directory == "image-pretraining"])
def test_a_script_does_not_fall_back_to_its_own_data_set(name: str) -> None:
    """It is cifar10 in argparse, which datasets finds no more without its owner."""
    assert "--dataset_name uoft-cs/cifar10 " in MEDIA[name].defaults
