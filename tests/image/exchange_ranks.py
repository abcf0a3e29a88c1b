"""What two or three ranks run in a container: models of many kinds train with a hook and without one, side by side.

Each case prints nothing and fails with what is wrong: a gradient that differs from plain DDP's by more than it may, or
from that of another rank at all. The last rank computes as an old processor does, whose last bits are others.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

os.environ.update(
    {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1
    else {}
)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

VARIABLE = "MULTINODE_GRADIENTS"
WORDS, STEPS = 7_000, 3
FEW = 6  # generated models that each run compares
LEAST = 400_000  # bytes from which an embedding is a large one here, a tenth of what it is else


class Model(torch.nn.Module):
    """A large embedding below two layers; sizes that fill no block, no word and no share of a rank to its end."""

    def __init__(self, words: int = WORDS, width: int = 18, *, sparse: bool = False) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(words, width, sparse=sparse)
        self.places = torch.nn.Embedding(7, width)
        self.hidden = torch.nn.Linear(width, 301)
        self.last = torch.nn.Linear(301, 5)
        self.unused = torch.nn.Linear(3, 3)

    def forward(self, words: Any) -> Any:
        places = torch.arange(words.shape[1]) % 7
        return self.last(torch.tanh(self.hidden((self.words(words) + self.places(places)).mean(1))))


class Tied(Model):
    """One whose last layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.back = torch.nn.Linear(5, 18)
        self.out = torch.nn.Linear(18, WORDS, bias=False)
        self.out.weight = self.words.weight

    def forward(self, words: Any) -> Any:
        return self.out(self.back(super().forward(words))).logsumexp(1, keepdim=True)


class Sometimes(Model):
    """One with a layer that the first rank alone computes with."""

    def forward(self, words: Any) -> Any:
        out = super().forward(words)
        return out + self.unused(out[:, :3]).sum() if dist.get_rank() == 0 else out


class Checkpointed(Model):
    """One that computes a part of it again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant, self.middle = reentrant, torch.nn.Sequential(torch.nn.Linear(5, 70), torch.nn.Linear(70, 5))

    def forward(self, words: Any) -> Any:
        out = super().forward(words)
        return torch.utils.checkpoint.checkpoint(self.middle, out, use_reentrant=self.reentrant)


class Picture(Model):
    """One with weights that lie in memory in another order, one of no dimension, and one of no number."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = torch.nn.Conv2d(2, 40, 3, padding=1).to(memory_format=torch.channels_last)
        self.back = torch.nn.Conv2d(40, 2, 3, padding=1).to(memory_format=torch.channels_last)
        self.scale = torch.nn.Parameter(torch.tensor(1.5))
        self.empty = torch.nn.Parameter(torch.zeros(0, 3))

    def forward(self, words: Any) -> Any:
        shown = self.words(words).view(-1, 2, 9, 9).contiguous(memory_format=torch.channels_last)
        return super().forward(words) * self.scale + self.back(self.picture(shown)).mean() + self.empty.sum()


class Spectral(Model):
    """One with complex weights, beside real ones of the same type and of another."""

    def __init__(self) -> None:
        super().__init__()
        self.wave = torch.nn.Parameter(torch.randn(3, 10, dtype=torch.cfloat))
        self.fine = torch.nn.Parameter(torch.randn(10, dtype=torch.cdouble))

    def forward(self, words: Any) -> Any:
        waves = torch.fft.rfft(self.words(words).mean(1))[:, None] * self.wave * self.fine
        return super().forward(words) + waves.abs().sum((1, 2))[:, None]


TYPES = (*3 * [torch.float32], torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128)
SIZES = (0, 1, 1, 2, 3, 5, 31, 64, 257)


