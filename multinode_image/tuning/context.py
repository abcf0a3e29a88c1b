"""What the variables of a process are worked out from: its world, its machine, and what is started in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, NamedTuple

from multinode_image.machine.cpus import Machine
from multinode_image.machine.image import Stack
from multinode_image.world.model import World

# What runs in a process: ranks of the world or what starts them, one program that computes, a program that may start
# any others, as a shell, or one that starts a number of ranks which nobody knows.
RANKS, SINGLE, ANY, UNKNOWN = "ranks", "one", "any", "unknown"


class Process(NamedTuple):
    """What is started, and what it finds in the image.

    runs: what runs in it; training: it is a rank or starts them, so that variables for this world only do no harm;
    program: its name as it is typed; starter: which program that starts ranks it is, empty for any other; checks_size:
    its ranks have to look how many they have become; is_logged: what it prints goes into a log; find_interface: the one
    that leads to the master; has_file: whether the image has a file.
    """

    runs: str = RANKS
    training: bool = True
    program: str = ""
    starter: str = ""
    checks_size: bool = False
    is_logged: bool = False
    find_interface: Callable[[], str | None] = lambda: None
    has_file: Callable[[str], bool] = lambda path: False


class Context(NamedTuple):
    """All that the variables of a process are worked out from; environ: what is set already."""

    world: World
    machine: Machine
    environ: Mapping[str, str]
    stack: Stack
    process: Process
