"""Which ranks a process is compared with, at which steps of optimizers, and by which elements of their weights."""

from __future__ import annotations

import os
import socket
import sys
from collections import OrderedDict
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed._tensor import DTensor
from torch.distributed.fsdp import FlatParameter
from torch.optim import optimizer as optimizers_of_torch

from multinode_image.hooks.job import one_job
from multinode_image.hooks.job.messenger import Message
from multinode_image.hooks.job.one_job import MEMBER
from multinode_image.hooks.model import one_model, optimizers
from multinode_image.hooks.model.one_model import State, find_rings
from multinode_image.hooks.model.weights import (
    COUNT,
    EPSILONS,
    Sample,
    choose_places,
    is_of_parts,
    is_shared_out,
    read,
    unpack,
)
from multinode_image.settings import APART, SIZE, TRAINING

# A rank of two: of mpirun, and as the agent of a torchrun has started it.
PLACE = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2"}
AGENT = {"MASTER_ADDR": "pod0", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True"}
RANK = {**PLACE, **AGENT}


def take_place(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a rank, which is this process where it does not say otherwise."""
    for name in (SIZE, APART, MEMBER, TRAINING, *AGENT, "RANK", *one_job.SIZES):
        os.environ.pop(name, None)
    os.environ.update({TRAINING: str(os.getpid()), **environ})
    return dict(os.environ)


@pytest.fixture
def port() -> int:
    """Return a port of this machine that is free."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    ("size", "environ", "rings", "whole"),
    [
        pytest.param(2, RANK, ["pod0:29500 multinode/0/2/group 1 of 2"], True, id="the group is the job"),
        pytest.param(2, PLACE, ["STORE multinode/0/2/group 1 of 2"], True, id="mpirun"),
        pytest.param(0, RANK, ["pod0:29500 multinode/0/2/job 1 of 2"], False, id="no group"),
        pytest.param(0, PLACE, [], False, id="mpirun without a group"),
        pytest.param(1, RANK, ["pod0:29500 multinode/0/2/0of1job 1 of 2"], False, id="a group of one"),
        pytest.param(
            2,
            {**RANK, "WORLD_SIZE": "4"},
            ["STORE multinode/0/2/group 1 of 2", "pod0:29500 multinode/0/4/1of2job 1 of 4"],
            False,
            id="a group of each node",
        ),
        pytest.param(
            2,
            {**RANK, TRAINING: "1"},
            ["STORE multinode/0/2/group 1 of 2", "pod0:29500 multinode/0/2/1of2job 1 of 2"],
            True,
            id="a group that a rank has started",
        ),
        pytest.param(1, {**RANK, "RANK": "0", "WORLD_SIZE": "1", TRAINING: "1"}, [], False, id="a job of one"),
    ],
)
def test_who_is_compared(
    size: int, environ: dict[str, str], rings: list[str], whole: bool, port: int, run_ranks: Any
) -> None:
    def look() -> tuple[list[str], bool, bool]:
        told = take_place(environ)
        if not size:
            dist.destroy_process_group()
        compared, is_whole = find_rings(State(told), sys.modules, told)
        described = [f"{ring.host}:{ring.port} {ring.prefix} {ring.rank} of {ring.size}" for ring in compared]
        return described, is_whole, os.environ.get(MEMBER) == str(os.getpid())

    done = run_ranks(look, size=size or 1, method=f"tcp://127.0.0.1:{port}")[0]

    assert done[-1].result == ([ring.replace("STORE", f"127.0.0.1:{port}") for ring in rings], whole, whole)


@pytest.mark.parametrize(("method", "rings"), [("env://", ["a:7"]), ("file://", [])])
def test_where_torch_does_not_tell_of_a_store_it_is_that_of_the_variables(
    method: str, rings: list[str], run_ranks: Any
) -> None:
    """The store is a file, of which torch has no host, and what ranks met by is as older releases keep it."""

    def look() -> list[str]:
        told = take_place({**PLACE, "MASTER_ADDR": "a", "MASTER_PORT": "7"})
        vars(dist.distributed_c10d)["_default_pg_init_method"] = method
        return [f"{ring.host}:{ring.port}" for ring in find_rings(State(told), sys.modules, told)[0]]

    assert run_ranks(look)[0][1].result == rings


class Sent:
    """A messenger that keeps what it gets; answer: what others say to each message, None for one of other elements."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def answer(self, *changes: float | None) -> None:
        for message in self.messages:
            if message.deliver and message.text != b"1":
                start, now = unpack(message.text)
                others = [tuple(value * (change or 1) for value in now[change is None :]) for change in changes]
                message.deliver([Sample(start[: len(other)], other).pack() for other in others])


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Begin as a new process, whose messages are kept."""
    monkeypatch.setattr(one_model, "KNOWN", [])
    monkeypatch.setattr(one_job, "TOLD", [])
    kept = Sent()
    monkeypatch.setattr(one_model, "Messenger", lambda: kept)
    return kept


@pytest.fixture(params=[True, False], ids=["hooks", "torch before 2.0"])
def kind(request: pytest.FixtureRequest, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a class of optimizers that are followed; torch before 2.0 changes each class, in a method of this name."""
    monkeypatch.setattr(optimizers_of_torch, "_global_optimizer_pre_hooks", OrderedDict())
    module: Any = optimizers_of_torch
    base = torch.optim.Optimizer
    if not request.param:
        monkeypatch.setattr(base, "_hook_for_profile", base._patch_step_function, raising=False)
        monkeypatch.setattr(base, "_patch_step_function", lambda optimizer: optimizer._hook_for_profile())
        module = SimpleNamespace(Optimizer=base)
    optimizers.watch_optimizers(module)
    return type("SGD", (torch.optim.SGD,), {})  # nothing stays in torch's own


def begin(kind: Any) -> Any:
    """Return an optimizer of 16 numbers, each of which grows by 1 in a step."""
    weights = torch.nn.Parameter(torch.ones(16))
    weights.grad = -torch.ones(16)
    return kind([weights], lr=1.0)


def step(optimizer: Any, steps: int) -> tuple[int, object]:
    """Make steps; return how many were made before this rank ended, and with which code, None where it goes on."""
    for number in range(steps):
        try:
            optimizer.step()
        except SystemExit as ended:
            return number, ended.code
    return steps, None


def test_weights_are_looked_at_after_powers_of_two(kind: Any, sent: Sent, run_ranks: Any) -> None:
    def act() -> tuple[list[str], Sample]:
        take_place(RANK)
        step(begin(kind), 20)
        return [message.key for message in sent.messages], unpack(sent.messages[-1].text)

    for rank in run_ranks(act)[0]:
        keys, sample = rank.result
        assert [key.rpartition("/")[2] for key in keys] == ["1", "2", "4", "8", "16"]
        assert len({key.rpartition("/")[0] for key in keys}) == 1
        assert sample == Sample((1.0,) * 16, (17.0,) * 16)


class Keras:
    """An optimizer of Keras, of one variable or of those that it is given."""

    _trainable_variables = (SimpleNamespace(value=torch.ones(4)),)

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Return what it was given."""
        return grads, trainable_variables


class Thinc:
    """A model of thinc, one of whose parameters is not there yet."""

    name, param_names = "tok2vec", ("W", "b")

    def walk(self) -> list[Any]:
        """Return its layers."""
        return [self]

    def has_param(self, name: str) -> bool:
        """Return whether a parameter is there."""
        return name == "W"

    def get_param(self, name: str) -> Any:
        """Return a parameter."""
        return {"W": torch.ones(8)}[name]

    def finish_update(self, optimizer: Any) -> Any:
        """Return what it was given."""
        return optimizer


def test_steps_of_keras_and_updates_of_thinc_are_followed(sent: Sent, run_ranks: Any) -> None:
    optimizers.watch_keras(SimpleNamespace(BaseOptimizer=Keras))
    optimizers.watch_thinc(SimpleNamespace(Model=Thinc))
    one, two, model = Keras(), Keras(), Thinc()
    some = Keras._trainable_variables * 2

    def act() -> tuple[Any, list[tuple[str, int]]]:
        take_place(RANK)
        done = one.apply(1), two.apply(2, some)[0], model.finish_update(3)
        known = one_model.know().trainings
        return done, [(training.name, len(training.start)) for training in known]

    names = ["keras.Keras of 1 parameters", "keras.Keras of 2 parameters", "thinc.tok2vec of 1 parameters"]
    known = [*zip(names, (4, 8, 8), strict=True)]
    assert [rank.result for rank in run_ranks(act)[0]] == [(((1, None), 2, 3), known)] * 2


@pytest.mark.parametrize(
    ("has_group", "counts", "changes", "ends"),
    [
        pytest.param(True, True, (2,), True, id="different, and nothing exchanged"),
        pytest.param(True, True, (1,), False, id="equal"),
        pytest.param(True, True, (1, 2, 1), True, id="one of several is different"),
        pytest.param(True, True, (2, None), False, id="one of several is of another model"),
        pytest.param(False, True, (2,), True, id="no group"),
        pytest.param(True, False, (2,), False, id="nobody counts"),
    ],
)
def test_a_process_that_trains_another_model_ends_at_step_64(
    has_group: bool, counts: bool, changes: tuple[float | None, ...], ends: bool, kind: Any, sent: Sent, run_ranks: Any
) -> None:
    def act() -> tuple[object, str]:
        take_place(RANK)
        if not has_group:
            dist.destroy_process_group()
        if not counts:
            dist.ProcessGroup._get_sequence_number_for_group = mock.Mock(side_effect=RuntimeError)  # as mpi has none
        optimizer = begin(kind)
        assert step(optimizer, 64) == (64, None)
        sent.answer(*changes)
        assert step(optimizer, 1) == (1, None)  # in which the look after step 64 is taken
        sent.answer(*changes)
        return step(optimizer, 100), one_job.TOLD[0].fact if one_job.TOLD else ""

    fact = "each rank trains a model of its own" if has_group else "this process trains by itself"
    for rank in run_ranks(act)[0]:
        assert rank.result[0] == ((0, 2) if ends else (100, None))
        assert rank.result[1].startswith(fact) is ends


@pytest.mark.parametrize(("rank", "steps"), [("0", (1000, None)), ("1", (64, 2))])
def test_where_nobody_can_be_asked_a_rank_without_a_group_ends_at_step_64(
    rank: str, steps: tuple[int, object], kind: Any, run_ranks: Any
) -> None:
    """The first rank may prepare something for long, and is judged at its end."""

    def act() -> tuple[object, str]:
        take_place({**PLACE, "RANK": rank})
        dist.destroy_process_group()
        optimizer = begin(kind)
        ended = step(optimizer, 1000)
        fault = one_model.finish(sys.modules, os.environ)
        return ended, fault.value if fault else ""

    assert run_ranks(act, size=1)[0][0].result == (steps, f"rank {rank}, in no process group")


@pytest.mark.parametrize(("environ", "looks"), [(RANK, 2 * one_model.MOST), ({**RANK, APART: "1"}, 0)])
def test_optimizers_that_are_gone_do_not_count_and_on_purpose_apart_none_does(
    environ: dict[str, str], looks: int, kind: Any, sent: Sent, run_ranks: Any
) -> None:
    def act() -> int:
        take_place(environ)
        kept = [begin(kind) for _ in range(3)]
        for _ in range(2 * one_model.MOST):
            kept[-1] = begin(kind)
            step(kept[-1], 2)
        return len(sent.messages)

    assert [rank.result for rank in run_ranks(act)[0]] == [looks] * 2


@pytest.mark.parametrize(
    ("shapes", "least"),
    [
        pytest.param([(8, 16)], 1, id="one"),
        pytest.param([(1,), (), (2, 3)], 3, id="few"),
        pytest.param([(3,)] * 1000, COUNT // 2, id="a thousand"),
        pytest.param([(0, 3), (4,)], 1, id="one of no element"),
        pytest.param([(10_000, 100), (4,), (4,)], 3, id="a large one"),
        pytest.param([], 0, id="none"),
    ],
)
def test_elements_lie_in_parameters_large_and_small(shapes: list[tuple[int, ...]], least: int) -> None:
    """The value of an element says which one it is."""
    tensors = [torch.arange(float(torch.Size(shape).numel())).reshape(shape) for shape in shapes]

    places = choose_places(tensors)

    assert len({place.parameter for place in places}) >= least
    assert len(places) <= COUNT
    values = read(tensors, places)
    assert len({(place.parameter, value) for place, value in zip(places, values, strict=True)}) == len(places)


@pytest.mark.parametrize("mark", ["", "_local_tensor", "_is_flat_param", "_fsdp_flattened"])
def test_a_weight_of_which_each_rank_has_a_part_is_known(mark: str) -> None:
    """By what FSDP marks, or by its type."""
    weight = torch.nn.Parameter(torch.ones(1))
    if mark:
        setattr(weight, mark, True)

    assert is_shared_out(weight) is bool(mark)
    assert is_of_parts(DTensor) and is_of_parts(FlatParameter) and not is_of_parts(torch.nn.Parameter)


def test_only_types_with_a_point_are_looked_at() -> None:
    kinds = (torch.int64, torch.bfloat16, torch.complex64, torch.float8_e4m3fn)

    places = choose_places([torch.ones(4).to(kind) for kind in kinds])

    assert {(place.parameter, place.epsilon) for place in places} == {(1, EPSILONS["bfloat16"])}