class Generated(Model):
    """One of a seed: parameters of many types and shapes, some of them frozen, shared, or used by some ranks only."""

    def __init__(self, seed: int) -> None:
        super().__init__(sparse=seed % 5 == 0)
        draw = random.Random(seed)
        self.parts = torch.nn.ModuleList()
        self.left_out = set[tuple[int, int]]()  # a part, and a rank that computes without it
        for number in range(draw.randrange(1, 12)):
            shape = [draw.choice(SIZES) for _ in range(draw.randrange(4))]
            part = torch.nn.Module()
            part.weight = torch.nn.Parameter(torch.randn(shape).to(draw.choice(TYPES)))
            part.weight.requires_grad_(draw.random() < 0.8)
            self.parts.append(part)
            if draw.random() < 0.2:
                self.parts.append(draw.choice(list(self.parts)))
            self.left_out.update((number, rank) for rank in range(3) if draw.random() < 0.15)
        if draw.random() < 0.3:
            self.words.weight.requires_grad_(False)
        if draw.random() < 0.3:
            self.hidden.weight = torch.nn.Parameter(self.hidden.weight.detach().double())
            self.hidden.forward = lambda shown: torch.tanh(shown.double() @ self.hidden.weight.T).float()
            del self.hidden.bias

    def forward(self, words: Any) -> Any:
        out, rank = super().forward(words), dist.get_rank()
        for number, part in enumerate(self.parts):
            if (number, rank) not in self.left_out:
                out = out + (part.weight.abs().float() * (1 + rank + number)).sin().sum()
        return out


def generate(seed: int, choice: str) -> Case:
    """Return a case of a seed: a model, and how it is wrapped."""
    draw = random.Random(-seed - 1)
    options: dict[str, Any] = {"find_unused_parameters": True, "gradient_as_bucket_view": draw.random() < 0.5}
    if draw.random() < 0.8:
        options["bucket_cap_mb"] = draw.choice([1e-7, 1e-4, 0.001, 0.01, 0.1])
    return Case(lambda: Generated(seed), options, choice, used=True, passes=draw.choice([1, 1, 2]), learns=False)


def mixed() -> Model:
    model = Model()
    model.last.double()
    model.last.register_forward_pre_hook(lambda _, words: (words[0].double(),))
    return model


def frozen() -> Model:
    model = Model()
    model.words.requires_grad_(False)
    model.hidden.bias.requires_grad_(False)
    return model


def of_type(dtype: Any) -> Callable[[], Model]:
    return lambda: Model().to(dtype)


@dataclass
class Case:
    """A model, how it is wrapped, and what is done to it.

    error: what a gradient may differ by in the first step, of its largest, and in the next one by as much again, of
    other weights; None where it may differ by anything.
    """

    make: Callable[[], Any] = Model
    options: dict[str, Any] = field(default_factory=dict)
    choice: str = "float32"
    error: float | None = 1e-6
    used: bool = False  # `unused` is left out of the model
    passes: int = 1  # backward passes of a step
    rows: Callable[[int], int] = lambda rank: 4 + rank  # of the batch of a rank
    spoil: Callable[[Any, int, int], Any] = lambda loss, rank, step: loss
    wrap: Callable[[Any], Any] = lambda parallel: parallel
    context: Callable[[], Any] = contextlib.nullcontext
    learns: bool = True  # by SGD, where it has an error of a last bit at most
    many: int = 8  # ranks from which shares are summed in float32
    # How the names of the parameters begin that are sent as bfloat16 because of how a step computes; all else is exact.
    lowers: Callable[[int], tuple[str, ...]] | None = None


def nothing(loss: Any, rank: int, step: int) -> Any:
    """Give the last rank no gradients but zero."""
    return loss * float(rank != dist.get_world_size() - 1)


def not_finite(loss: Any, rank: int, step: int) -> Any:
    """Give the last rank gradients that are not finite, in one step."""
    return loss * float("inf" if rank == dist.get_world_size() - 1 and step == STEPS - 2 else 1)


def empty(rank: int) -> int:
    """Give the last rank a batch of no rows."""
    return 4 if rank != dist.get_world_size() - 1 else 0


class Float32Head(Model):
    """One whose head computes in float32, whatever is around it."""

    def forward(self, words: Any) -> Any:
        places = torch.arange(words.shape[1]) % 7
        hidden = torch.tanh(self.hidden((self.words(words) + self.places(places)).mean(1)))
        with torch.autocast("cpu", enabled=False):
            return self.last(hidden.float())


