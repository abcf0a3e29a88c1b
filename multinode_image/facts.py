"""What this process was given, read once: its variables, files of the kernel, and what its image is made of."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os.path import exists
from typing import Callable

from multinode_image.machine.cpus import Machine, read_machine
from multinode_image.machine.files import Files, measure_file_system, read_text
from multinode_image.machine.identity import Identity, find_identity
from multinode_image.machine.image import Stack, read_stack
from multinode_image.machine.inherited import Here, drop_unfit
from multinode_image.machine.limits import Limits, read_limits
from multinode_image.machine.places import read_mounts
from multinode_image.settings import forget
from multinode_image.world.table import complete_variables

# File systems in memory, whose files are lost with the container.
MEMORY = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Facts:
    """What nearly every start needs beside its command line.

    environ: the variables of the container, with those that a scheduler left in files, and without those that an
    entrypoint in a parent process set; files: returns the text of a file, read once, None for what may not be read;
    mounts: where something is mounted that outlives the container; has_terminal: whether stderr is a terminal, no log;
    exists: whether there is a file; notes: on variables that were left out.
    """

    environ: Mapping[str, str]
    root: str
    files: Files
    stack: Stack
    machine: Machine
    limits: Limits
    identity: Identity
    mounts: tuple[str, ...]
    has_terminal: bool
    exists: Callable[[str], bool]
    notes: tuple[str, ...] = ()

    @property
    def environ_with_home(self) -> dict[str, str]:
        """Return the variables with those of this user's identity."""
        return {**self.environ, **self.identity.variables}

    def read_script(self, path: str) -> str:
        """Return the text of a script; empty for a pipe, which can be read only once, by the program that runs it."""
        return (self.files(path) or "") if os.path.isfile(path) else ""


def snapshot(environ: Mapping[str, str], root: str) -> Facts:
    """Read everything; root is the directory with stack.json.

    Raise Refusal where the image's own files are damaged. Private files of an unknown user are written on the way.
    """
    files = functools.cache(read_text)
    environ = complete_variables(forget(environ), lambda path: files(path) if os.path.isfile(path) else None)
    stack = read_stack(files(f"{root}/stack.json"))
    identity = find_identity(environ)
    return Facts(
        environ=environ,
        root=root,
        files=files,
        stack=stack,
        machine=read_this_machine(files),
        limits=read_limits(files, measure_file_system),
        identity=identity,
        mounts=tuple(point for point, kind, _ in read_mounts(files("/proc/self/mountinfo")) if kind not in MEMORY),
        has_terminal=os.isatty(2),
        exists=exists,
    )


def drop_inherited(facts: Facts, *, ranks_here: bool = True) -> Facts:
    """Return the facts without variables of a host that would break programs in this container, with notes on them.

    ranks_here: whether the ranks are in this container, so that its interfaces are theirs.
    """
    environ, notes = drop_unfit(facts.environ, Here(facts.stack.python, facts.exists, ranks_here))
    return replace(facts, environ=environ, notes=notes)


def read_this_machine(files: Files) -> Machine:
    """Return the machine as this process is allowed to use it."""
    return read_machine(files, frozenset(os.sched_getaffinity(0)), os.getppid())
