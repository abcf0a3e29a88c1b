"""Settings of zstd: those that a lock names are those that layers are compressed with."""

from __future__ import annotations

import pytest

from images.oci.writing import packing


@pytest.mark.parametrize("layer", ["torch", *packing.OTHERWISE])
def test_a_layer_is_compressed_as_a_lock_says(layer: str) -> None:
    named, found = packing.zstd_settings(), packing.parameters(layer)

    for name in packing.USUAL:
        usual = named[f"zstd-{name.replace('_', '-')}"]
        assert getattr(found, name) == named.get(f"zstd-{layer} {name}".replace(" ", "-").replace("_", "-"), usual)
