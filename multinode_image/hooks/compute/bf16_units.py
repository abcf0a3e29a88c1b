"""Compute in float32 what is asked for in bf16, where a processor of the job has no unit that computes in it.

Without one bf16 is emulated: a step was 15 times slower than in float32 (AMD EPYC Milan, torch 2.13). Whoever asks is
answered here, in the rank: autocast, which the Trainer, accelerate and Lightning use as well, the policies of FSDP, an
evaluation of the Trainer and ipex.optimize. Autocast stays on, with float32 as its type, so that tensors of mixed types
still meet; what was asked for stays in all arguments, so that a checkpoint goes on where there are units.

All ranks of a job compute alike: each says in the job's store whether it has a unit, as soon as its group forms, and a
rank that has one reads what the others have said. Nothing is changed where the kernel shows no flags of the processor,
and of a model whose weights are bfloat16 themselves: its types would not meet.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import re
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multinode_image.hooks.job.one_job import is_first
from multinode_image.machine.limits import BF16_UNITS
from multinode_image.settings import BF16, EMULATE

if TYPE_CHECKING:
    from collections.abc import Callable

FLAGS = re.compile(r"(?m)^(?:flags|Features)\s*:(.*)$")
DISTRIBUTED = "torch.distributed.distributed_c10d"
# In the job's store, of each rank: whether it computes in bf16.
KEY = "multinode/bf16/{}"
YES, NO = b"1", b"0"
LONGEST = datetime.timedelta(seconds=60)  # for a rank that has formed the group as well, and writes its key then
# What FSDP computes in; what it sends is chosen by its user (torch/distributed/fsdp/api.py, _fsdp_api.py).
POLICIES = ("param_dtype", "buffer_dtype", "output_dtype")
FULL_EVALUATION = "bf16_full_eval"
SLOW = "emulates it, many times slower (15 times on an AMD EPYC Milan)"
WEIGHTS = "dtype=torch.float32 in from_pretrained, or model.float(), where nodes have no unit for bf16"


class Known:
    """What this process has found out.

    group: the group whose ranks were asked last; lacks: the first rank of it without a unit, None where all have one;
    said: what was printed.
    """

    group: Any = None
    lacks: int | None = None
    said: frozenset[str] = frozenset()


KNOWN = Known()


@functools.cache
def read_units(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str] | None:
    """Return the units for bf16 of this processor; None where the kernel shows no flags of it."""
    line = None
    with contextlib.suppress(OSError):
        line = FLAGS.search(cpuinfo.read_text())
    return None if line is None or not line[1].strip() else frozenset(line[1].split()).intersection(BF16_UNITS)


def computes() -> bool:
    """Return whether this rank computes in bf16 where it is asked to: it has a unit, or the user insists."""
    return read_units() != frozenset() or os.environ.get(BF16, "").strip() == EMULATE


def must_use_float32() -> bool:
    """Return whether this process computes in float32 where bf16 is asked for."""
    return not computes() or find_lacking() is not None


def find_lacking() -> int | None:
    """Return the first rank of the job that does not compute in bf16; None where all do, or no group has formed."""
    distributed = sys.modules.get(DISTRIBUTED)
    if distributed is None or not distributed.is_initialized():
        return None
    group = distributed._get_default_group()
    if KNOWN.group is not group:
        KNOWN.group, KNOWN.lacks = group, None
        with contextlib.suppress(Exception):  # a rank without our hooks has said nothing, and some groups have no store
            KNOWN.lacks = ask_ranks(distributed._get_default_store(), distributed.get_world_size())
    return KNOWN.lacks


def ask_ranks(store: Any, size: int) -> int | None:
    """Return the first rank that has said no; wait for all."""
    keys = [KEY.format(rank) for rank in range(size)]
    store.wait(keys, LONGEST)
    return next((rank for rank, key in enumerate(keys) if store.get(key) == NO), None)


def watch_groups(module: Any) -> None:
    """Let each rank say whether it computes in bf16 once its group has formed; module: that of DISTRIBUTED."""
    form = module.init_process_group

    @functools.wraps(form)
    def form_and_say(*words: Any, **options: Any) -> Any:
        result = form(*words, **options)
        with contextlib.suppress(Exception):  # not every backend has a store
            module._get_default_store().set(KEY.format(module.get_rank()), YES if computes() else NO)
        return result

    module.init_process_group = form_and_say


def watch_autocast(module: Any) -> None:
    """Let autocast compute in float32; module: torch.amp.autocast_mode."""
    enter, torch = module.autocast.__enter__, module.torch

    @functools.wraps(enter)
    def enter_in_float32(self: Any) -> Any:
        lowers = self.device == "cpu" and self._enabled and self.fast_dtype is torch.bfloat16
        if not lowers or not must_use_float32():
            return enter(self)
        say_float32("autocast in bfloat16")
        self.fast_dtype = torch.float32
        try:
            return enter(self)
        finally:
            self.fast_dtype = torch.bfloat16
            respect_weights(torch)

    module.autocast.__enter__ = enter_in_float32


def respect_weights(torch: Any) -> None:
    """Let autocast be as it was asked for, if the first module that is called in it has weights in bfloat16."""

    def look(model: Any, _: object) -> None:
        handle.remove()
        if any(weight.dtype is torch.bfloat16 for weight in model.parameters()) and is_enabled(torch):
            set_type(torch, torch.bfloat16)

    handle = torch.nn.modules.module.register_module_forward_pre_hook(look)


def is_enabled(torch: Any) -> bool:
    """Return whether autocast is on for the processor; torch before 2.4 has a function of each device for that."""
    try:
        return bool(torch.is_autocast_enabled("cpu"))
    except TypeError:
        return bool(torch.is_autocast_cpu_enabled())


def set_type(torch: Any, dtype: Any) -> None:
    """Let autocast compute in a type from here to its end."""
    if hasattr(torch, "set_autocast_dtype"):
        torch.set_autocast_dtype("cpu", dtype)
    else:
        torch.set_autocast_cpu_dtype(dtype)


def watch_policies(module: Any) -> None:
    """Let FSDP compute in the type of the weights; module: what defines one of its policies of mixed precision."""
    import torch  # that module has imported it

    for kind in (getattr(module, name, None) for name in ("MixedPrecision", "MixedPrecisionPolicy")):
        if kind is not None:
            kind.__init__ = keep_types(kind.__init__, torch.bfloat16)


def keep_types(make: Callable[..., None], low: Any) -> Callable[..., None]:
    """Return the __init__ of a policy, of which no part that computes has the low type where no unit has it."""

    @functools.wraps(make)
    def make_in_float32(self: Any, *words: Any, **options: Any) -> None:
        make(self, *words, **options)
        lowered = [name for name in POLICIES if getattr(self, name, None) is low]
        if lowered and must_use_float32():
            say_float32("FSDP in bfloat16")
            for name in lowered:
                object.__setattr__(self, name, None)  # some of them are frozen

    return make_in_float32


def allow_bf16(module: Any) -> None:
    """Let the Trainer take bf16 without use_cpu; module: transformers.training_args.

    It asks for a GPU then (__post_init__), also where there is none; trl's default is bf16.
    """
    if read_units() is not None:
        module.is_torch_bf16_gpu_available = lambda: True


def watch_evaluation(module: Any) -> None:
    """Let a Trainer evaluate in float32 what it was to evaluate in bf16; module: transformers.trainer."""
    for name in ("evaluation_loop", "prediction_loop"):
        loop = getattr(module.Trainer, name, None)
        if loop is not None:
            setattr(module.Trainer, name, evaluate_in_float32(loop))


def evaluate_in_float32(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop of the Trainer that leaves the weights as they are, and the arguments as they were typed."""

    @functools.wraps(loop)
    def run(self: Any, *words: Any, **options: Any) -> Any:
        if not getattr(self.args, FULL_EVALUATION, False) or not must_use_float32():
            return loop(self, *words, **options)
        say_float32(FULL_EVALUATION)
        setattr(self.args, FULL_EVALUATION, False)
        try:
            return loop(self, *words, **options)
        finally:
            setattr(self.args, FULL_EVALUATION, True)

    return run


