"""How DistributedDataParallel gets our hook, and an epoch its order of examples; torch is made up."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.data import lost_batch, order
from multinode_image.hooks.step import gradients
from multinode_image.hooks.step.gradients import Seen

LOW = "bfloat16"


class Choice:
    """exchange/choice.py, which tells what it was asked."""

    def __init__(self, log: list[Any]) -> None:
        self.log, self.gives_way = log, False

    def choose(self, parallel: Any) -> None:
        self.log.append("choose")

    def attach(self, parallel: Any, seen: Seen) -> None:
        self.log.append("attach")

    def attach_to_join(self, parallel: Any, seen: Seen, by_all: bool) -> None:
        self.log.append(f"join by all: {by_all}")

    def give_way(self, reducer: Any, seen: Seen, *words: Any) -> bool:
        self.log.append(("give way", *words))
        return self.gives_way


@pytest.fixture
def log() -> list[Any]:
    return []


@pytest.fixture
def choice(log: list[Any], monkeypatch: pytest.MonkeyPatch) -> Choice:
    choice = Choice(log)
    monkeypatch.setattr(gradients, "SEEN", Seen())
    monkeypatch.setattr(gradients, "load_choice", lambda: choice)
    return choice


def make_torch(log: list[Any], *names: str) -> Any:
    """Return torch.nn.parallel.distributed of a release with these parts."""

    class Parallel:
        def __init__(self, module: str) -> None:
            log.append(f"make {module}")

        def forward(self, batch: str = "") -> str:
            log.append(f"forward {batch}".strip())
            return "outputs"

    if "lazy" in names:

        def _lazy_init(self: Any) -> None:
            log.append("begin")

        Parallel._lazy_init = _lazy_init  # type: ignore[attr-defined]
    if "join" in names:
        Parallel.join_hook = lambda self, **options: log.append("shadow") or options  # type: ignore[attr-defined,func-returns-value]
    dist = SimpleNamespace(**{f"_register_{name}": lambda *words, name=name: log.append((name, *words))
                              for name in ("comm_hook", "builtin_comm_hook") if name in names})  # fmt: skip

    def backward(tensors: Any, **options: Any) -> None:
        log.append("backward")
        if tensors == "wrong":
            raise ZeroDivisionError

    torch = SimpleNamespace(autograd=SimpleNamespace(backward=backward))
    return SimpleNamespace(DistributedDataParallel=Parallel, dist=dist, torch=torch)


@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.parametrize(
    ("names", "expected"),
    [(("lazy",), ["begin", "attach"]), ((), ["attach", "forward batch"])],
)
def test_a_model_gets_the_hook_at_its_first_pass(
    choice: Choice, log: list[Any], monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], expected: list[str],
    compiles: bool,
) -> None:  # fmt: skip
    kept, compiler = list[str](), ModuleType("torch._compile")

    def leave(method: Any) -> Any:
        kept.append(method.__name__)
        return method

    vars(compiler)["_disable_dynamo"] = leave
    if compiles:
        monkeypatch.setitem(sys.modules, "torch._compile", compiler)
    else:
        monkeypatch.delitem(sys.modules, "torch._compile", raising=False)
    module = make_torch(log, *names)
    gradients.watch_parallel(module)

    parallel = module.DistributedDataParallel("model")
    assert log == ["make model", "choose"]
    log.clear()
    result = parallel._lazy_init() if names else parallel.forward("batch")
    assert (result, log) == (None if names else "outputs", expected)
    assert kept == (["backward", "_lazy_init" if names else "forward"] if compiles else [])


@pytest.mark.parametrize(("options", "by_all"), [({}, True), ({"divide_by_initial_world_size": False}, False)])
def test_a_rank_without_batches_gets_the_hook_before_it_joins(
    choice: Choice, log: list[Any], options: dict[str, bool], by_all: bool
) -> None:
    module = make_torch(log, "join")
    gradients.watch_parallel(module)
    parallel = module.DistributedDataParallel("model")
    log.clear()

    assert parallel.join_hook(**options) == options
    assert log == [f"join by all: {by_all}", "shadow"]


@pytest.mark.parametrize("gives_way", [True, False])
@pytest.mark.parametrize("name", ["comm_hook", "builtin_comm_hook"])
def test_a_hook_of_the_script_is_registered_unless_ours_gives_way(
    choice: Choice, log: list[Any], name: str, gives_way: bool
) -> None:
    choice.gives_way, module = gives_way, make_torch(log, name)
    gradients.watch_parallel(module)

    getattr(module.dist, f"_register_{name}")("reducer", "hook")

    assert log == [("give way", "hook"), *([] if gives_way else [(name, "reducer", "hook")])]


@pytest.mark.parametrize(("asked", "within"), [(False, False), (True, False), (True, True)])
def test_a_backward_pass_is_looked_at_once_where_somebody_asks(
    choice: Choice, log: list[Any], asked: bool, within: bool
) -> None:
    module, seen = make_torch(log), gradients.SEEN
    gradients.watch_parallel(module)
    origins = SimpleNamespace(
        within=within, begin=lambda *given: log.append(("look", *given)), end=lambda: log.append("end")
    )
    seen.entered, seen.in_bf16 = {LOW}, True
    if asked:
        assert seen.watch(lambda: origins) is seen.watch(lambda: None) is origins
    module.torch.autograd.backward("loss")
    with pytest.raises(ZeroDivisionError):
        module.torch.autograd.backward("wrong")

    looked = asked and not within
    first = [("look", "loss", True, seen.entered), "backward", "end"] if looked else ["backward"]
    assert log[: len(first)] == first and log[-1] == ("end" if looked else "backward")
    assert seen.entered == (set() if looked else {LOW})


@pytest.mark.parametrize(
    ("device", "enabled", "dtype", "grad", "entered", "in_bf16"),
    [("cpu", True, LOW, True, {LOW}, True), ("cpu", True, "float16", True, {"float16"}, False),
     ("cpu", False, LOW, True, {None}, False), ("cuda", True, LOW, True, set(), False),
     ("cpu", True, LOW, False, set(), False)],
)  # fmt: skip
def test_autocast_with_gradients_is_noticed(
    choice: Choice, device: str, enabled: bool, dtype: str, grad: bool, entered: set[Any], in_bf16: bool
) -> None:
    class Autocast:
        def __init__(self, kind: str = dtype) -> None:
            self.device, self._enabled, self.fast_dtype = device, enabled, kind

        def __enter__(self) -> str:
            return "entered"

    torch = SimpleNamespace(is_grad_enabled=lambda: grad, bfloat16=LOW)
    module = SimpleNamespace(autocast=Autocast, torch=torch)
    gradients.watch_autocast(module)

    assert module.autocast().__enter__() == "entered"
    assert (gradients.SEEN.entered, gradients.SEEN.in_bf16) == (entered, in_bf16)
    gradients.SEEN.entered = set()
    module.autocast("float16").__enter__()
    assert gradients.SEEN.in_bf16 is in_bf16  # it was once


# The order of examples.


class Sampler:
    """The one of transformers, which draws an order from its generator."""

    def __init__(self, generator: Any = None) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[float]:
        if self.generator == "broken":
            raise ZeroDivisionError
        return iter([self.generator.random() for _ in range(3)])


class Generator:
    """torch's."""

    def manual_seed(self, seed: int) -> random.Random:
        return random.Random(seed)


