"""Where a command finds itself: the world that it belongs to or starts, and what it becomes there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.facts import Facts
from multinode_image.reading import whole
from multinode_image.tasks.command import MODULE, PLAIN, Command
from multinode_image.tuning.context import Role, read_threads, set_local_size
from multinode_image.world import alone, starters, table
from multinode_image.world.alone import read_required_size
from multinode_image.world.model import ALONE, Launcher, World
from multinode_image.world.torchrun import check_rendezvous_backend

# The world of a typed torchrun until it has read its options.
NOT_ASKED = "it reads its options first, and says then which ranks it starts"


class Situation(NamedTuple):
    """A command in its world, before anything is chosen for it.

    starter: the typed program that starts ranks itself (torchrun, accelerate, mpirun), if it is one; role: what becomes
    of this process; notes: what may be wrong with the world; nproc: how many processes were asked for on this node.
    """

    command: Command
    world: World
    starter: starters.Start | None
    role: Role
    notes: tuple[str, ...]
    nproc: int | None = None

    @property
    def meets_others(self) -> bool:
        """Return whether the command is one of several ranks, or starts them."""
        return self.role.trains and self.world.several

    @property
    def must_be_asked(self) -> bool:
        """Return whether it is a typed torchrun that has not read its options yet."""
        return self.starter is not None and self.starter.must_be_asked

    @property
    def may_train(self) -> bool:
        """Return whether something may train here: this process, or what it starts."""
        return self.starter is not None or self.world.several or self.role not in (Role.PROGRAM, Role.ANY)


def detect_situation(
    command: Command, facts: Facts, launcher: Launcher, nproc: int | None = None, start: starters.Start | None = None
) -> Situation:
    """Return the situation of a command; raise Refusal for a training that would run in another world than was meant.

    launcher: what started this process; nproc: how many processes were asked for on this node; start: a typed torchrun
    that has read its options, whose ranks run this command.
    """
    environ = facts.environ
    starter = start or read_starter(command, launcher, nproc)
    trains = command.trains or start is not None
    world, notes = find_world(command, environ, launcher, starter, nproc)
    if trains:
        check_rendezvous_backend(world, environ)
    counts = trains or is_typed_python(command)
    threads = read_threads(environ) if counts else whole(environ.get("OMP_NUM_THREADS", "").partition(",")[0])
    world = set_local_size(world, facts.machine, threads, starts=command.trains or starter is not None)
    if starter is not None and (start is not None or starter.program == starters.ACCELERATE):
        alone.check_program(environ, world, starter.program, starters.find_lone(command.line) or "SCRIPT.py")
    notes += world.notes
    if starter is None or not starter.is_torchrun:
        notes += note_apart(command, environ, world)
    return Situation(command, world, starter, find_role(command, world, starter), tuple(notes), nproc)


def read_starter(command: Command, launcher: Launcher, nproc: int | None) -> starters.Start | None:
    """Return the typed program that will start ranks; under a launcher only torchrun counts."""
    starter = starters.find_start(command.line) if command.kind == PLAIN else None
    if starter is not None and starter.is_torchrun:
        return starter
    if nproc is not None and not (command.trains or command.helps or command.kind.prints):
        remedy = command.kind.instead or f"{command.name} without it, or --nproc {nproc} SCRIPT.py"
        raise Refusal(f"--nproc has no meaning to {command.name}", f"--nproc {nproc}", remedy)
    return None if launcher.started else starter


def find_world(
    command: Command, environ: Mapping[str, str], launcher: Launcher, starter: starters.Start | None, nproc: int | None
) -> tuple[World, list[str]]:
    """Return the world; what is wrong with it stops what starts ranks there, and is a note beside any other command."""
    if starter is not None and starter.must_be_asked:
        return World(ALONE, NOT_ASKED, local_size=1), []
    typed, nproc = (None, nproc) if starter is None else (starter.described, starter.local_size)
    task = name_training(command) if command.trains or typed is not None else ""
    try:
        return table.detect(environ, nproc, launcher=launcher, typed=typed, task=task), []
    except Refusal as refusal:
        if task:
            raise
        return World(ALONE, "the launcher's variables are not usable", local_size=nproc), [refusal.note]


def name_training(command: Command) -> str:
    """Return what a command trains: the task, or the name of the script, as for a typed torchrun."""
    code = starters.find_code(command.line).name if command.kind == PLAIN else ""
    return os.path.basename(code or (command.words[0] if command.name == MODULE else command.name))


def note_apart(command: Command, environ: Mapping[str, str], world: World) -> list[str]:
    """Return notes on a world in which this process would train apart from others; a training of ours is refused."""
    if not command.trains:
        lone = starters.find_lone(command.line) if command.kind == PLAIN else ""
        if read_required_size(environ) == (1, 1) or not (lone or is_typed_python(command)):
            return []
        if lone and not lone.startswith("-m "):  # a module may start mpirun itself
            alone.check_program(environ, world, command.name, lone)
    try:
        alone.check(environ, world)
    except Refusal as refusal:
        if command.trains:
            raise
        return [refusal.note]
    return alone.warn_indexed(environ, world)


def is_typed_python(command: Command) -> bool:
    """Return whether a command is a typed Python, also one with its directory."""
    return command.kind == PLAIN and starters.is_python(command.name)


def find_role(command: Command, world: World, starter: starters.Start | None) -> Role:
    """Return what becomes of this process."""
    if command.trains:
        return Role.AGENT if world.needs_torchrun else Role.RANK
    if starter is not None and starter.described is not None:
        return Role.TORCHRUN
    if starter is not None:
        return Role.STARTER if starter.local_size is None else Role.ANY
    if world.rank is not None:
        return Role.MEMBER
    return Role.PROGRAM if command.kind.is_script or is_typed_python(command) else Role.ANY