class Residual(Model):
    """One whose embeddings and layer norms have a path to the loss around all that computes in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(18)
        self.back = torch.nn.Linear(301, 18)
        del self.last

    def forward(self, words: Any) -> Any:
        shown = self.norm(self.words(words).mean(1) + self.places.weight.sum(0))
        return shown + self.back(torch.tanh(self.hidden(shown)))


class Teacher(Model):
    """One with a teacher that has no gradients and computes in bfloat16, beside a student in float32."""

    def forward(self, words: Any) -> Any:
        with autocast(), torch.no_grad():
            shown = self.words(words).mean(1)
            shown = shown @ shown.T
        return super().forward(words) + shown.float().mean()


class Half(Model):
    """One of which a half computes in bfloat16 by itself."""

    def forward(self, words: Any) -> Any:
        with autocast():
            shown = self.hidden(self.words(words).mean(1) + self.places.weight.sum(0))
        return self.last(shown.float())


class Changing(Model):
    """One that computes in bfloat16 in all steps but the last, and there on no rank but the first."""

    calls = 0

    def forward(self, words: Any) -> Any:
        self.calls += 1
        with autocast() if self.calls < STEPS or dist.get_rank() == 0 else contextlib.nullcontext():
            return super().forward(words)


class InTurn(Changing):
    """One that computes in bfloat16 in each second pass only."""

    def forward(self, words: Any) -> Any:
        self.calls += 1
        with autocast() if self.calls % 2 == 0 else contextlib.nullcontext():
            return Model.forward(self, words)


def autocast() -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def evaluate_first(parallel: Any) -> Any:
    """Compute in bfloat16 without gradients, as an evaluation before the first step does."""
    with torch.no_grad(), autocast():
        parallel.module(torch.zeros(1, 9, dtype=torch.long))
    return parallel


def always(*names: str) -> Callable[[int], tuple[str, ...]]:
    return lambda step: names


ROUNDING = 2.0**-7  # of bfloat16, once for each rank and once for the sum


def in_autocast(*names: str, make: Callable[[], Any] = Model, **more: Any) -> Case:
    """Return a case that computes in bfloat16, with how the names begin of what is sent so for that."""
    return Case(make, choice="", context=autocast, error=ROUNDING, lowers=always(*names), **more)


CASES = {
    # The first one computes in bfloat16, which is no choice of those that come after it in this process.
    "autocast": in_autocast(""),
    "float32 head": in_autocast("words", "places", "hidden", make=Float32Head),
    "residual": in_autocast("hidden", "back", make=Residual),
    "teacher": Case(make=Teacher, choice="", lowers=always(), learns=False),
    "half of it": Case(make=Half, choice="", error=ROUNDING, lowers=always("words", "places", "hidden")),
    "changing": Case(make=Changing, choice="", error=ROUNDING, lowers=lambda step: ("",) if step < STEPS - 1 else ()),
    "in turn": Case(make=InTurn, choice="", passes=2, lowers=always(), learns=False),
    "all in bfloat16": in_autocast("", passes=2),
    "float16": Case(
        choice="", context=lambda: torch.autocast("cpu", dtype=torch.float16), error=1e-6, lowers=always(), learns=False
    ),
    "evaluation": Case(choice="", wrap=evaluate_first, lowers=always()),
    "autocast, checkpointed": in_autocast("", make=lambda: Checkpointed(True), options={"static_graph": True}),
    "autocast, compiled": in_autocast("", wrap=lambda parallel: torch.compile(parallel, backend="eager")),
    "autocast, unused": in_autocast("", options={"find_unused_parameters": True}, used=True),
    "autocast, float32": Case(choice="float32", context=autocast),
    "plain": Case(),
    "nobody has chosen": Case(choice=""),
    "many buckets": Case(options={"bucket_cap_mb": 0.01}),
    "views": Case(options={"gradient_as_bucket_view": True}),
    "static": Case(options={"static_graph": True}),
    "unused": Case(options={"find_unused_parameters": True}, used=True),
    "unused, static": Case(options={"static_graph": True}, used=True),
    "unused on a rank": Case(make=Sometimes, options={"find_unused_parameters": True}, used=True),
    "checkpointed": Case(make=lambda: Checkpointed(False)),
    "checkpointed, reentrant": Case(make=lambda: Checkpointed(True), options={"static_graph": True}),
    "picture": Case(make=Picture),
    "picture, many buckets": Case(make=Picture, options={"bucket_cap_mb": 1e-7}),
    "complex": Case(make=Spectral),
    "complex, bf16": Case(make=Spectral, choice="bf16", error=ROUNDING),
    "complex, int8, many buckets": Case(make=Spectral, choice="int8", options={"bucket_cap_mb": 1e-7}, error=0.06),
    "a large embedding": Case(make=lambda: Model(250_000, 16)),
    "tied": Case(make=Tied),
    "frozen": Case(make=frozen),
    "sparse": Case(make=lambda: Model(sparse=True)),
    "several passes": Case(passes=3),
    "no gradients on a rank": Case(spoil=nothing),
    "empty batch": Case(rows=empty),
    "not finite": Case(spoil=not_finite),
    "float64": Case(make=of_type(torch.float64)),
    "mixed": Case(make=mixed),
    "half": Case(make=of_type(torch.float16)),
    "bfloat16 itself": Case(make=of_type(torch.bfloat16)),
    "compiled": Case(wrap=lambda parallel: torch.compile(parallel, backend="eager")),
    "bf16": Case(choice="bf16", error=ROUNDING),
    "bf16, many buckets": Case(choice="bf16", options={"bucket_cap_mb": 0.01}, error=ROUNDING),
    "bf16, shares": Case(choice="bf16", error=ROUNDING, many=2),
    "bf16, shares, many buckets": Case(choice="bf16", options={"bucket_cap_mb": 0.01}, error=ROUNDING, many=2),
    "bf16, shares, not finite": Case(choice="bf16", spoil=not_finite, error=ROUNDING, many=2),
    "changing, shares": Case(
        make=Changing, choice="", error=ROUNDING, many=2, lowers=lambda step: ("",) if step < STEPS - 1 else ()
    ),
    "bf16, tied": Case(make=Tied, choice="bf16", error=ROUNDING),
    "bf16, not finite": Case(choice="bf16", spoil=not_finite, error=ROUNDING),
    "bf16, float64": Case(make=of_type(torch.float64), choice="bf16"),
    "int8": Case(choice="int8", error=0.06),
    "int8, not finite": Case(choice="int8", spoil=not_finite, error=0.06),
    "int8, many buckets": Case(choice="int8", options={"bucket_cap_mb": 0.01}, error=0.06),
    "int8, picture, many buckets": Case(make=Picture, choice="int8", options={"bucket_cap_mb": 1e-7}, error=0.06),
    "int8, empty batch": Case(choice="int8", rows=empty, error=0.06),
}


def train(case: Case, choice: str) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """Train with a choice; yield the gradients of each step, and the names of those that are sent as bfloat16."""
    os.environ[VARIABLE] = choice
    torch.manual_seed(3)
    model, rank = case.make(), dist.get_rank()
    if not case.used:
        del model.unused
    parallel = DistributedDataParallel(model, **case.options)
    run = case.wrap(parallel)
    rate = (
        0.05 if case.learns and (case.error or 1) < 1e-5 else 0.0
    )  # weights that differ would give gradients that differ more
    optimizer = torch.optim.SGD((weight for weight in model.parameters() if weight.requires_grad), rate)
    for step in range(STEPS):
        optimizer.zero_grad()
        for number in range(case.passes):
            generator = torch.Generator().manual_seed(1000 * rank + 10 * step + number)
            words = torch.randint(0, model.words.num_embeddings, (case.rows(rank), 9), generator=generator)
            last = number == case.passes - 1
            with contextlib.nullcontext() if last else parallel.no_sync(), case.context():
                loss = case.spoil(run(words).float().pow(2).sum(), rank, step)
                loss.backward()
        gradients = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
        yield gradients, {name for name, weight in model.named_parameters() if id(weight) in find_lowered(parallel)}
        if step != STEPS - 2 or case.spoil is not not_finite:  # as a scaler leaves out such a step
            optimizer.step()


def find_hook() -> dict[str, Any]:
    """Return what is in the module of the hook."""
    module: dict[str, Any] = sys.modules["multinode_image.hooks.step.gradients"].load_choice().Exchange.end.__globals__
    return module


def find_lowered(parallel: Any) -> frozenset[int]:
    """Return the ids of the parameters whose gradients are sent as bfloat16 because all ranks compute so."""
    exchange = sys.modules["multinode_image.hooks.step.gradients"].load_choice().HOOKS.get(parallel.reducer)
    return getattr(getattr(exchange, "agreement", None), "last", frozenset())


def compare(name: str, case: Case) -> None:
    """Fail where gradients are not those of plain DDP, or not those of other ranks."""
    find_hook()["MANY"] = case.many
    steps = zip(train(case, "off"), train(case, case.choice), strict=True)
    for step, ((plain, _), (ours, lowered)) in enumerate(steps):
        assert plain.keys() == ours.keys(), name
        if case.lowers:
            expected = (
                {weight for weight in ours if weight.startswith(case.lowers(step))} if case.lowers(step) else set()
            )
            assert lowered & ours.keys() == expected, f"{name}: {lowered} are sent as bfloat16 in step {step}"
        for weight, gradient in ours.items():
            dense, usual = make_plain(gradient), make_plain(plain[weight])
            place = f"{name}: {weight} in step {step}"
            exact = case.lowers and weight not in lowered
            error = 1e-6 if exact else case.error and case.error * (step + 1)
            check_error(place, usual.double(), dense.double(), error)
            check_equal(place, dense)


def make_plain(gradient: Any) -> Any:
    """Return a gradient as a dense tensor of real numbers."""
    dense = gradient.to_dense() if gradient.is_sparse else gradient
    return torch.view_as_real(dense) if dense.is_complex() else dense


def check_error(place: str, usual: Any, ours: Any, error: float | None) -> None:
    """Fail where a finite gradient differs by more than it may, and where one that is not finite has not arrived."""
    if not usual.isfinite().all():
        assert not ours[~usual.isfinite()].isfinite().any(), f"{place}: what is not finite has not arrived"
        return
    largest = find_largest(usual - ours) / max(find_largest(usual), 1e-30)
    assert error is None or largest <= error, f"{place}: differs by {largest}"


def find_largest(tensor: Any) -> float:
    """Return the size of the largest number, or zero where there is none."""
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def check_equal(place: str, ours: Any) -> None:
    """Fail where ranks differ by a bit; a NaN has any."""
    bits = ours.masked_fill(ours.isnan(), torch.nan).flatten().view(torch.uint8)
    others = [torch.empty_like(bits) for _ in range(dist.get_world_size())]
    dist.all_gather(others, bits)
    assert all(torch.equal(tensor, bits) for tensor in others), f"{place}: ranks differ"


def learn(choice: str, steps: int = 60) -> float:
    """Fit a plane by what was chosen, each rank a part of it; return the loss of the last step."""
    os.environ[VARIABLE] = choice
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.Tanh(), torch.nn.Linear(96, 64))
    truth = torch.randn(64, 64, generator=torch.Generator().manual_seed(6)) / 8
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    random = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        points = torch.randn(32, 64, generator=random)
        loss = (parallel(points) - points @ truth).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        check_equal(choice, torch.cat([weight.grad.flatten() for weight in model.parameters()]))
        optimizer.step()
    dist.all_reduce(loss.detach_())
    return float(loss / dist.get_world_size())


def check_learning() -> None:
    """Fail where an exchange with an error learns much worse than plain DDP."""
    usual = learn("off")
    for choice, most in (("bf16", 1.05), ("int8", 1.05)):
        learned = learn(choice)
        assert learned <= most * usual, f"{choice}: {learned} after {usual}"


def join(batches: Callable[[int], int], error: float = 1e-6, choice: str = "float32", **options: Any) -> None:
    """Fail where ranks with fewer batches than others end with other weights than plain DDP's.

    batches: those of a rank; error: what gradients may differ by; options: of join().
    """
    weights = []
    for way in ("off", choice):
        os.environ[VARIABLE] = way
        torch.manual_seed(3)
        model = Model()
        del model.unused
        parallel = DistributedDataParallel(model, bucket_cap_mb=0.01)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        with parallel.join(**options):
            for step in range(batches(dist.get_rank())):
                words = torch.randint(0, WORDS, (4, 9), generator=torch.Generator().manual_seed(step))
                with autocast() if error == ROUNDING else contextlib.nullcontext():
                    out = parallel(words)
                out.float().pow(2).sum().backward()
                optimizer.step()
        weights.append(torch.cat([weight.detach().flatten() for weight in model.parameters()]))
    check_error(f"join {options}", weights[0].double(), weights[1].double(), error)
    check_equal(f"join {options}", weights[1])


def compute_on(choice: str) -> None:
    """Fail where a bucket that needs one collective is waited for while gradients are still computed."""
    os.environ[VARIABLE] = choice
    ranks = find_hook()["Ranks"]
    plain, computed, left = ranks.sum, list[Any](), list[int]()
    parallel = DistributedDataParallel(
        torch.nn.Sequential(*(torch.nn.Linear(9, 9) for _ in range(9))), bucket_cap_mb=1e-7
    )
    for weight in parallel.parameters():
        weight.register_hook(computed.append)

    def watch(self: Any, tensor: Any) -> Any:
        work = plain(self, tensor)

        def wait() -> None:
            left.append(len(computed) % 18)
            work.wait()

        return SimpleNamespace(wait=wait)

    with mock.patch.object(ranks, "sum", watch):
        for _ in range(STEPS):
            parallel(torch.ones(2, 9)).sum().backward()
    assert len(left) > 18 and not any(left), f"{choice}: waits after {left}"


def train_two() -> None:
    """Fail where two models, in one backward pass and in turn, get other gradients than those of plain DDP."""
    gradients: dict[str, list[Any]] = {}
    for choice in ("off", "float32"):
        os.environ[VARIABLE] = choice
        torch.manual_seed(3)
        models = [Model(), Model()]
        for model in models:
            del model.unused
        one, other = (DistributedDataParallel(model, bucket_cap_mb=0.01) for model in models)
        words = torch.randint(0, WORDS, (5, 9), generator=torch.Generator().manual_seed(dist.get_rank()))
        (one(words) * other(words)).pow(2).sum().backward()
        for model in (one, other):
            model(words).pow(2).sum().backward()
        gradients[choice] = [weight.grad for model in models for weight in model.parameters()]
    for usual, ours in zip(*gradients.values(), strict=True):
        check_error("two models", usual, ours, 1e-6)
        check_equal("two models", ours)


def optimize_in_backward() -> None:
    """Fail where a parameter whose optimizer steps in the backward pass ends as another one than plain DDP's."""
    from torch.distributed.optim import _apply_optimizer_in_backward

    weights = []
    for choice in ("off", ""):
        os.environ[VARIABLE] = choice
        torch.manual_seed(3)
        model = torch.nn.Linear(2, 2)
        _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.1})
        DistributedDataParallel(model)(torch.full((1, 2), 1.0 + dist.get_rank())).pow(2).sum().backward()
        weights.append(torch.cat([weight.detach().flatten() for weight in model.parameters()]))
    assert torch.equal(*weights), "in backward: differs"


