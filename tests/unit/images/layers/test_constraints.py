"""Which packages of an image pip may not replace, by what real wheels require."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from images.base.base import BaseImage
from images.layers import entrypoint_layer
from images.lock.lock import Lock
from images.platforms import ARM64
from tests.support import locks

# Name -> version and Requires-Dist, of a default image.
RECORDED = json.loads((Path(__file__).parents[3] / "data/requires.json").read_text())
REQUIRES = {name: each["requires"] for name, each in RECORDED.items()}
HELD = {"torch", "transformers", "accelerate", "tokenizers", "safetensors", "huggingface-hub", "numpy", "sympy"}
FREE = {"pandas", "datasets", "pyarrow", "scikit-learn", "evaluate", "pip"}


def recorded(**changes: Any) -> Lock:
    return locks.lock([locks.artifact(name, each["version"]) for name, each in RECORDED.items()], **changes)


def held(text: str) -> dict[str, str]:
    return dict(line.split("==") for line in text.splitlines())


def test_what_training_works_with_is_held_and_nothing_else() -> None:
    found = held(entrypoint_layer.format_constraints(recorded(), REQUIRES))

    assert {*found} >= HELD and not {*found} & FREE
    assert all(found[name] == RECORDED[name]["version"] for name in found if name != "numpy")
    assert found["numpy"] == RECORDED["numpy"]["version"].partition(".")[0] + ".*"


def test_what_a_base_has_itself_is_held_as_it_is() -> None:
    base = BaseImage(None, ("pandas",))  # type: ignore[arg-type]

    assert {*held(entrypoint_layer.format_constraints(recorded(base_image=base), REQUIRES))} & FREE == {"pandas"}


@pytest.mark.parametrize(
    ("line", "is_held"),
    [
        ("six", True),
        ("Six (>=1.0)", True),
        ("six>=1.0.*", True),
        ('six; python_version < "3.9"', False),
        ('six; platform_machine == "aarch64"', False),
        ('six; sys_platform == "win32"', False),
        ('six; extra == "dev"', False),
        ("more[dev]", True),
        ("more", False),
        ("???", False),
        ('six; os_name ~= "posix"', True),
        (f"six; {'(' * 10_000}", True),
        ('six; platform_release >= "1"', False),
    ],
)
def test_a_requirement_counts_where_the_image_has_it(line: str, is_held: bool) -> None:
    lock = locks.lock([*locks.lock().artifacts, locks.artifact("six", "1.17"), locks.artifact("more", "1")])
    requires = {"torch": [line], "more": ['six; extra == "dev"']}

    assert ("six" in held(entrypoint_layer.format_constraints(lock, requires))) is is_held


def test_a_requirement_is_that_of_the_images_machine() -> None:
    lock = locks.lock([*locks.lock().artifacts, locks.artifact("six", "1")], platform=ARM64)

    assert "six" in held(entrypoint_layer.format_constraints(lock, {"torch": ['six; platform_machine == "aarch64"']}))
