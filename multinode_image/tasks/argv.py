"""The command that is exec'd: a list of words, never a shell's line."""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack, release
from multinode_image.settings import Setting
from multinode_image.tasks.command import Command
from multinode_image.world.agent import make_command
from multinode_image.world.model import MPIJOB_WORKER, World
from multinode_image.world.starters import replace_auto

PYTHON = "python3"
# Since 2.6 torch loads numbers of numpy from a checkpoint only if it is told to, as the Trainer does since 4.47
# (transformers/trainer.py, safe_globals); older ones load everything.
LOADS_SAFELY, IS_STRICT = (4, 47), (2, 6)
LOOSE = Setting("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1", "this transformers cannot load its own checkpoints otherwise")
# The user's own; torch takes only one of the two.
STRICT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load_loosely(stack: Stack, environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return the variable without which the Trainer of this image loads no checkpoint; none where it needs none."""
    needs = release(stack.transformers) < LOADS_SAFELY and release(stack.torch) >= IS_STRICT
    return (LOOSE,) if needs and not environ.get(STRICT) else ()


def make_argv(command: Command, world: World, words: list[str], environ: Mapping[str, str], torch: str) -> list[str]:
    """Return the command that starts a program in this world: by torchrun where there are processes to start.

    torch: its version.
    """
    if not command.kind.is_script:
        return replace_auto(words, world.local_size or 1)
    if not command.trains:
        return [PYTHON, *words]
    if world.launcher == MPIJOB_WORKER:
        remedy = "run `worker` in the workers of an MPIJob, and the task in its launcher"
        raise Refusal("a worker of an MPIJob waits for ranks, it does not train", command.name, remedy)
    return [*(make_command(world, environ, torch) if world.needs_torchrun else [PYTHON]), *words]
