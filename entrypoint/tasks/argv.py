"""The command that is exec'd: a list of words, never a shell's line."""

from __future__ import annotations

import os
from collections.abc import Mapping

from entrypoint.addresses import PORT
from entrypoint.errors import EXIT_OUTSIDE, Refusal
from entrypoint.machine.files import which
from entrypoint.machine.image import Stack, release
from entrypoint.settings import Setting
from entrypoint.tasks.command import Command
from entrypoint.world.model import MPIJOB_WORKER, TORCHRUN, World

PYTHON = "python3"
# Our images have a program of that name here, which calls the entrypoint: a pod's `command` replaces the entrypoint.
FRONT = "/usr/local/sbin"
# Since 2.6 torch loads numbers of numpy from a checkpoint only if it is told to, as the Trainer does since 4.47
# (transformers/trainer.py, safe_globals); older ones load everything.
LOADS_SAFELY, IS_STRICT = (4, 47), (2, 6)
LOOSE = Setting("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1", "this transformers cannot load its own checkpoints otherwise")
# The only release of torch whose standalone rendezvous always takes the host's own name.
NAMES_ITSELF = (2, 4)
# The user's own; torch takes only one of the two.
STRICT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load_loosely(stack: Stack, environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return the variable without which the Trainer of this image loads no checkpoint; none where it needs none."""
    needs = release(stack.transformers) < LOADS_SAFELY and release(stack.torch) >= IS_STRICT
    return (LOOSE,) if needs and not environ.get(STRICT) else ()


def make_argv(command: Command, world: World, words: list[str], environ: Mapping[str, str], torch: str) -> list[str]:
    """Return the command that starts a program in this world: by torchrun where there are processes to start.

    torch: its version, which decides how the ranks of a single node meet. Options of torchrun have underscores, which
    every release takes; dashes are known since 2.0 (pytorch/pytorch#94505).
    """
    if not command.what.is_script:
        return words
    if not command.trains:
        return [PYTHON, *words]
    if world.launcher == MPIJOB_WORKER:
        remedy = "run `worker` in the workers of an MPIJob, and the task in its launcher"
        raise Refusal("a worker of an MPIJob waits for ranks, it does not train", command.name, remedy)
    if world.launcher == TORCHRUN:
        return [TORCHRUN, *list_options(world, environ), *words]
    if world.needs_torchrun:
        return [TORCHRUN, *meet_here(torch), "--nproc_per_node", str(world.local_size), *words]
    return [PYTHON, *words]


def meet_here(torch: str) -> list[str]:
    """Return the options by which the ranks of a single node meet.

    Torch 2.4 ignores --local-addr in a standalone rendezvous, and hangs where the name of the host does not resolve, as
    without a network (pytorch/pytorch#135262); its static rendezvous takes the address that it is given.
    """
    if release(torch) != NAMES_ITSELF:
        return ["--standalone"]
    from entrypoint.machine.network import is_free  # only this release pays for it

    port = next((port for port in range(PORT, PORT + 100) if is_free(port)), PORT)
    return ["--rdzv_backend", "static", "--master_addr", "127.0.0.1", "--master_port", str(port)]


def list_options(world: World, environ: Mapping[str, str]) -> list[str]:
    """Return the options of torchrun that it cannot read from PET_ variables, or would read wrongly."""
    each = ["--nproc_per_node", str(world.local_size)]
    if environ.get("PET_RDZV_ENDPOINT"):
        return each if environ.get("PET_RDZV_BACKEND") else [*each, "--rdzv_backend", "c10d"]
    nodes = ["--nnodes", str(world.nodes[1]), "--node_rank", str(world.node_rank or 0)]
    return [*each, *nodes, "--master_addr", str(world.master), "--master_port", str(world.port)]


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without empty PET_ variables: torchrun fails on the PET_STANDALONE= of a PyTorchJob."""
    return {name: value for name, value in environ.items() if value or not name.startswith("PET_")}


def find_torchrun(environ: Mapping[str, str]) -> str:
    """Return the path of torchrun itself, not that of our program of the same name."""
    # Its directory may be written in several ways; a program that found itself would start itself for ever.
    front = os.path.realpath(FRONT)
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in places if os.path.realpath(each) != front)
    found = which(TORCHRUN, {"PATH": path})
    if found is None:
        raise Refusal("there is no torchrun", path, "pip install torch", EXIT_OUTSIDE)
    return found
