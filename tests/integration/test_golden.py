"""The layers of three images are what they were; tests/golden says how they are made and renewed."""

from __future__ import annotations

import pytest

from tests.golden import data, images


@pytest.mark.parametrize("name", images.IMAGES)
def test_an_image_is_what_it_was(name: str) -> None:
    made = images.described(images.IMAGES[name])

    different = data.difference("images", f"{name}.json", made)
    assert not different, f"{different}\n{data.REMEDY}"


def test_no_image_is_left_over() -> None:
    assert data.recorded("images").keys() == {f"{name}.json" for name in images.IMAGES}
