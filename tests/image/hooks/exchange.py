"""In which type and order ranks send gradients, who has chosen it, and what a hook of the script's changes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from multinode_image.exchange import choice, codecs, hook
from multinode_image.hooks.step import gradients
from multinode_image.tuning.gradients import VARIABLE

BF16 = torch.bfloat16
LEAST = 256  # bytes of a large embedding


@pytest.fixture(autouse=True)
def least(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small embeddings be large ones; nobody has chosen."""
    monkeypatch.setattr(hook, "LEAST", LEAST)
    monkeypatch.delenv(VARIABLE, raising=False)


class Words(torch.nn.Module):
    """A large embedding between two layers, as parameters lie in a bucket."""

    def __init__(self, count: int = 32, used: int = 5) -> None:
        super().__init__()
        self.used, self.first, self.words = used, torch.nn.Linear(2, 2, bias=False), torch.nn.Embedding(count, 2)
        self.last = torch.nn.Linear(2, 3, bias=False)

    def forward(self, numbers: Any) -> Any:
        return self.last(self.first(numbers) + self.words(torch.arange(self.used)).sum(0))


class Float32Head(torch.nn.Sequential):
    """One whose last layer computes in float32, whatever is around it."""

    def forward(self, numbers: Any) -> Any:
        hidden = self[0](numbers)
        with torch.autocast("cpu", enabled=False):
            return self[1](hidden.float())


class Complex(torch.nn.Module):
    """One whose bucket isn't understood."""

    def __init__(self) -> None:
        super().__init__()
        self.real, self.wave = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2, dtype=torch.cfloat))

    def forward(self, numbers: Any) -> Any:
        return numbers * self.real * self.wave


def layers(*widths: int) -> Any:
    return torch.nn.Sequential(*(torch.nn.Linear(*pair, bias=False) for pair in itertools.pairwise(widths)))


@contextmanager
def record() -> Iterator[list[str]]:
    """Notice each collective for gradients of this rank."""
    sent = list[str]()

    def notice(name: str) -> Any:
        issue = getattr(codecs.Ranks, name)

        def run(self: Any, tensor: Any, *words: Any) -> Any:
            sent.append(f"{name} {tensor.numel()} {str(tensor.dtype).removeprefix('torch.')}")
            return issue(self, tensor, *words)

        return mock.patch.object(codecs.Ranks, name, run)

    with notice("sum"), notice("gather"), notice("swap"):
        yield sent


def step(parallel: Any, low: bool = False) -> None:
    """Run a forward and a backward pass, maybe in bfloat16."""
    weight = next(parallel.parameters())
    with torch.autocast("cpu", BF16) if low else nullcontext():
        out = parallel(torch.ones(1, 2, dtype=weight.dtype))
    out.abs().float().sum().backward()


def plain(dtype: Any = torch.float32) -> Any:
    return layers(2, 2, 3).to(dtype)


def words(dtype: str, packed: int) -> tuple[list[str], list[str]]:
    """Return what the first step sends of Words, and the third; packed: bytes of five rows with their places."""
    both = [f"sum 4 {dtype}", f"sum 6 {dtype}"]
    rows = f"gather {packed} uint8" if packed else f"sum 64 {dtype}"
    return [both[0], "gather 1 int64", both[1], rows], [both[1], "gather 1 int64", both[0], rows]


# In each: a model, what is chosen, what the first step sends, and the third. (A plain model has 10 numbers.)
SENT: dict[str, tuple[Callable[[], Any], str, list[str], list[str]]] = {
    "float32": (plain, "float32", ["sum 10 float32"], ["sum 10 float32"]),
    "bf16": (plain, "bf16", ["sum 10 bfloat16"], ["sum 10 bfloat16"]),
    "bf16, many": (plain, "bf16", ["swap 10 bfloat16", "gather 5 bfloat16"], ["swap 10 bfloat16", "gather 5 bfloat16"]),
    "bf16, float64": (lambda: plain(torch.float64), "bf16", ["sum 10 float64"], ["sum 10 float64"]),
    "int8": (plain, "int8", ["sum 10 float32"], ["swap 1032 int8", "gather 516 int8"]),
    "int8, float16": (lambda: plain(torch.float16), "int8", ["sum 10 float16"], ["sum 10 float16"]),
    "none": (plain, "", ["sum 10 float32"], ["sum 10 float32"]),
    "autocast": (plain, "", ["sum 10 float32"], ["sum 10 bfloat16"]),
    "autocast, float32": (plain, "float32", ["sum 10 float32"], ["sum 10 float32"]),
    "autocast, a head of float32": (
        lambda: Float32Head(*plain()), "", ["sum 10 float32"], ["sum 6 float32", "sum 4 bfloat16"]
    ),
    "rows": (Words, "float32", *words("float32", 40 + 20)),
    "rows in bf16": (Words, "bf16", *words("bfloat16", 20 + 20)),
    "rows of float64": (lambda: Words().double(), "bf16", *words("float64", 80 + 20)),
    "rows, autocast": (Words, "", words("float32", 40 + 20)[0], words("bfloat16", 20 + 20)[1]),
    "all rows": (lambda: Words(used=32), "bf16", *words("bfloat16", 0)),
    "a small embedding": (lambda: Words(31), "float32", ["sum 72 float32"], ["sum 72 float32"]),
    "complex": (Complex, "bf16", ["sum 4 float32", "sum 2 bfloat16"], ["sum 2 bfloat16", "sum 4 float32"]),
}  # fmt: skip
if not hasattr((torch.ones(1, requires_grad=True) * 2).grad_fn, "_input_metadata"):  # torch 2.4
    SENT["autocast, a head of float32"] = (lambda: Float32Head(*plain()), "", ["sum 10 float32"], ["sum 10 float32"])
    del SENT["complex"]  # its gloo refuses it


