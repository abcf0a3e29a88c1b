"""Settings of zstd: those that a lock names are those that layers are compressed with."""

from __future__ import annotations

import pytest
import zstandard

from images.lock import lockfile
from images.oci import compression


@pytest.mark.parametrize("layer", ["torch", *compression.OTHERWISE])
def test_a_layer_is_compressed_as_a_lock_says(layer: str) -> None:
    named, found = compression.zstd_settings(), compression.parameters(layer)

    for name in compression.USUAL:
        usual = named[f"zstd-{name.replace('_', '-')}"]
        assert getattr(found, name) == named.get(f"zstd-{layer} {name}".replace(" ", "-").replace("_", "-"), usual)


@pytest.mark.parametrize(
    ("layer", "name"), [("torch", "zstd-compression-level"), (compression.BASE, "zstd-debian-base-compression-level")]
)
def test_what_a_lock_says_of_zstd_is_what_layers_are_made_with(
    monkeypatch: pytest.MonkeyPatch, layer: str, name: str
) -> None:
    """Whatever changes the parameters changes the lock, and `_other_tools` refuses another one."""
    usual = compression.parameters

    def change(one: str) -> zstandard.ZstdCompressionParameters:
        made = usual(one)
        if (one == compression.BASE) != (layer == compression.BASE):
            return made
        return zstandard.ZstdCompressionParameters(
            **{**{key: getattr(made, key) for key in compression.USUAL}, "compression_level": 7}
        )

    before = lockfile.tools()
    monkeypatch.setattr(compression, "parameters", change)

    assert {key: value for key, value in lockfile.tools().items() if before[key] != value} == {name: 7}