def die_after(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return what begins a collective and ends its rank."""

    def run_and_die(*words: Any, **options: Any) -> None:
        run(*words, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    return run_and_die


def lose_a_rank() -> None:
    """End the last rank in the middle of a collective; the others say what they are told of it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun's, which may come before they are told
    parallel = DistributedDataParallel(Model(), find_unused_parameters=True)
    for step in range(3):
        out = parallel(torch.ones(2, 3, dtype=torch.long))
        if step == 2 and dist.get_rank() == dist.get_world_size() - 1:
            dist.all_gather, dist.all_to_all_single = die_after(dist.all_gather), die_after(dist.all_to_all_single)
        try:
            out.sum().backward()
        except RuntimeError as error:
            print(f"told of the lost rank: {error}", flush=True)
            return


def compare_generated(count: int) -> None:
    """Fail where a generated model gets other gradients than those of plain DDP."""
    for seed in range(count):
        compare(f"model {seed}", generate(seed, ("float32", "")[seed % 2]))
    if dist.get_rank() == 0:
        print(f"{count} generated models are well", flush=True)


CHECKS: dict[str, Callable[[], None]] = {
    "join": lambda: join(lambda rank: 2 + 2 * rank),
    "join, a rank without a batch": lambda: join(lambda rank: 3 * (rank == 0)),
    "join, divided by those with batches": lambda: join(lambda rank: 1 + rank, divide_by_initial_world_size=False),
    "join, autocast": lambda: join(lambda rank: 3 * (rank == 0), ROUNDING, ""),
    "compute on": lambda: compute_on("float32"),
    "compute on, bf16": lambda: compute_on("bf16"),
    "two models": train_two,
    "in backward": optimize_in_backward,
    "learning": check_learning,
}


def main(what: str, *names: str) -> None:
    """Run all, or some functions or cases by their names, or so many generated models, or lose a rank."""
    dist.init_process_group("gloo")
    find_hook()["LEAST"] = LEAST
    if what == "lose":
        lose_a_rank()
        return
    if what == "generated":
        compare_generated(int(names[0]))
        return
    for name, check in CHECKS.items():
        if not names or name in names:
            check()
    for name, case in CASES.items():
        if not names or name in names:
            compare(name, case)
    if names:
        return
    compare_generated(FEW)
    if dist.get_rank() == 0:
        print(f"{len(CASES)} cases are well", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
