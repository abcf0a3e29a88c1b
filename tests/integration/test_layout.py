"""An image as a registry has it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.harness import built, call
from tests.support.stores import SMALL


@pytest.mark.parametrize("compression", ["zstd", pytest.param("gzip", marks=pytest.mark.slow)])
def test_a_layout_is_in_registry_form(tmp_path: Path, compression: str) -> None:
    layout = f"{tmp_path}/layout/"
    answer = built(*SMALL, "--output", layout, "--compression", compression)

    entry = json.loads((tmp_path / "layout/index.json").read_text())["manifests"][0]
    assert entry["digest"] == answer["digest"]
    if shutil.which("skopeo"):
        inspected = call(["skopeo", "inspect", "--raw", f"oci:{layout}"])
        assert {row["mediaType"].rpartition("+")[2] for row in json.loads(inspected.out)["layers"]} == {compression}
