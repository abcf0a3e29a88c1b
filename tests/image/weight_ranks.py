"""What two ranks run in a container: trainings of many kinds, and what each rank says and ends with.

Every case is forked from a process that has imported torch, with a store of its own in the place of torchrun's.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch._dynamo  # once for all ranks, each of which imports it with its first optimizer
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANKS, BATCH = 2, 8
ONE = "trained as one job of 2 ranks, with equal weights at step {}"
APART = "each rank trains a model of its own, and nothing is exchanged"
KEPT: list[Any] = []
ALONE = "this process trains by itself, and was meant to be one of 2"


def rank() -> int:
    return int(os.environ["RANK"])


def net(seed: int = 0, dtype: Any = torch.float32) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)).to(dtype)


def wrap(model: nn.Module, **options: Any) -> nn.Module:
    return DistributedDataParallel(model, **options)


def sgd(model: nn.Module, rate: float = 0.05) -> Any:
    return torch.optim.SGD(model.parameters(), rate)


def nothing(_: int) -> None:
    """Do nothing between two steps."""


def find_batch(step: int, shard: int | None = None, size: int = BATCH) -> tuple[Any, Any]:
    """Return the batch of a rank, or of another shard."""
    random = torch.Generator().manual_seed(step * RANKS + (rank() if shard is None else shard))
    batch = torch.randn(size, 8, generator=random)
    return batch, (batch.sum(1, keepdim=True) / 3).tanh()


def train(
    model: Any, optimizer: Any, steps: int = 40, between: Callable[[int], None] = nothing, shard: int | None = None
) -> None:
    """Train for some steps; between: what is done after each backward pass, before the step."""
    for step in range(steps):
        batch, target = find_batch(step, shard)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batch.to(next(model.parameters()).dtype)).float(), target).backward()
        between(step)
        optimizer.step()


def form() -> None:
    dist.init_process_group("gloo")


def average(tensors: Any) -> None:
    for tensor in tensors:
        dist.all_reduce(tensor)
        tensor /= RANKS


# Trainings of one model.


def wrapped(steps: int = 100, **options: Any) -> None:
    form()
    model = wrap(net(rank()), **options)
    train(model, sgd(model), steps)


def optimizer_lives() -> None:
    form()
    model = wrap(net(rank()))
    KEPT.append(sgd(model))
    train(model, KEPT[0], 100)


def group_is_gone() -> None:
    wrapped(20)
    dist.destroy_process_group()


def by_hand() -> None:
    form()
    model = net()
    train(model, sgd(model), 40, lambda _: average([weight.grad for weight in model.parameters()]))


def in_bfloat16() -> None:
    form()
    model = wrap(net(rank(), torch.bfloat16))
    train(model, sgd(model), 40)


def uneven() -> None:
    form()
    model = wrap(net(rank()))
    with model.join():
        train(model, sgd(model), 40 if rank() == 0 else 12)


def zero() -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    form()
    model = wrap(net(rank()))
    train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3), 40)


def averaged_copy() -> None:
    form()
    model, copy = wrap(net(rank())), net(7)

    def follow(_: int) -> None:
        for one, other in zip(copy.parameters(), model.parameters(), strict=True):
            one.data.lerp_(other.data, 0.1)

    train(model, sgd(model), 40, follow)


def two_models(both: bool) -> None:
    form()
    first, second = wrap(net(rank())), wrap(net()) if both else net()
    optimizers = sgd(first), sgd(second)
    for step in range(40):
        for model, optimizer in zip((first, second), optimizers, strict=True):
            batch, target = find_batch(step)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(batch), target).backward()
            optimizer.step()


def shared_out() -> None:
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # before 2.6
        from torch.distributed._composable.fsdp import fully_shard

    form()
    model = net()
    fully_shard(model, mesh=dist.init_device_mesh("cpu", (RANKS,)))
    train(model, sgd(model), 40)


def shared_out_flat(original: bool) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    form()
    model = FullyShardedDataParallel(net(), device_id=torch.device("cpu"), use_orig_params=original)
    train(model, sgd(model), 40)


def first_alone(steps: int, everybody: bool) -> None:
    if everybody or rank() == 0:
        model = net(rank())
        train(model, sgd(model), steps)
    wrapped(20)


def weights_averaged_every(steps: int) -> None:
    form()
    model = net()

    def mix(step: int) -> None:
        if step and step % steps == 0:
            average([weight.data for weight in model.parameters()])

    train(model, sgd(model), 130, mix)


def refit_on_rank_0() -> None:
    group_is_gone()
    if rank() == 0:
        model = net()
        train(model, sgd(model), 5)


def evaluate() -> None:
    form()
    net()(find_batch(0)[0])
    dist.barrier()


def parameter_server() -> None:
    from torch.distributed import rpc

    rpc.init_rpc(f"rank{rank()}", rank=rank(), world_size=RANKS)
    if rank() == 0:
        model = net()
        train(model, sgd(model), 100)
    rpc.shutdown()


def in_turn() -> None:
    for _ in range(2):
        form()
        model = wrap(net(rank()))
        train(model, sgd(model), 20)
        dist.destroy_process_group()


# Trainings of two models.


def group_alone(steps: int, **options: Any) -> None:
    form()
    model = net()
    train(model, sgd(model), steps, **options)


def other_seeds() -> None:
    form()
    model = net(rank())
    train(model, sgd(model), 70)


def wrapper_is_passed_by() -> None:
    form()
    model = wrap(net())
    train(model.module, sgd(model), 70)


def no_group(steps: int, seed: Callable[[], int] = rank, shard: int | None = None) -> None:
    model = net(seed())
    train(model, sgd(model), steps, shard=shard)


def no_group_later() -> None:
    time.sleep(3 * rank())
    no_group(5)


def second_apart(steps: int) -> None:
    group_is_gone()
    model = net()
    train(model, sgd(model), steps)


def other_rates() -> None:
    form()
    model = wrap(net(rank()))
    train(model, sgd(model, 0.05 * (1 + rank())), 40)


def two_groups() -> None:
    port = 23000 + rank()
    dist.init_process_group("gloo", init_method=f"file:///tmp/group{port}{os.getpid()}", rank=0, world_size=1)
    model = wrap(net(rank()))
    train(model, sgd(model), 10)


class Case(NamedTuple):
    """What ranks run, how they end, and what the first of them says last, or both where they end with an error."""

    run: Callable[[], None]
    code: int
    says: str


CASES = {
    "wrapped": Case(wrapped, 0, ONE.format(64)),
    "the optimizer lives": Case(optimizer_lives, 0, ONE.format(100)),
    "three steps": Case(lambda: wrapped(3), 0, ONE.format(2)),
    "one step": Case(lambda: wrapped(1), 0, "were not compared: it has made one step"),
    "the group is gone": Case(group_is_gone, 0, ONE.format(16)),
    "by hand": Case(by_hand, 0, ONE.format(32)),
    "bfloat16": Case(in_bfloat16, 0, ONE.format(32)),
    "uneven": Case(uneven, 0, ONE.format("(8|32)")),
    "ZeRO": Case(zero, 0, ONE.format(32)),
    "an average beside": Case(averaged_copy, 0, ONE.format(32)),
    "both models": Case(lambda: two_models(True), 0, ONE.format(32)),
    "FSDP2": Case(shared_out, 0, "one job of 2 ranks, each of which has a part of the weights"),
    "FSDP": Case(lambda: shared_out_flat(False), 0, "one job of 2 ranks, each of which has a part of the weights"),
    "FSDP, original": Case(lambda: shared_out_flat(True), 0, "each of which has a part of the weights"),
    "rank 0 first": Case(lambda: first_alone(40, False), 0, ONE.format(16)),
    "rank 0 first for long": Case(lambda: first_alone(200, False), 0, ONE.format(16)),
    "all before a group": Case(lambda: first_alone(40, True), 0, ONE.format(16)),
    "local SGD": Case(lambda: weights_averaged_every(10), 0, "whose weights differ"),
    "refit": Case(refit_on_rank_0, 0, f"{ONE.format(16)}; those of SGD of 6 parameters were not compared"),
    "evaluation": Case(evaluate, 0, "no optimizer has made a step"),
    "rpc": Case(parameter_server, 0, "torch.distributed.rpc"),
    "in turn": Case(in_turn, 0, ONE.format(16)),
    "the same data": Case(lambda: group_alone(40, shard=0), 0, "do all read the same data"),
    "other rates": Case(other_rates, 0, "weights differ"),
    "no wrapper": Case(lambda: group_alone(100), 2, APART),
    "no wrapper, short": Case(lambda: group_alone(10), 2, APART),
    "other seeds": Case(other_seeds, 2, APART),
    "passed by": Case(wrapper_is_passed_by, 2, "call the DistributedDataParallel itself"),
    "one of two models": Case(lambda: two_models(False), 2, "each rank trains a model of its own beside one"),
    "no group": Case(lambda: no_group(100), 2, ALONE),
    "no group, short": Case(lambda: no_group(2), 2, ALONE),
    "no group, same": Case(lambda: no_group(80, lambda: 0, 0), 2, ALONE),
    "no group, one later": Case(no_group_later, 2, ALONE),
    "second apart": Case(lambda: second_apart(40), 2, ALONE),
    "second apart, long": Case(lambda: second_apart(100), 2, ALONE),
    "two groups": Case(two_groups, 2, ALONE),
}


def start(run: Callable[[], None], number: int, port: int, log: Any) -> int:
    """Fork a rank; return its process."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.dup2(log.fileno(), 2)
        place = {"RANK": number, "WORLD_SIZE": RANKS, "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": RANKS}
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
        more = {"TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_RUN_ID": "test", "MULTINODE_WORLD_SIZE": RANKS}
        mine = {"MULTINODE_TRAINING": os.getpid(), "GLOO_SOCKET_IFNAME": "lo"}
        os.environ.update({name: str(value) for name, value in {**place, **meeting, **more, **mine}.items()})
        torch.set_num_threads(1)
        with contextlib.suppress(ProcessLookupError):
            code = run_to_end(run)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def run_to_end(run: Callable[[], None]) -> int:
    """Run as Python does: what is registered for its exit comes after the script."""
    at_exit = sys.modules["multinode_image.hooks.at_exit"]
    at_exit.STATUS.clear()
    code = 0
    try:
        run()
    except SystemExit as error:
        code = int(error.code or 0)
    at_exit.end(sys.modules, os.environ)
    return code


def check(name: str, case: Case) -> str:
    """Run a case; return what is wrong with it, empty if nothing is."""
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    logs = [tempfile.TemporaryFile("w+") for _ in range(RANKS)]  # noqa: SIM115 - closed when nobody has them
    begin = time.monotonic()
    processes = [start(case.run, number, store.port, log) for number, log in enumerate(logs)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    texts = []
    for log in logs:
        log.seek(0)
        texts.append(log.read())
    print(f"{name}: {codes} {time.monotonic() - begin:.1f} s", *texts, sep="\n", flush=True)
    said = [bool(re.search(case.says, text)) for text in texts]
    if codes != [case.code] * RANKS or not (all(said) if case.code else said[0]):
        return name
    return ""


def main(names: list[str]) -> None:
    """Run some cases, or all."""
    wrong = [name for name, case in CASES.items() if (not names or name in names) and check(name, case)]
    print(f"{len(CASES) - len(wrong)} cases are well; not: {', '.join(wrong) or 'none'}", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
