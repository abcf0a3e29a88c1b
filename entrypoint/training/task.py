"""What is known of an example script of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# Kinds: a script of the Trainer; one that uses accelerate directly; one with flags of its own, which does not train.
TRAINER, ACCELERATE, OTHER = "trainer", "accelerate", "other"


class Task(NamedTuple):
    """A script below examples/pytorch, its defaults as a command line, and what it trains.

    since: the first release of transformers whose script takes the defaults; unless: defaults that make no sense beside
    other flags, as in UNLESS of arguments.py.
    """

    script: str
    defaults: str
    about: str
    kind: str = TRAINER
    since: tuple[int, int] = (0, 0)
    unless: Mapping[str, tuple[str, ...]] = {}

    @property
    def trains(self) -> bool:
        """Return whether many processes can work on it."""
        return self.kind != OTHER

    @property
    def directory(self) -> str:
        """Return the directory of the examples that the script and its requirements are in."""
        return self.script.split("/")[0]


# Pieces of the defaults.
TRAIN = "--do_train --do_eval "
BATCH = "--per_device_train_batch_size {} "
EVAL = "--per_device_eval_batch_size {} "
