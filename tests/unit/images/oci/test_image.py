"""The configuration: the fields that engines read, and the same bytes every time."""

from __future__ import annotations

import json

from images.model import Layer, Written
from images.oci import image

PARTS = (
    Layer("base", Written("a" * 64, "b" * 64, 10, 100), reused=True),
    Layer("torch", Written("c" * 64, "d" * 64, 20, 200), reused=False),
)


def test_the_configuration_names_uncompressed_layers_in_order() -> None:
    made = json.loads(image.config(PARTS, {"User": "1000:0"}, "2026-01-01T00:00:00Z"))

    assert made["rootfs"]["diff_ids"] == ["sha256:" + "a" * 64, "sha256:" + "c" * 64]
    assert [row["created_by"] for row in made["history"]] == ["multinode: base", "multinode: torch"]
    assert made["config"] == {"User": "1000:0"}


def test_whether_a_layer_was_reused_does_not_show() -> None:
    again = tuple(Layer(part.name, part.written, not part.reused) for part in PARTS)

    assert image.config(PARTS, {}, "t") == image.config(again, {}, "t")
