"""The layers of four images that uv has chosen the files for, one of them with bytecode, are what they were.

tests/golden says how they are made and renewed; tests/unit/images/test_whole_builds.py makes them without uv.
"""

from __future__ import annotations

import pytest

from tests.golden import data, images


@pytest.mark.parametrize("name", images.IMAGES)
def test_an_image_is_what_it_was(name: str) -> None:
    described = images.described(images.IMAGES[name])

    different = data.difference("images", f"{name}.json", described)
    assert not different, f"{different}\n{data.REMEDY}"
