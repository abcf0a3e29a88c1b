"""Whether threads may be bound to cores: what we bind, and what the user has bound that a process does not get."""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.machine.image import release
from multinode_image.tuning.context import Context, Role
from multinode_image.tuning.preloads import has_iomp
from multinode_image.tuning.share import find_share
from multinode_image.world.starters import MPIRUN

# Variables that bind threads to processors, and values of them that do not (OpenMP 5.2, 21.2; Intel's and GNU's).
BINDINGS = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET")
LOOSE = ("", "false", "none", "disabled")
# From here on Python makes new processes by a server that it starts anew, and not by a fork of its own process
# (docs.python.org/3.14/whatsnew, multiprocessing).
SERVES_FORKS = (3, 14)
# What computes itself, or what we start to start ranks: others may start any number of programs.
COMPUTING = (Role.RANK, Role.AGENT, Role.MEMBER, Role.PROGRAM)
# By which a user has bound threads, or not; Intel's OpenMP would ignore them beside KMP_AFFINITY.
OF_THE_USER = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")


def list_bindings(context: Context) -> dict[str, str]:
    """Return the variables that a process does not get: those by which ranks would all be bound to the same core."""
    return read_bindings(context.environ) if must_not_bind(context) else {}


def read_bindings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that bind threads."""
    return {name: environ[name] for name in BINDINGS if environ.get(name, "").strip().lower() not in LOOSE}


def must_not_bind(context: Context) -> bool:
    """Return whether a process may not bind its threads: it would hand that on to ranks, or shares its cores."""
    if context.process.starter:  # the ranks of an mpirun are pinned by it, but not under a quota
        return context.process.starter != MPIRUN or not context.machine.exclusive
    alone = context.world.rank is None or not context.world.several
    return not alone and not (context.machine.exclusive and find_share(context).ranks == 1)


def warn_bindings(context: Context) -> list[str]:
    """Return a note on variables that a process does not get."""
    lost = " ".join(f"{name}={value}" for name, value in list_bindings(context).items())
    return [f"{lost} is left out: it would bind all ranks of this node to the same core"] if lost else []


def may_bind_threads(context: Context) -> bool:
    """Return whether KMP_AFFINITY may bind the threads of a rank that has the cores of several NUMA nodes to itself.

    Processes that share cores, or have the variable from a shell, would all be bound to the first of them. A bound
    thread hands its processor on to what it starts: Intel's OpenMP takes that back in a fork alone, so the workers of a
    DataLoader that are not forked would share one.
    """
    if context.process.role not in COMPUTING or release(context.stack.python) >= SERVES_FORKS:
        return False
    if any(context.environ.get(name) for name in OF_THE_USER):
        return False
    return context.machine.exclusive and shares_no_cores(context) and has_iomp(context)


def shares_no_cores(context: Context) -> bool:
    """Return whether no other node of this world can be a container beside this one, with the same cores."""
    return context.machine.restricted or not context.world.several_nodes
