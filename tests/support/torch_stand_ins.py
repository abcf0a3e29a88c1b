"""Torch as far as the hooks of one model need it: groups that count, and optimizers as two releases have them."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from multinode_image.hooks.job.one_job import DISTRIBUTED
from multinode_image.settings import SIZE

STORE = SimpleNamespace(underlying_store=SimpleNamespace(host="pod0", port=41000))

# A rank of two as its agent has started it; this process is that rank.
PID = str(os.getpid())
PLACE = {"RANK": "1", "WORLD_SIZE": "2", SIZE: "2", "MULTINODE_TRAINING": PID}
AGENT = {"MASTER_ADDR": "pod0", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True"}
RANK = {**PLACE, **AGENT}


class Group:
    """A group of torch, by which it is a key."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._get_sequence_number_for_group = count


def torch(size: int = 0, counts: Any = 0, store: Any = STORE) -> dict[str, Any]:
    """Make up torch's module with a group of so many ranks; 0 for none; counts: the collectives that it has begun."""

    def count() -> int:
        if counts is None:
            raise RuntimeError("not implemented for this backend")
        return int(counts)

    group = Group(count)
    module = SimpleNamespace(
        GroupMember=SimpleNamespace(WORLD=group if size else None),
        is_initialized=lambda: bool(size),
        get_rank=lambda: 1 % max(1, size),
        get_world_size=lambda: size,
        _get_default_store=lambda: store,
        _default_pg_init_method="env://" if size else None,
        _world=SimpleNamespace(pg_map={group: ()}),
    )
    return {DISTRIBUTED: module}


def rpc(is_set: bool) -> dict[str, Any]:
    """Make up torch's module for RPC."""
    return {"torch.distributed.rpc.api": SimpleNamespace(_is_current_rpc_agent_set=lambda: is_set)}


class Weight:
    """A parameter of 16 elements, each of which is its value."""

    shape, dtype = (16,), "torch.float32"

    def __init__(self) -> None:
        self.value = 1.0

    def __getitem__(self, index: tuple[int, ...]) -> float:
        return self.value


class New:
    """torch.optim.optimizer with hooks for all optimizers."""

    torch = SimpleNamespace()

    def __init__(self) -> None:
        self.hooks: OrderedDict[int, Callable[..., None]] = OrderedDict()
        module = self

        class Optimizer:
            def __init__(self) -> None:
                self.param_groups = [{"params": [Weight()]}]

            def step(self) -> int:
                for hook in module.hooks.values():
                    hook(self, (), {})
                return move(self)

        self.Optimizer = Optimizer

    def register_optimizer_step_pre_hook(self, hook: Callable[..., None]) -> None:
        self.hooks[len(self.hooks)] = hook


class Old:
    """That of torch 1.10: each class is changed when its first optimizer is made."""

    def __init__(self) -> None:
        class Base:
            def __init__(self) -> None:
                self.param_groups = [{"params": [Weight()]}]
                self._hook_for_profile()

            def _hook_for_profile(self) -> None:
                if not getattr(type(self).step, "hooked", False):
                    step = type(self).step
                    type(self).step = lambda optimizer: step(optimizer)  # type: ignore[assignment,method-assign]
                    type(self).step.hooked = True  # type: ignore[attr-defined]

            def step(self) -> int:
                return move(self)

        class Optimizer(Base):
            def step(self) -> int:
                return move(self)

        self.Optimizer, self.Adam = Base, Optimizer


def move(optimizer: Any) -> int:
    """Make a step."""
    optimizer.param_groups[0]["params"][0].value += 1
    return 1
