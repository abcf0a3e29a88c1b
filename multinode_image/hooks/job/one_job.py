"""How many processes were meant to train together, how many do, and the end of one that trains by itself.

WORLD_SIZE of a rank says how many processes the job has, and MULTINODE_WORLD_SIZE says it where the entrypoint has
detected the world of this container.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from multinode_image.reading import read_range, whole
from multinode_image.settings import APART, SIZE, may_work_apart
from multinode_image.world.table import MPIS

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES = "PET_NNODES"  # torchrun's own, over which its option --nnodes goes
# By torchrun or us, and by mpirun itself, as accelerate reads them.
RANKS = ("RANK", *(launcher.names.rank for launcher in MPIS))
SIZES = ("WORLD_SIZE", *(launcher.names.size for launcher in MPIS))
# What torchrun gives each of its ranks (torch.distributed.is_torchelastic_launched): their WORLD_SIZE is that of now,
# and what has started torchrun on the nodes counts also those that are gone.
ELASTIC = "TORCHELASTIC_RUN_ID"
# The process that has joined its job: what it starts may train something of its own, with the same variables.
MEMBER = "MULTINODE_MEMBER"
DISTRIBUTED, ACCELERATE = "torch.distributed.distributed_c10d", "accelerate.state"
EXIT_USER = 2
# What makes one job of ranks in each library, of those that are imported the first.
LIGHTNING = (
    'Trainer(accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]), '
    'num_nodes=int(os.environ["GROUP_WORLD_SIZE"]))'
)
REMEDIES = {
    "lightning.pytorch": LIGHTNING,
    "pytorch_lightning": LIGHTNING,
    "lightning.fabric": LIGHTNING.replace("Trainer", "Fabric"),
    # Without the sampler ranks would be one job, and each would train on all data.
    "torch": 'torch.distributed.init_process_group("gloo"), then DistributedDataParallel(model), and '
    "DataLoader(data, sampler=DistributedSampler(data)) without shuffle=True",
}
# Libraries whose own loops know of one process; their optimizers are named so in one_model.py.
LIBRARIES = {
    "keras": "a loop of torch over DistributedDataParallel(model) in place of model.fit, as in Keras' guide to "
    "distributed training with PyTorch",
    "thinc": "one node: spaCy trains in one process",
}
ON_CPU = "ACCELERATE_USE_CPU=1, or Accelerator(cpu=True), or TrainingArguments(use_cpu=True)"
AS_RANKS = "multinode SCRIPT.py, or multinode -m MODULE, without python or accelerate before it: that starts ranks"
TOLD: list[Fault] = []


class Fault(NamedTuple):
    """What is wrong, in the three parts of a message."""

    fact: str
    value: str
    remedy: str

    def __str__(self) -> str:
        """Return the two lines that are printed."""
        return f"multinode: {self.fact}: {self.value}\n  try: {self.remedy}"


def count_meant(environ: Mapping[str, str]) -> int:
    """Return how many processes were meant to train together, at least; 1 for one that is meant to be alone."""
    required = read_range(environ.get(SIZE, ""))
    if may_work_apart(environ) or required == (1, 1):
        return 1
    least = required[0] if required else 1
    if required and not environ.get("RANK"):  # a rank may be the only one, where nodes come and go
        least = max(2, least)
    names = SIZES[:1] if environ.get(ELASTIC) else SIZES
    return max(least, *(whole(environ.get(name, "")) or 1 for name in names))


def is_first(environ: Mapping[str, str]) -> bool:
    """Return whether this process is the first of its job, or none of several: a line is said once."""
    return next((environ[name] for name in RANKS if environ.get(name)), "0") == "0"


def count_joined(modules: Mapping[str, Any]) -> int:
    """Return how many train together with this process: torch's group, unless accelerate knows of one only."""
    distributed, state = modules.get(DISTRIBUTED), getattr(modules.get(ACCELERATE), "PartialState", None)
    if distributed is None or not distributed.is_initialized():
        return 0
    return 1 if getattr(state, "_shared_state", {}).get("num_processes") == 1 else int(distributed.get_world_size())


def find_fault(modules: Mapping[str, Any], environ: Mapping[str, str], optimizer: str = "") -> Fault | None:
    """Return why this process trains apart from the others of its job; None where it does not."""
    meant, joined = count_meant(environ), count_joined(modules)
    if meant == 1 or joined >= meant:
        return None
    rank = environ.get("RANK", "")
    place = f"{f'rank {rank}' if rank else 'no rank'}, in {f'a group of {joined}' if joined else 'no process group'}"
    apart = f"{APART}=1 where each is meant to train by itself, or where they meet without torch.distributed"
    remedy = f"{choose_remedy(modules, optimizer) if rank else AS_RANKS}; or {apart}"
    return Fault(f"this process trains by itself, and was meant to be one of {meant}", place, remedy)


def find_agent_fault(nodes: int, environ: Mapping[str, str]) -> Fault | None:
    """Return why an agent of torchrun would train apart from others; None where it would not, or is meant to.

    It knows of no other node, in each of several processes of mpirun or on several nodes: each would train a model of
    its own. nodes: how many there may be, as torchrun has read it.
    """
    several = next((name for name in SIZES[1:] if (whole(environ.get(name, "")) or 1) > 1), "")
    if nodes > 1 or may_work_apart(environ) or environ.get(MEMBER):
        return None
    apart = f"or {APART}=1 to train apart"
    if several:
        fact = "torchrun would train a model of its own in each process of a launcher"
        ranks = "multinode SCRIPT.py without torchrun, which is one rank in each of these processes"
        remedy = f"{ranks}; or one torchrun on each node, with --nnodes and --rdzv_endpoint; {apart}"
        return Fault(fact, f"{several}={environ[several]}", remedy)
    if read_most(environ.get(NODES, "")) > 1:
        fact = "torchrun would train a model of its own on each of several nodes"
        remedy = f"torchrun without --nnodes or --standalone, which reads {NODES} and the rest; {apart}"
        return Fault(fact, f"one node, and {NODES}={environ[NODES]}", remedy)
    return None


def read_most(nodes: str) -> int:
    """Return the largest number of nodes in `1:4` or `2`; 1 where there is none."""
    most = nodes.rpartition(":")[2].strip()
    return int(most) if most.isdecimal() else 1


def choose_remedy(modules: Mapping[str, Any], optimizer: str = "") -> str:
    """Return what forms one job in the library of an optimizer, or else in one that this process has imported."""
    library = optimizer.partition(".")[0]
    if library in LIBRARIES:
        return LIBRARIES[library]
    state = getattr(modules.get(ACCELERATE), "PartialState", None)
    if getattr(state, "_shared_state", {}).get("num_processes") == 1:
        return ON_CPU
    return next(remedy for name, remedy in REMEDIES.items() if name in modules or name == "torch")


def leave(fault: Fault, code: int = EXIT_USER) -> NoReturn:
    """Say what is wrong, and end: by SystemExit, which hardly anybody catches, else at once.

    It ends a thread only, and where somebody has caught it the next step comes here again.
    """
    caught = bool(TOLD)
    if not caught:
        TOLD.append(fault)
        with contextlib.suppress(Exception):  # a stream may be closed
            print(fault, file=sys.stderr, flush=True)
    if not caught and threading.current_thread() is threading.main_thread():
        sys.exit(code)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(code)