def watch_ipex(module: Any) -> None:
    """Let ipex.optimize keep weights in float32; module: intel_extension_for_pytorch."""
    import torch  # that module has imported it

    optimize = module.optimize

    @functools.wraps(optimize)
    def optimize_in_float32(model: Any, dtype: Any = None, *words: Any, **options: Any) -> Any:
        if dtype is torch.bfloat16 and must_use_float32():
            say_float32("IPEX in bfloat16")
            dtype = torch.float32
        return optimize(model, dtype, *words, **options)

    module.optimize = optimize_in_float32


def watch_optimizers(module: Any) -> None:
    """Say at the first step of each optimizer what weights in bfloat16 cost; module: torch.optim.optimizer.

    Torch before 2.0 has no such hook. None can be removed while hooks are called.
    """
    register, torch = getattr(module, "register_optimizer_step_post_hook", None), module.torch
    if register is None or read_units() != frozenset():
        return
    seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def look(optimizer: Any, *_: object) -> None:
        if optimizer not in seen:
            seen.add(optimizer)
            weights = (weight for group in optimizer.param_groups for weight in group["params"])
            if any(weight.dtype is torch.bfloat16 for weight in weights):
                say(f"the weights are bfloat16: {describe_lack(None)}, and {SLOW}\n  try: {WEIGHTS}")

    register(getattr(torch, "_disable_dynamo", lambda function: function)(look))


def describe_lack(rank: int | None) -> str:
    """Return which processor has no unit; rank: of another one that has said so."""
    place = "this processor" if rank is None else f"the processor of rank {rank}"
    return f"{place} has none of {', '.join(BF16_UNITS)}"


def say_float32(asked: str) -> None:
    """Print once that what asks for bf16 trains in float32, and why."""
    if not KNOWN.said:
        rank = find_lacking() if computes() else None
        say(f"{asked}: trains in float32, because {describe_lack(rank)}; {BF16}={EMULATE} insists")


def say(text: str) -> None:
    """Print a line, once for the job."""
    if text not in KNOWN.said:
        KNOWN.said |= {text}
        if is_first(os.environ):
            with contextlib.suppress(Exception):  # a stream may be closed
                print(f"multinode: {text}", file=sys.stderr, flush=True)
