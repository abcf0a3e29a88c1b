"""A small sample of weights, and whether two ranks that have sampled alike have one model.

What is weighed is the distance of two ranks against how far both have moved since their first step: ranks that exchange
gradients on unlike processors are up to 4e-7 of it apart, and 6e-3 where the weights have 16 bits; ranks that train two
models 3.5e-3 at the least, with large batches of like data, and 4e-2 in 16 bits (torch 2.13).
"""

from __future__ import annotations

import functools
import math
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# What 1 and the next larger number of a type are apart; weights of any other type are not looked at.
EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
COUNT = 64  # elements of a sample
MARKS = {"_local_tensor", "_is_flat_param", "_fsdp_flattened"}  # of a parameter that is a part
LEAST = 8  # that have moved, if the sample says anything: what never moves is the same on all ranks
SPREAD = 2654435761  # a prime, so that the elements looked at lie anywhere in their parameters
EQUAL, DIFFERENT, UNKNOWN = "equal", "different", "unknown"


class Limits(NamedTuple):
    """By how much two ranks may differ: of what they have moved, and in units of the last place of an element."""

    ratio: float
    units: float


FULL, HALF = Limits(1e-3, 16), Limits(2e-2, 4)


class Place(NamedTuple):
    """An element of a sample: which parameter, which element of it, and the epsilon of its type."""

    parameter: int
    element: tuple[int, ...]
    epsilon: float


class Sample(NamedTuple):
    """The elements of a sample before the first step, and now."""

    start: tuple[float, ...]
    now: tuple[float, ...]

    def pack(self) -> bytes:
        """Return what another rank unpacks."""
        return array("d", (*self.start, *self.now)).tobytes()


class Distance(NamedTuple):
    """How far two ranks are apart.

    ratio: of what they have moved; units: of the last place, at the worst element; moved: how many elements have.
    """

    ratio: float
    units: float
    moved: int


def unpack(text: bytes) -> Sample:
    """Return a sample from its bytes."""
    values = array("d")
    values.frombytes(text)
    half = len(values) // 2
    return Sample(tuple(values[:half]), tuple(values[half:]))


def find_epsilon(parameter: Any) -> float:
    """Return the epsilon of a tensor's or an array's type; 0 for a type that is not looked at."""
    return find_epsilon_of(parameter.dtype)


@functools.cache
def find_epsilon_of(kind: Any) -> float:
    """Return the epsilon of a type, which is called once for a thousand parameters of it."""
    return EPSILONS.get(str(kind).rpartition(".")[2], 0.0)


def is_shared_out(parameter: Any) -> bool:
    """Return whether each rank has a part of a parameter: of DTensor (FSDP2, tensor parallel) or of FSDP1."""
    kind: Any = type(parameter)
    return is_of_parts(kind) or not MARKS.isdisjoint(getattr(parameter, "__dict__", ()))


@functools.cache
def is_of_parts(kind: Any) -> bool:
    """Return whether tensors of a type are parts; asking each of a thousand takes most of a millisecond."""
    return kind.__name__ == "FlatParameter" or hasattr(kind, "_local_tensor")


def choose_places(parameters: Sequence[Any], count: int = COUNT) -> tuple[Place, ...]:
    """Return the elements to look at: half of them of parameters spread evenly, half spread over all elements."""
    sizes = [math.prod(parameter.shape) if find_epsilon(parameter) else 0 for parameter in parameters]
    chosen: dict[tuple[int, int], None] = {}
    filled = [number for number, size in enumerate(sizes) if size]
    for turn in range(0, count, 2):
        if filled:
            number = filled[(turn + 1) * len(filled) // count]
            chosen[number, (turn + 1) * SPREAD % sizes[number]] = None
    number, before, total = 0, 0, sum(sizes)
    for turn in range(0, count, 2):
        at = (turn + 1) * total // count
        while number < len(sizes) and at >= before + sizes[number]:
            before, number = before + sizes[number], number + 1
        if number < len(sizes):
            chosen[number, at - before] = None
    return tuple(Place(number, unravel(at, parameters[number].shape), find_epsilon(parameters[number]))
                 for number, at in chosen)  # fmt: skip


def unravel(at: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of an element, from its number in a tensor of a shape."""
    index = []
    for size in reversed(shape):
        at, last = divmod(at, int(size))
        index.append(last)
    return tuple(reversed(index))


def read(parameters: Sequence[Any], places: Sequence[Place]) -> tuple[float, ...]:
    """Return the elements at some places."""
    values = []
    for place in places:
        parameter = parameters[place.parameter]
        values.append(float((parameter.detach() if hasattr(parameter, "detach") else parameter)[place.element]))
    return tuple(values)


def measure(mine: Sample, theirs: Sample, epsilons: Sequence[float]) -> Distance | None:
    """Return how far two samples are apart; None where they are of other elements, or hold what is no number."""
    numbers = (*mine.start, *mine.now, *theirs.start, *theirs.now)
    if not len(mine.now) == len(theirs.now) == len(epsilons) or not all(map(math.isfinite, numbers)):
        return None
    pairs = [*zip(mine.now, theirs.now)]
    far = max(math.dist(mine.start, mine.now), math.dist(theirs.start, theirs.now))
    apart = math.dist(mine.now, theirs.now)
    units = max((abs(a - b) / (e * max(abs(a), abs(b))) for (a, b), e in zip(pairs, epsilons) if a != b), default=0.0)
    moves = zip(mine.start, mine.now, theirs.start, theirs.now)
    moved = sum(a0 != a or b0 != b for a0, a, b0, b in moves)
    return Distance(apart / far if far else math.inf if apart else 0.0, units, moved)


def judge(distance: Distance | None, epsilons: Sequence[float]) -> str:
    """Return EQUAL, DIFFERENT or UNKNOWN.

    UNKNOWN is where too few elements have moved, and where the difference may be that of roundings: over the limit of
    one kind only.
    """
    if distance is None or distance.moved < max(1, min(LEAST, len(epsilons) // 2)):
        return UNKNOWN
    limits = HALF if max(epsilons) >= EPSILONS["float16"] else FULL
    if distance.ratio <= limits.ratio:
        return EQUAL
    return DIFFERENT if distance.units > limits.units else UNKNOWN
