"""Which gradients come from computing in bfloat16, as the graph of a pass says, and what ranks agree on by it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from multinode_image.exchange.origins import Agreement, Origins, find_kept, is_uniform, list_pieces, read_autocast
from multinode_image.hooks.step import gradients

BF16, HALF = torch.bfloat16, torch.float16
TELLS = hasattr(
    (torch.ones(1, requires_grad=True) * 2).grad_fn, "_input_metadata"
)  # of a graph its types; 2.4 does not
needs_types = pytest.mark.skipif(not TELLS, reason="this torch tells no types")


class Double(torch.autograd.Function):
    """A function of Python, whose inside is in no graph."""

    @staticmethod
    def forward(_: Any, number: Any) -> Any:
        return number * 2

    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        return gradient * 2


# In each: a loss of two parameters, those with a gradient from float32, and those where not all is in bfloat16.
GRAPHS: dict[str, tuple[Callable[[Any, Any], Any], str, str | None]] = {
    "nothing": (lambda a, b: torch.ones(1), "", ""),
    "float32": (lambda a, b: a * b, "ab", "ab"),
    "one of both": (lambda a, b: a * b.detach(), "a", "a"),
    "bfloat16": (lambda a, b: (a.bfloat16() * b.bfloat16()).float(), "", ""),
    "bfloat16 to the loss": (lambda a, b: a.bfloat16() * b.bfloat16(), "", ""),
    "bfloat16 on one way": (lambda a, b: a.bfloat16().float() * b, "b", "b"),
    "bfloat16 on one of two ways": (lambda a, b: a.bfloat16().float() + a + b.bfloat16(), "a", "a"),
    "two ways": (lambda a, b: a.square() + a, "a", "a"),
    "an output among several": (lambda a, b: torch.stack([a, b]).unbind()[1].bfloat16() + a, "a", "a"),
    "another type": (lambda a, b: (a.half() + b.bfloat16().half()).float(), "a", "a"),
    "a function of Python": (lambda a, b: Double.apply(a) + b, "b", None),
    "one in bfloat16": (lambda a, b: Double.apply(a.bfloat16()).float() + b, "b", "b"),
    "one that takes bfloat16": (lambda a, b: Double.apply(a.bfloat16()) + b, "b", "b"),
}


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_gradient_is_kept_where_a_path_has_no_bfloat16(name: str, uniform: bool) -> None:
    compute, *expected = GRAPHS[name]
    if not TELLS and name != "nothing":
        expected = ["", None]
    parameters = {letter: torch.nn.Parameter(torch.ones(1)) for letter in "ab"}

    kept = find_kept([compute(*parameters.values())], uniform)

    names = kept and sorted(letter for letter, weight in parameters.items() if any(weight is one for one in kept))
    assert (kept is None, "".join(names or [])) == (expected[not uniform] is None, expected[not uniform] or "")
    assert kept is None or len(kept) == len(names or [])


class Two(torch.nn.Module):
    """One with an output in bfloat16 and one in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)

    def forward(self, numbers: Any) -> Any:
        return self.low(numbers).bfloat16(), self.high(numbers)


@needs_types
def test_what_ddp_puts_between_a_model_and_its_outputs_hides_no_type(run_ranks: Any) -> None:
    def act() -> list[bool]:
        model = Two()
        low, high = DistributedDataParallel(model, find_unused_parameters=True)(torch.ones(1, 1))
        assert low.grad_fn.name() == "_DDPSinkBackward"
        kept = find_kept([low.float() + high], False)
        return [any(layer.weight is weight for weight in kept or []) for layer in (model.low, model.high)]

    assert run_ranks(act, size=1)[0][0].result == [False, True]


@pytest.mark.parametrize(
    ("entered", "autocast", "uniform"),
    [([BF16], None, True), ([BF16, None], BF16, False), ([HALF], BF16, False), ([], BF16, True), ([], None, False),
     ([], HALF, False)],
)  # fmt: skip
def test_a_pass_is_uniform_where_all_that_was_entered_is_bfloat16(
    entered: list[Any], autocast: Any, uniform: bool
) -> None:
    with torch.autocast("cpu", autocast) if autocast else nullcontext():
        assert is_uniform(entered) is uniform


@pytest.mark.parametrize("dtype", [BF16, HALF, None])
def test_autocast_is_asked_as_torch_before_2_4_has_it(dtype: Any) -> None:
    with (
        torch.autocast("cpu", dtype or BF16, enabled=dtype is not None),
        mock.patch.object(torch, "is_autocast_enabled", lambda: pytest.fail("of another device")),
    ):
        assert read_autocast() is dtype


@needs_types
@pytest.mark.parametrize(
    ("in_bf16", "compute", "unknown", "kept"),
    [
        (True, lambda weight: weight * 2, False, True),
        (True, lambda weight: (weight * 2, weight), False, True),
        (True, lambda weight: weight.bfloat16(), False, False),
        (True, Double.apply, True, False),
        (True, lambda weight: object(), True, False),
        (False, lambda weight: weight * 2, True, False),
    ],
)
def test_what_is_known_of_a_pass(in_bf16: bool, compute: Any, unknown: bool, kept: bool) -> None:
    origins, weight = Origins(), torch.nn.Parameter(torch.ones(1))
    origins.passes = 4

    origins.begin(compute(weight), in_bf16, [])
    assert (origins.passes, origins.within, origins.unknown) == (5, True, 5 if unknown else 0)
    assert origins.is_kept(id(weight)) is kept and not origins.is_kept(7)
    origins.end()
    assert not origins.within
    origins.forget([id(weight), 7])
    assert not origins.is_kept(id(weight))


