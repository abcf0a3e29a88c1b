"""What is made of the losses of a Trainer in the image, by what a model does with the number of labels."""

from __future__ import annotations

from pathlib import Path

from tests.support.harness import run

SCRIPT = Path(__file__).with_name("mean_losses.py")


def test_a_mean_is_weighted_by_its_labels(image: str) -> None:
    options = ("--volume", f"{SCRIPT}:/workspace/losses.py:ro")

    done = run(image, "python3", "/workspace/losses.py", options=options, seconds=120)

    assert done.code == 0
    assert done.out.endswith(" losses are well\n")
    assert done.err.count(" returns the mean loss of its own batch") == 6
