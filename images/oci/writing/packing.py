"""How layers are compressed: the settings of zstd, which decide the bytes as much as what is in a layer."""

from __future__ import annotations

import re
from collections.abc import Mapping

import zstandard

# The bytes of a compressed layer depend on all of these, and on the exact zstandard release in pyproject.toml, but on
# no number of threads above 0 (zstd documentation, ZSTD_c_nbWorkers). The tables, of 0.75 MB, stay in the second cache
# of a core: with those of four times as many bytes layers took half as long again to twice the time, for 3 % fewer.
USUAL = {
    "compression_level": 3,
    "window_log": 23,
    "chain_log": 16,
    "hash_log": 17,
    "job_size": 8 << 20,
    "overlap_log": 8,
    "threads": 1,
}
BASE, INTEL = "debian base", "intel runtime"
# Layers for which others are better: the base is made once for many images, and may take four times as long for 10 %
# fewer bytes; Intel's programs and libraries repeat each other at distances that larger tables remember.
OTHERWISE: Mapping[str, Mapping[str, int]] = {
    BASE: {"compression_level": 9, "chain_log": 20, "hash_log": 21, "threads": 2},
    INTEL: {"chain_log": 18, "hash_log": 19},
}


def parameters(layer: str) -> zstandard.ZstdCompressionParameters:
    """Return how the layer of a name is compressed."""
    return zstandard.ZstdCompressionParameters(**{**USUAL, **OTHERWISE.get(layer, {})})


def zstd_settings() -> dict[str, int]:
    """Return what layers are compressed with, as a lock names it; what differs in a layer has its name before it."""
    usual = _read_settings("")
    others = {layer: _read_settings(layer).items() - usual.items() for layer in OTHERWISE}
    named = {f"{layer} {name}": value for layer, changed in others.items() for name, value in sorted(changed)}
    return {"zstd-" + re.sub("[_ ]", "-", name): value for name, value in {**usual, **named}.items()}


def _read_settings(layer: str) -> dict[str, int]:
    settings = parameters(layer)
    return {name: getattr(settings, name) for name in USUAL}
