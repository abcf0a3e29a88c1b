"""An image on a suite of Debian that is not the default trains: alone, and on two nodes over ssh."""

from __future__ import annotations

import re

import pytest

from images.plan import catalog
from tests.support.harness import EXAMPLES, IMAGES, build, call, remove_images

# Here, or where PyTorch keeps its own, which not every machine reaches.
NO_TORCH = ("no build of torch for the CPU", "cannot reach a package index")


@pytest.mark.slow
@pytest.mark.parametrize("row", catalog.load().suites[1:], ids=lambda row: row.suite)
def test_it_trains_alone_and_on_two_nodes(row: catalog.BaseRow, engine: None) -> None:
    tag = f"{IMAGES}:{row.suite}"
    built = build("--python", row.python, "--examples", str(EXAMPLES), "--tag", tag)
    if any(reason in built.err for reason in NO_TORCH):
        pytest.skip(f"no build of torch for the CPU and Python {row.python} was found: name one by PIP_FIND_LINKS")
    assert built.code == 0
    try:
        done = call(["scripts/smoke", tag], seconds=600)
    finally:
        remove_images([tag])

    assert done.code == 0
    assert re.findall(r"smoke: passed: world_size=(\d)", done.out) == ["1", "2"]
