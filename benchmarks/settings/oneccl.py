"""oneCCL against gloo, where the wheels of its stack can be had."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures.measured import Figures
from benchmarks.host.commands import call
from benchmarks.host.scratch import Scratch
from benchmarks.settings.pair import SMALL, Group, keep
from benchmarks.settings.scenes import step
from benchmarks.sides.multinode import Multinode
from images.host.errors import UserFault
from images.store.store import default_root

VARIABLE = "MULTINODE_CCL"
WHEELS = ("torch-2.4.0", "intel_extension_for_pytorch-2.4.0", "oneccl_bind_pt-2.4.0")
OPTIONS = ("--torch", "2.4.0", "--transformers", "4.46.3", "--tasks", "question-answering", "--base", "debian")


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train two containers of the stack with oneCCL by both backends, in turn."""
    with figures.optional("oneCCL"):
        scratch.say("the image with oneCCL")
        wheels = str(wheelhouse(os.environ, scratch.directory / "wheelhouse"))
        image = scratch.image("ccl")
        Multinode(scratch.directory, (), shared=True).run(
            *OPTIONS, "--examples", "none", "--wheelhouse", wheels, "--tag", image
        )
        two = Group(scratch, image)
        for number in range(runs):
            scratch.say(f"oneCCL against gloo, {number + 1} of {runs}")
            apart = two.apart(SMALL)
            for backend in ("ccl", "gloo"):
                seconds = step(two.together([*SMALL.words, "--backend", backend]))
                keep(figures, f"8x128 {backend}", apart, seconds)


def has_wheels(place: Path) -> bool:
    """Return whether a directory has all the wheels of the stack."""
    return all(list(place.glob(f"{name}*.whl")) for name in WHEELS)


def wheelhouse(environ: Mapping[str, str], place: Path) -> Path:
    """Return a directory with the wheels: the one that the tests keep beside the store, or one made now.

    Raises UserFault when nothing says how they are made.
    """
    kept = default_root(environ).with_name("multinode-ccl")
    if has_wheels(kept):
        return kept
    maker = environ.get(VARIABLE)
    if not maker:
        raise UserFault("nothing makes the wheels with oneCCL", f"{VARIABLE} is not set", f"{VARIABLE}=DIRECTORY")
    place.mkdir()
    call([f"{maker}/wheelhouse", str(place)])
    return place