@needs_types
def test_a_parameter_that_is_gone_has_left_its_id_to_another() -> None:
    origins, weight = Origins(), torch.nn.Parameter(torch.ones(1))
    origins.begin(weight * 2, True, [])
    identity = id(weight)
    assert origins.is_kept(identity)

    del weight
    gc.collect()
    assert not origins.is_kept(identity)


def test_a_pass_within_one_is_a_part_of_it(run_ranks: Any) -> None:
    def act() -> tuple[int, int]:
        origins = gradients.SEEN.watch(Origins)
        layer = torch.nn.Linear(2, 2)
        for _ in range(2):
            checkpoint(layer, torch.ones(1, 2, requires_grad=True), use_reentrant=True).sum().backward()
        return origins.passes, origins.within

    assert run_ranks(act, size=1)[0][0].result == (2, False)


class Layer(torch.nn.Linear):
    """One with a parameter of no numbers."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(2, 3, dtype=dtype)
        self.empty = torch.nn.Parameter(torch.ones(0, 3, dtype=dtype))

    def forward(self, numbers: Any) -> Any:
        return super().forward(numbers.to(self.weight.dtype)) + self.empty.sum()


# In each: a model, and where the gradients of its bucket begin and end; None for one that isn't understood.
BUCKETS: dict[str, tuple[Callable[[], Any], Any]] = {
    "float32": (lambda: Layer(torch.float32), [(0, 6), (6, 9)]),
    "float16": (lambda: Layer(HALF), [(0, 6), (6, 9)]),
    "float64": (lambda: Layer(torch.float64), [(0, 6), (6, 9)]),
    "complex": (lambda: Layer(torch.complex64), None),
    "sparse": (lambda: torch.nn.EmbeddingBag(4, 2, sparse=True), None),
}
if not TELLS:
    del BUCKETS["complex"]  # gloo of such a torch refuses it


def list_bucket(make: Callable[[], Any]) -> Any:
    """Return what the only bucket of a pass consists of."""
    parallel, seen = DistributedDataParallel(make()), list[Any]()

    def look(_: object, bucket: Any) -> Any:
        pieces = list_pieces(bucket)
        seen.append(None if pieces is None else [(piece.start, piece.end) for piece in pieces])
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    look.__annotations__.clear()  # they are strings here, which torch refuses
    parallel.register_comm_hook(None, look)
    parallel(torch.ones(1, 2, dtype=torch.long)).abs().sum().backward()
    (bucket,) = seen
    return bucket


def test_a_bucket_is_understood_where_its_gradients_are_all_of_it(run_ranks: Any) -> None:
    done = run_ranks(*(partial(list_bucket, make) for make, _ in BUCKETS.values()), size=1)

    for (name, (_, pieces)), (rank,) in zip(BUCKETS.items(), done, strict=True):
        assert rank.result == pieces, name


Act = str  # what a rank does in a pass
AGREED: list[tuple[Act, Act, str, str]] = [
    # Of rank 0 and of rank 1; parameters sent as bfloat16 by what the last pass allows, and what this one does.
    ("low", "low", "", "ab"),
    ("low", "low", "ab", "ab"),
    ("keeps b", "low", "ab", "a"),
    ("low", "low", "a", "ab"),  # what was kept has been exchanged
    ("low", "unknown", "ab", ""),
    ("low", "unseen, low", "", ""),  # a pass without an exchange, of which nothing is known
    ("low", "low", "", "ab"),
    ("no pass", "low", "ab", ""),
    ("joined", "low", "", "ab"),
    ("unknown, joined", "low", "ab", ""),
    ("low", "keeps a", "", "b"),
    ("keeps b", "keeps a", "b", ""),
]


@needs_types
def test_ranks_send_what_the_last_pass_allows_and_keep_what_this_one_does_not(run_ranks: Any) -> None:
    def act() -> list[tuple[str, str]]:
        weights = {name: torch.nn.Parameter(torch.ones(2)) for name in "ab"}
        origins, done = Origins(), []
        agreement = Agreement([*map(id, weights.values())], origins)

        def look(kept: str, in_bf16: bool) -> None:
            low = [(weight if name in kept else weight.bfloat16()).sum().float() for name, weight in weights.items()]
            origins.begin(low[0] + low[1], in_bf16, [BF16])

        def name_all(asked: Callable[[Sequence[int]], bool]) -> str:
            assert asked([]) and not asked([id(weights["a"]), 7])
            return "".join(name for name, weight in weights.items() if asked([id(weight)]))

        for of_ranks in AGREED:
            doing = of_ranks[dist.get_rank()]
            if "unseen" in doing:
                look("", in_bf16=False)
            if doing not in ("no pass", "joined"):
                look(doing[6:] if "keeps" in doing else "", in_bf16="unknown" not in doing)
            agreement.ask(None, joined="joined" in doing)
            done.append((name_all(agreement.expects), name_all(agreement.holds)))
            origins.end()
            assert agreement.conclude() is bool(done[-1][1])
        return done

    assert [rank.result for rank in run_ranks(act)[0]] == [[row[2:] for row in AGREED]] * 2


@pytest.mark.parametrize(("within", "holds"), [(True, False), (False, True)])
def test_a_pass_that_goes_on_where_ranks_begin_to_agree_counts(run_ranks: Any, within: bool, holds: bool) -> None:
    def act() -> bool:
        origins, weight = Origins(), torch.nn.Parameter(torch.ones(2))
        origins.begin(None, False, [])
        origins.within = within
        agreement = Agreement([id(weight)], origins)
        origins.within = True
        agreement.ask(None, joined=False)
        return agreement.holds([id(weight)])

    assert [rank.result for rank in run_ranks(act, size=1)[0]] == [holds]
