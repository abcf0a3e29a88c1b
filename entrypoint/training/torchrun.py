"""torchrun typed as a command, as in the guide's PyTorchJobs: how many processes it is to start, and where it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.container.files import which
from entrypoint.errors import WORLD, Refusal
from entrypoint.launchers.table import TORCHRUN, detect
from entrypoint.numbers import whole
from entrypoint.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.launchers.world import World

NAME = "torchrun"
# Stands here in our images and calls the entrypoint, because a pod's `command` takes the entrypoint's place.
FRONT = "/usr/local/sbin"
COUNT = "--nproc-per-node"


def read_count(words: list[str]) -> int | None:
    """Read the number of processes from torchrun's options; None where they leave it open."""
    left = list(words)
    while left and not left[0].endswith(".py"):  # what follows a script is the script's
        name, equals, value = left.pop(0).partition("=")
        if name.replace("_", "-") == COUNT:
            return whole(value if equals or not left else left[0])
    return None


def count(words: list[str], environ: Mapping[str, str]) -> int | None:
    """Read it where it is for us: a rank that starts torchrun has its place in a world already."""
    return None if detect(environ).ranks else read_count(words)


def settle(world: World) -> list[Setting]:
    """Give torchrun the number of processes that this node was found fit for: its `auto` counts processors."""
    if world.launcher != TORCHRUN or world.local_size is None:
        return []
    return [Setting("PET_NPROC_PER_NODE", str(world.local_size), "torchrun's auto is a process for every processor")]


def find(environ: Mapping[str, str]) -> str:
    """Find torchrun itself, not what stands in front of it."""
    path = os.pathsep.join(each for each in environ.get("PATH", os.defpath).split(os.pathsep) if each != FRONT)
    found = which(NAME, {"PATH": path})
    if found is None:
        raise Refusal("there is no torchrun", path, "pip install torch", WORLD)
    return found
