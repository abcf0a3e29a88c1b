"""Settings of zstd: those that a lock names are those that layers are compressed with."""

from __future__ import annotations

import pytest

from images.layers import assemble
from images.oci import packing


def test_every_layer_with_settings_of_its_own_is_one_of_an_image() -> None:
    assert packing.OTHERWISE.keys() <= {packing.BASE, *(name for name, _ in assemble.GROUPS)}


@pytest.mark.parametrize("layer", ["torch", *packing.OTHERWISE])
def test_a_layer_is_compressed_as_a_lock_says(layer: str) -> None:
    named, found = packing.settings(), packing.parameters(layer)

    for name in packing.USUAL:
        usual = named[f"zstd-{name.replace('_', '-')}"]
        assert getattr(found, name) == named.get(f"zstd-{layer} {name}".replace(" ", "-").replace("_", "-"), usual)