def send(name: str) -> Callable[[], Any]:
    """Return what trains as a row of SENT says, and returns what each of three steps has sent."""
    make, chosen, *_ = SENT[name]

    def act() -> list[list[str]]:
        os.environ[VARIABLE], hook.MANY = chosen, 2 if "many" in name else 3
        parallel, steps = DistributedDataParallel(make()), []
        with record() as sent:
            for _ in range(3):
                sent.clear()
                step(parallel, "autocast" in name)
                steps.append([*sent])
        return steps

    return act


def test_gradients_are_sent_as_it_was_chosen(run_ranks: Any) -> None:
    for (name, row), ranks in zip(SENT.items(), run_ranks(*map(send, SENT)), strict=True):
        for rank in ranks:
            assert [rank.result[0], rank.result[2]] == [*row[2:]], name


def test_a_bucket_goes_on_when_two_others_have_come_and_all_at_the_last_one(
    run_ranks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "bf16")
    monkeypatch.setattr(hook, "MANY", 2)

    def act() -> list[str]:
        parallel = DistributedDataParallel(layers(2, 2, 4, 8, 16), bucket_cap_mb=1e-7)
        step(parallel)
        with record() as sent:
            step(parallel)
        return sent

    order = ["swap 128", "swap 32", "swap 8", "gather 64", "swap 4", "gather 16", "gather 4", "gather 2"]
    assert [rank.result for rank in run_ranks(act)[0]] == [[f"{name} bfloat16" for name in order]] * 2


def test_what_is_sent_is_said_once_by_rank_0(run_ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "bf16")

    def train(steps: int) -> Callable[[], None]:
        def act() -> None:
            parallel = DistributedDataParallel(layers(2, 250, 2), bucket_cap_mb=1e-7)
            for _ in range(steps):
                step(parallel)

        return act

    done = run_ranks(train(2), train(3), train(5), size=3)

    assert [[len(rank.said.splitlines()) for rank in ranks] for ranks in done] == [[0] * 3, [1, 0, 0], [1, 0, 0]]
    assert all("sent as bf16: 2.7 kB a step instead of 5.3 kB" in ranks[0].said for ranks in done[1:])


def test_large_embeddings_are_sent_by_their_rows() -> None:
    large, small, sparse, tied = (torch.nn.Embedding(count, 2, sparse=count == 33) for count in (32, 31, 33, 34))
    bag, plain, back = torch.nn.EmbeddingBag(32, 2), torch.nn.Linear(2, 32), torch.nn.Linear(2, 34)
    back.weight = tied.weight
    model = torch.nn.ModuleList([large, large, torch.nn.Sequential(bag), small, sparse, tied, plain, back])

    assert hook.find_tables(model) == {id(large.weight), id(bag.weight)}


