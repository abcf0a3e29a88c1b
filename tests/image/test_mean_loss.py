"""Whether a step of a Trainer in the image has the gradients of one process with the same batch, whatever the model."""

from __future__ import annotations

import pytest

from tests.image.forked import OPTIONS
from tests.support.harness import run

FEW = ("tokens", "GPT-2", "CTC, mean", "router", "own mean without **kwargs", "own largest")


@pytest.mark.parametrize(
    ("ranks", "names"), [(2, FEW), *(pytest.param(ranks, (), marks=pytest.mark.slow) for ranks in (1, 2, 4))]
)
def test_a_step_has_the_gradients_of_one_batch(image: str, ranks: int, names: tuple[str, ...]) -> None:
    words = ("python3", "/ranks/forked.py", str(ranks), "mean_losses", *names)

    done = run(image, *words, options=OPTIONS, seconds=600)

    assert done.code == 0
    assert done.out.endswith(" kinds of losses are well\n")
    assert done.err.count("BertForTokenClassification returns the mean loss of its own batch") >= 1
    assert done.err.count("Largest has a loss that is neither the sum nor the mean") >= 1
