"""A change of the code that makes bytes is never answered with what older code made, nor takes it away."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import checkout
from tests.support.checkout import REQUEST, Built, Checkout

LAYER = "images/oci/writing/layer_writer.py"
# What is changed: the source, a text in it, and what stands there instead.
CHANGES = {
    "the mode of files": (LAYER, "mode: int = 0o644", "mode: int = 0o640"),
    "the name of the installer": ("images/layers/wheel.py", 'b"multinode\\n"', 'b"another\\n"'),
}


class First(NamedTuple):
    """Sources, and the image that they built with an empty cache."""

    sources: Checkout
    image: Built


@pytest.fixture(scope="module")
def first(module_path: Path) -> First:
    sources = checkout.make(module_path)
    return First(sources, sources.build(*REQUEST))


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_makes_new_layers_and_going_back_has_the_old_ones(first: First, what: str) -> None:
    file, old, new = CHANGES[what]
    sources = first.sources

    sources.replace(file, old, new)
    try:
        changed = sources.build(*REQUEST)
    finally:
        sources.replace(file, new, old)
    back = sources.build(*REQUEST)

    assert changed.reused == []
    assert changed.digest != first.image.digest
    assert back.new == []
    assert back.digest == first.image.digest