def draw(seed: int) -> list[float]:
    generator = random.Random(seed)
    return [generator.random() for _ in range(3)]


def test_ranks_draw_one_order_for_an_epoch_whatever_else_they_draw() -> None:
    seed = [7]
    torch = SimpleNamespace(Generator=Generator, initial_seed=lambda: seed[0])
    kind = type("LengthGroupedSampler", (Sampler,), {"__iter__": Sampler.__iter__})
    order.draw_alike(SimpleNamespace(LengthGroupedSampler=kind, torch=torch))
    one, other, own = kind(), kind(), kind(random.Random(1))

    epochs = [list(one) for _ in range(3)]
    assert one.generator is None and [list(other), list(other)] == epochs[:2]
    seed[0] = 8
    assert list(other) == epochs[2] and len({tuple(epoch) for epoch in epochs}) == 3
    other.set_epoch(1)
    assert list(other) == epochs[1] and list(other) == epochs[2]
    assert list(kind()) != epochs[0]  # of another seed
    assert list(own) == draw(1)
    seed[0] = 2**63 - 1
    last = kind()
    assert [list(last), list(last)] == [draw(2**63 - 1), draw(0)]  # torch takes no larger seed


def test_every_sampler_below_a_loader_knows_its_epoch() -> None:
    told, asked = list[tuple[str, int]](), list[int]()

    class Loader:
        def set_epoch(self, epoch: int) -> None:
            asked.append(epoch)

    order.tell_epoch(SimpleNamespace(DataLoaderShard=Loader))
    inner = SimpleNamespace(sampler=SimpleNamespace(set_epoch=lambda epoch: told.append(("inner", epoch))))
    middle = SimpleNamespace(sampler=SimpleNamespace(), batch_sampler=inner)
    outer = SimpleNamespace(sampler=SimpleNamespace(set_epoch=lambda epoch: told.append(("outer", epoch))))
    outer.batch_sampler = middle
    loader: Any = Loader()
    loader.set_epoch(1)
    loader.batch_sampler = outer
    loader.set_epoch(2)

    assert (asked, told) == ([1, 2], [("outer", 2), ("inner", 2)])


def test_a_queue_that_loses_a_batch_ends_its_worker_after_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[Any]()

    class Queue:
        @staticmethod
        def _on_queue_feeder_error(error: BaseException, batch: object) -> None:
            done.append((error, batch))

    monkeypatch.setattr(lost_batch, "end_worker", lambda error, modules, kill: done.append((error, modules, kill)))
    lost_batch.watch_queues(SimpleNamespace(Queue=Queue))
    error = OSError()
    Queue._on_queue_feeder_error(error, "batch")

    assert done == [(error, "batch"), (error, sys.modules, os.kill)]


def test_a_worker_is_out_of_the_group_that_signals_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[Any]()
    monkeypatch.setattr(os, "setpgrp", lambda: done.append("apart"))
    module = SimpleNamespace(_worker_loop=lambda *words, **options: (list(done), words, options))
    lost_batch.stay_apart(module)

    assert module._worker_loop(1, a=2) == (["apart"], (1,), {"a": 2})
