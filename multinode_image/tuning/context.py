"""What the variables of a process are worked out from: its world, its machine, and what is started in it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Callable, NamedTuple

from multinode_image.errors import Refusal
from multinode_image.machine.cpus import Machine
from multinode_image.machine.image import Stack
from multinode_image.reading import whole
from multinode_image.world.model import World


class Role(Enum):
    """What becomes of this process."""

    RANK = "a training that is a rank of this world"
    AGENT = "our torchrun, which starts the ranks of this node"
    TORCHRUN = "a typed torchrun that has read its options, which does"
    STARTER = "a program that starts ranks, of which nobody knows the number yet"
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


# How many ranks a node gets: by default one for each NUMA node that its cores fill.


def read_threads(environ: Mapping[str, str]) -> int | None:
    """Return the first number of OMP_NUM_THREADS; raise Refusal for a text that OpenMP does not read.

    It would take all processors that it sees (OpenMP 5.2, 21.1.2), of which a quota may allow a few.
    """
    text = environ.get("OMP_NUM_THREADS", "").strip()
    if text and not all(map(whole, text.split(","))):
        remedy = "export OMP_NUM_THREADS=4 without quotes in the value, or unset it"
        raise Refusal("OMP_NUM_THREADS is no number that OpenMP reads", repr(text), remedy)
    return whole(text.partition(",")[0])


def set_local_size(world: World, machine: Machine, threads: int | None = None, *, starts: bool = True) -> World:
    """Return the world with a number of processes on this node, by default one for each NUMA node that our cores fill.

    threads: the user's OMP_NUM_THREADS, for which there have to be cores; starts: whether processes are started here.
    """
    ours = world.is_unstarted
    if ours and not starts:  # one process has the whole machine, whatever a variable of the pod says
        return world._replace(local_size=1)
    if world.local_size is not None or not ours:
        return world._replace(local_size=world.local_size or 1)
    most = machine.cores // threads if threads else machine.cores
    count = max(1, min(machine.filled_nodes, most))
    return world._replace(local_size=count, guessed=(*world.guessed, "local_size"))
