"""When rank 0 sends the best model to all; with stand-ins for torch and the Trainer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

NAME = "multinode_image.hooks.trainer.best_model"


class Tensor:
    """A tensor of some bytes; those of a view that is in one piece are its own."""

    def __init__(self, text: bytes, *, in_pieces: bool = False) -> None:
        self.box, self.in_pieces = [text], in_pieces

    def contiguous(self) -> Tensor:
        return Tensor(self.box[0]) if self.in_pieces else self

    def reshape(self, _: int) -> Tensor:
        return self

    def view(self, _: object) -> Tensor:
        return self

    def detach(self) -> Tensor:
        return self

    def numel(self) -> int:
        return len(self.box[0])

    def data_ptr(self) -> int:
        return id(self.box)

    def copy_(self, other: Tensor) -> None:
        self.box[0] = other.box[0]

    def numpy(self) -> Any:
        return SimpleNamespace(tobytes=lambda: self.box[0])

    def __getitem__(self, part: slice) -> Tensor:
        return self


class Module:
    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors

    def parameters(self) -> tuple[Tensor, ...]:
        return self.tensors[:1]

    def buffers(self) -> tuple[Tensor, ...]:
        return self.tensors[1:]


class World:
    """The other ranks: what a maximum of two numbers is with theirs, and what rank 0 sends."""

    def __init__(self) -> None:
        self.theirs: int | None = None
        self.sent: list[bytes] = []

    def all_reduce(self, found: list[int], _: object) -> None:
        if self.theirs is not None:
            found[:] = [max(found[0], self.theirs), max(found[1], -self.theirs)]

    def broadcast(self, tensor: Tensor, rank: int) -> None:
        assert rank == 0
        self.sent.append(tensor.box[0])
        tensor.box[0] = b"best"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def program(world: World) -> Iterator[Any]:
    names = ("torch", "torch.distributed", "transformers", "transformers.trainer_callback")
    modules = {name: ModuleType(name) for name in names}
    vars(modules["transformers.trainer_callback"])["TrainerCallback"] = object
    vars(modules["torch.distributed"]).update(
        all_reduce=world.all_reduce, broadcast=world.broadcast, ReduceOp=SimpleNamespace(MAX="max")
    )
    vars(modules["torch"]).update(
        distributed=modules["torch.distributed"], nn=SimpleNamespace(Module=Module), uint8=None, tensor=list
    )
    with mock.patch.dict(sys.modules, modules):
        sys.modules.pop(NAME, None)
        yield import_module(NAME)
        sys.modules.pop(NAME, None)


def end(program: Any, model: Any, **more: Any) -> None:
    usual = {"load_best_model_at_end": True, "world_size": 2, "fsdp": [], "deepspeed": None, "process_index": 0}
    program.BestModel().on_train_end(SimpleNamespace(**{**usual, **more}), None, None, model=model)


@pytest.mark.parametrize("in_pieces", [False, True])
def test_ranks_without_the_best_model_get_it_from_rank_0(
    in_pieces: bool, program: Any, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    weight, buffer = Tensor(b"last", in_pieces=in_pieces), Tensor(b"mean")
    world.theirs = 7
    end(program, Module(weight, buffer))

    assert world.sent == [b"last", b"mean"] and weight.box == buffer.box == [b"best"]
    assert "not all ranks found the best model" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="all have it"),
        pytest.param({"load_best_model_at_end": False}, id="nobody wants it"),
        pytest.param({"world_size": 1}, id="one rank"),
        pytest.param({"fsdp": ["full_shard"]}, id="parts of a model"),
        pytest.param({"deepspeed": "zero.json"}, id="parts of a model by DeepSpeed"),
    ],
)
def test_else_nothing_is_sent(more: dict[str, Any], program: Any, world: World) -> None:
    world.theirs = 7 if more else None
    end(program, Module(Tensor(b"last")), **more)

    assert world.sent == []


def test_other_ranks_say_nothing(program: Any, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.theirs = 7
    end(program, Module(Tensor(b"last")), process_index=1)

    assert world.sent and capsys.readouterr().err == ""


def test_every_trainer_asks(program: Any) -> None:
    module = SimpleNamespace(DEFAULT_CALLBACKS=[])
    program.watch_best(module)

    assert [program.BestModel] == module.DEFAULT_CALLBACKS
