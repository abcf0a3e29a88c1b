"""What the variables of a process are worked out from: its world, its machine, and what is started in it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Callable, NamedTuple

from multinode_image.machine.cpus import Machine
from multinode_image.machine.image import Stack
from multinode_image.world.model import World


class Role(Enum):
    """What becomes of this process."""

    RANK = "a training that is a rank of this world"
    AGENT = "our torchrun, which starts the ranks of this node"
    TORCHRUN = "a typed torchrun, which does"
    STARTER = "another program that starts ranks, of which nobody knows the number"
    MEMBER = "any other program in a process that a launcher has made a rank"
    PROGRAM = "one program that computes"
    ANY = "a program that may start any others, as a shell"

    @property
    def trains(self) -> bool:
        """Return whether it is a rank of this world, or starts those of this node."""
        return self is Role.RANK or self.is_torchrun

    @property
    def is_torchrun(self) -> bool:
        """Return whether torchrun starts the ranks of this node, typed or not."""
        return self in (Role.AGENT, Role.TORCHRUN)


class Process(NamedTuple):
    """What is started, and what it finds in the image.

    program: its name as it is typed; starter: which program that starts ranks it is, empty for any other; checks_size:
    its ranks have to look how many they have become; is_logged: what it prints goes into a log; find_interface: the one
    that leads to the master; has_file: whether the image has a file.
    """

    role: Role = Role.RANK
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

    @property
    def is_of_world(self) -> bool:
        """Return whether only processes of this world get its variables: ranks, and what starts them."""
        return self.process.role.trains or self.world.was_launched