def test_waiting_is_counted_once_for_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(hook, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    model, seen = layers(2, 3, 2), gradients.Seen()
    model.append(torch.nn.Linear(2, 2).requires_grad_(False))

    hook.count_waiting(model, seen)
    for passes in (1, 2):
        model(torch.ones(1, 2)).sum().backward()
        assert seen.waited == passes


# Who has chosen it.


def choose() -> Any:
    return choice.CHOSEN.get(DistributedDataParallel(torch.nn.Linear(2, 2)))


def choose_of_an_older_torch() -> Any:
    with mock.patch.object(dist, "GradBucket", object):
        return choose()


def choose_without_a_reducer() -> Any:
    layer = torch.nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    options = {"delay_all_reduce_named_params": [("0.weight", layer.weight)], "param_to_hook_all_reduce": layer.weight}
    return choice.CHOSEN.get(DistributedDataParallel(torch.nn.Sequential(layer), **options))


# In each: the value of each rank, what is done, what was chosen or the exit code, what is said.
CHOSEN: list[tuple[list[str], Callable[[], Any], Any, str]] = [
    (["", ""], choose, "", ""),
    ([" bf16 ", "bf16"], choose, "bf16", ""),
    (["bf16", "int8"], choose, 2, f"{VARIABLE}=bf16 on rank 0, {VARIABLE}=int8 on rank 1\n"),
    (["", "bf16"], choose, 2, f"{VARIABLE}=(not set) on rank 0, {VARIABLE}=bf16 on rank 1\n"),
    (["", "", "bf16"], choose, 2, f"{VARIABLE}=(not set) on rank 0, {VARIABLE}=bf16 on rank 2\n"),
    (["gzip", "gzip"], choose, 2, "not known: 'gzip'"),
    (["bf16"], choose, None, ""),
    (["gzip"], choose, None, ""),
    (["bf16", "bf16"], choose_without_a_reducer, None, ""),
    (["bf16", "bf16"], choose_of_an_older_torch, "off", ""),
]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_what_was_chosen_is_one_thing_on_all_ranks(run_ranks: Any, size: int) -> None:
    def choose_by(values: list[str], act: Callable[[], Any]) -> Any:
        os.environ[VARIABLE] = values[dist.get_rank()]
        return act()

    rows = [row for row in CHOSEN if len(row[0]) == size]
    done = run_ranks(*(partial(choose_by, *row[:2]) for row in rows), size=size)

    for (values, _, chosen, said), ranks in zip(rows, done, strict=True):
        for rank in ranks:
            assert rank.result == chosen, values
            assert said in rank.said if said else not rank.said, values


def theirs(parallel: Any) -> None:
    parallel.register_comm_hook(None, allreduce_hook)


def built_in(parallel: Any) -> None:
    parallel._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)


def twice(parallel: Any) -> None:
    theirs(parallel)
    with pytest.raises(RuntimeError, match="only be called once"):
        built_in(parallel)


# In each: what is chosen, what a script does before its first pass, and after it, what is sent, if by us, what is said.
HOOKS: list[tuple[str, Any, Any, str, bool, str]] = [
    ("bf16", None, None, "bf16", True, ""),
    ("", None, None, "float32", True, ""),
    ("off", None, None, "off", False, ""),
    ("bf16", theirs, None, "script", False, "allreduce_hook"),
    ("off", theirs, None, "script", False, ""),
    ("bf16", built_in, None, "script", False, "torch's"),
    ("bf16", None, theirs, "script", False, "allreduce_hook"),
    ("bf16", None, built_in, "script", False, "torch's"),
    ("bf16", None, twice, "script", False, "allreduce_hook"),
    ("off", None, theirs, "off", False, ""),
]


def train_with(chosen: str, before: Any, between: Any) -> tuple[str, bool]:
    """Run two passes; return what was sent, and whether it was by our hook in the last one."""
    os.environ[VARIABLE] = chosen
    parallel = DistributedDataParallel(layers(2, 2))
    with record() as sent:
        for register in (before, between):
            if register:
                register(parallel)
            sent.clear()
            step(parallel)
    return gradients.SEEN.sent, bool(sent)


def test_our_hook_exchanges_unless_the_script_has_one_or_wants_none(run_ranks: Any) -> None:
    for row, ranks in zip(HOOKS, run_ranks(*(partial(train_with, *row[:3]) for row in HOOKS)), strict=True):
        assert [rank.result for rank in ranks] == [row[3:5]] * 2, row
        assert f"has registered, {row[5]}\n" in ranks[0].said if row[5] else not ranks[0].said, row
        assert not ranks[1].said, row


REFUSED = "join(divide_by_initial_world_size=False) needs another way of exchange"


def join(by_all: bool, passes: int) -> str:
    """Return what is sent where ranks may run out of batches after some passes, or how an error begins."""
    parallel = DistributedDataParallel(layers(2, 2))
    for _ in range(passes):
        step(parallel)
    try:
        with parallel.join(divide_by_initial_world_size=by_all):
            step(parallel)
    except RuntimeError as error:
        return str(error).split("; try: ")[0]
    return gradients.SEEN.sent


def test_where_ranks_may_run_out_of_batches_ddp_divides_by_those_that_have_some(run_ranks: Any) -> None:
    rows = {(True, 0): "float32", (False, 0): "off", (True, 1): "float32", (False, 1): REFUSED}
    for sent, ranks in zip(rows.values(), run_ranks(*(partial(join, *row) for row in rows)), strict=True):
        assert [rank.result for rank in ranks] == [sent] * 2
