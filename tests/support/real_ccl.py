"""The wheels of a real oneCCL stack, which no package index has whole; MULTINODE_CCL names what makes them.

That is a directory with a program `wheelhouse`, which puts three wheels for Python 3.11 into a directory that it is
given: torch 2.4.0 for the CPU, IPEX 2.4.0 and the oneCCL bindings 2.4.0. Without it the tests of the stack are skipped.
`python -m tests.support.real_ccl` makes the wheels ahead of the tests.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from images.store.store import default_root
from tests.support.harness import alone, call

VARIABLE = "MULTINODE_CCL"
WHEELS = ("torch-2.4.0", "intel_extension_for_pytorch-2.4.0", "oneccl_bind_pt-2.4.0")
# The release of the wheels, and the tasks that want least.
OPTIONS = ("--torch", "2.4.0", "--tasks", "question-answering")
MOST_SECONDS = 600  # downloads 900 MB and repacks a wheel of 800 MB


def is_at_hand() -> bool:
    """Say whether the wheels can be had."""
    return bool(os.environ.get(VARIABLE))


def has_wheels(place: Path) -> bool:
    """Say whether a directory has all the wheels of the stack."""
    return all(list(place.glob(f"{name}*.whl")) for name in WHEELS)


def wheelhouse() -> Path:
    """Return the directory with the wheels, made once and kept beside the store; skip where they cannot be had."""
    maker = os.environ.get(VARIABLE)
    if not maker:
        pytest.skip(f"the real oneCCL stack was NOT tested: set {VARIABLE} to a directory with a program `wheelhouse`")
    place = default_root(os.environ).with_name("multinode-ccl")
    with alone("wheels"):
        if not has_wheels(place):
            make(maker, place)
    return place


def make(maker: str, place: Path) -> None:
    """Run the maker and keep the wheels, not what it has downloaded; the place has all of them or none."""
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="multinode-ccl-", dir=place.parent) as name:
        assert call([f"{maker}/wheelhouse", name], seconds=MOST_SECONDS).code == 0
        assert has_wheels(Path(name))
        for wheel in Path(name).glob("*.whl"):
            wheel.replace(place / wheel.name)


if __name__ == "__main__":
    wheelhouse()
