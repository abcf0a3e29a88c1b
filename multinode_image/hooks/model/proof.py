"""What looks at weights have proved of the trainings of a process: an error, a warning, or the last line of its job.

Weights that differ though something was exchanged are no error by themselves: ranks that average their weights now and
then, parts of a pipeline and actors of reinforcement learning look the same. Nor are those of a first training without
a group, if one forms later: rank 0 may prepare something, or all ranks may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from multinode_image.hooks.model.weights import DIFFERENT, EQUAL, UNKNOWN

LAST = 64  # the step at which ranks that exchange nothing have trained two models: they may average now and then
PARTS, SHORT, STILL, NOBODY = (
    "each rank has a part of them",
    "it has made one step",
    "too few of those that were looked at have moved",
    "no other rank has shown any of such an optimizer",
)


class Look(NamedTuple):
    """How the weights of a rank were beside those of others, before the step after `step`.

    ratio: their distance, of what they have moved; exchanged: whether any collective was begun since the first step,
    None where nobody counts them.
    """

    step: int
    verdict: str
    ratio: float
    exchanged: bool | None


class Record(NamedTuple):
    """What is known of one optimizer among one set of ranks.

    name: "SGD of 6 parameters"; wrapped: whether all of them are in a DistributedDataParallel; parts: whether each rank
    has a part of them; whole: whether there was a group of the whole job; exchanged: as in Look, now.
    """

    name: str
    steps: int
    looks: tuple[Look, ...] = ()
    wrapped: bool = False
    parts: bool = False
    whole: bool = True
    exchanged: bool | None = None

    @property
    def verdict(self) -> str:
        """Return what the last two looks agree in: one alone may have come between two averages."""
        last = [look.verdict for look in self.looks[-2:]]
        return DIFFERENT if set(last) == {DIFFERENT} else next((one for one in reversed(last) if one == EQUAL), UNKNOWN)

    @property
    def apart(self) -> bool:
        """Return whether ranks have another model each, and have exchanged nothing."""
        return self.verdict == DIFFERENT and self.looks[-1].exchanged is False


def find_apart(records: Sequence[Record], *, ended: bool) -> Record | None:
    """Return a training in which ranks train another model each, if that is certain: at LAST, or when all has ended."""
    certain = (record for record in records if record.apart and (ended or record.looks[-1].step >= LAST))
    return next(certain, None)


def find_bare(records: Sequence[Record]) -> Record | None:
    """Return a training whose model differs at every look, beside one that is wrapped and equal: it was forgotten."""
    if not any(record.wrapped and record.verdict == EQUAL for record in records):
        return None
    return next((record for record in records if is_bare(record)), None)


def is_bare(record: Record) -> bool:
    """Return whether a model outside of any wrapper was never equal."""
    never = all(look.verdict == DIFFERENT for look in record.looks)
    return not record.wrapped and record.whole and never and len(record.looks) > 1


def find_unlike(records: Sequence[Record]) -> Record | None:
    """Return a training whose parameters are all in a DistributedDataParallel, and differ though gradients met."""
    return next(
        (record for record in records if record.wrapped and record.verdict == DIFFERENT and len(record.looks) > 1), None
    )


def show(record: Record) -> str:
    """Return the value of a message: which optimizer, when, and how far ranks are apart."""
    look = record.looks[-1]
    return f"{record.name}, at step {look.step:,}: {look.ratio:.2g} of what they have moved"


def describe(records: Sequence[Record], size: int) -> str:
    """Return what is proved of a job of so many ranks."""
    seen = [record for record in records if record.steps]
    differ = next((record for record in seen if record.verdict == DIFFERENT), None)
    equal = [record for record in seen if record.verdict == EQUAL]
    if differ is not None:
        return f"trained in a group of {size} ranks, whose weights differ ({show(differ)})"
    if not seen:
        return f"worked as a group of {size} ranks, in which no optimizer has made a step"
    if equal:
        return describe_equal(equal, size) + describe_rest(seen, equal)
    if all(record.parts and record.exchanged is not False for record in seen):
        return f"trained as one job of {size} ranks, each of which has a part of the weights"
    return f"trained in a group of {size} ranks, whose weights were not compared: {explain(seen[0])}"


def describe_equal(equal: Sequence[Record], size: int) -> str:
    """Return what equal weights prove."""
    met = [record for record in equal if record.exchanged is not False]
    last = max(met or equal, key=lambda record: record.steps)
    step = next(look.step for look in reversed(last.looks) if look.verdict == EQUAL)
    same = f"equal weights at step {step:,}"
    if not met:
        fact = f"{size} ranks have trained the same model, each by itself: {same}, and nothing was exchanged"
        return f"{fact}; do all read the same data?"
    later = "" if last.looks[-1].verdict == EQUAL else f", and other ones at step {last.looks[-1].step:,}"
    return f"trained as one job of {size} ranks, with {same}{later}"


def describe_rest(seen: Sequence[Record], equal: Sequence[Record]) -> str:
    """Return what has to be said of trainings that were not compared."""
    rest = [record for record in seen if record not in equal]
    if not rest:
        return ""
    names = rest[0].name + (f" and {len(rest) - 1} more" if rest[1:] else "")
    return f"; those of {names} were not compared: {explain(rest[0])}"


def explain(record: Record) -> str:
    """Return why the weights of a training were not compared."""
    if record.parts:
        return PARTS
    if record.looks:
        return STILL
    return SHORT if record.steps == 1 else NOBODY
