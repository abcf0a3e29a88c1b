"""Where a command finds itself: the world that it belongs to or starts, and what it becomes there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.numbers import whole
from entrypoint.rendezvous.torchrun import check_backend
from entrypoint.tasks.command import PLAIN, SSH, TASK, WORKER, Command
from entrypoint.tuning import starters
from entrypoint.tuning.threads import ANY, RANKS, SINGLE, UNKNOWN, read_threads, set_local_size
from entrypoint.world import alone, table
from entrypoint.world.alone import SIZE
from entrypoint.world.model import ALONE, MPIJOB_LAUNCHER, TORCHRUN, Launcher, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from entrypoint.facts import Facts


# Names of programs and modules that start ranks on other hosts, in the launcher of an MPIJob. A torchrun does not.
RANKS_ELSEWHERE = {
    *("mpirun", "mpirun_rsh", "mpiexec", "orterun", "prterun", "horovodrun"),
    *("launch", "accelerate-launch", "deepspeed", "multinode"),
}
APART = str.maketrans(dict.fromkeys("\"'`$;&|()", " "))  # what a shell's line has between its words


class Situation(NamedTuple):
    """A command in its world, before anything is chosen for it.

    starter: the typed program that starts ranks itself (torchrun, accelerate, mpirun), if it is one; described: the
    variables that describe the world: the PET_ variables of a typed torchrun, else all; kind: what this process
    becomes, as in `threads.Process`; becomes_ranks: whether it trains, or is replaced by what starts the ranks of this
    world; notes: what may be wrong with the world.
    """

    command: Command
    world: World
    starter: starters.Start | None
    described: Mapping[str, str]
    kind: str
    becomes_ranks: bool
    notes: tuple[str, ...]

    @property
    def meets_others(self) -> bool:
        """Return whether the command is one of several ranks, or starts them."""
        return self.becomes_ranks and self.world.sizes[1] > 1


def detect(command: Command, facts: Facts, launcher: Launcher, nproc: int | None) -> Situation:
    """Return the situation of a command; raise Refusal for a training that would run in another world than was meant.

    launcher: what started this process; nproc: how many processes were asked for on this node.
    """
    environ = facts.environ
    starter = find_starter(command, environ, launcher, nproc)
    described = environ if starter is None else starter.environ
    becomes_ranks = command.trains or (starter is not None and starter.program == TORCHRUN)
    world, notes = find_world(command, environ, launcher, starter, nproc)
    if becomes_ranks:
        check_backend(world, described)
    counts = becomes_ranks or is_python(command)
    threads = read_threads(environ) if counts else whole(environ.get("OMP_NUM_THREADS", "").partition(",")[0])
    world = set_local_size(world, facts.machine, threads, starts=command.trains or starter is not None)
    if starter is not None and starter.program in (TORCHRUN, starters.ACCELERATE):
        alone.check_typed(environ, world, starter.program, find_script(command.words) or "SCRIPT.py")
    notes += [*world.notes, *check_world(command, described, world)]
    kind = find_kind(command, world, starter)
    return Situation(command, world, starter, described, kind, becomes_ranks, tuple(notes))


def find_starter(
    command: Command, environ: Mapping[str, str], launcher: Launcher, nproc: int | None
) -> starters.Start | None:
    """Return what a typed program says of the ranks that it will start; under a launcher only torchrun counts."""
    starter = starters.read_start([command.name, *command.words], environ, nproc) if command.kind == PLAIN else None
    if starter is not None and starter.program == TORCHRUN:
        return starter
    idle = command.kind in (PLAIN, TASK, WORKER, SSH) and not (command.trains or command.helps)
    if nproc is not None and idle:
        raise Refusal("--nproc has no meaning for a command that is no training", f"--nproc {nproc}", command.name)
    if starter is None or launcher.started:
        return None
    starters.check_accelerate([command.name, *command.words], environ)
    return starter._replace(environ=environ)


def find_world(
    command: Command, environ: Mapping[str, str], launcher: Launcher, starter: starters.Start | None, nproc: int | None
) -> tuple[World, list[str]]:
    """Return the world; what is wrong with it stops what starts ranks there, and is a note beside any other command."""
    typed = starter.environ if starter is not None and starter.program == TORCHRUN else None
    nproc = nproc if starter is None else starter.local_size
    task = name_task(command) if command.trains or typed is not None else ""
    try:
        return table.detect(environ, nproc, launcher=launcher, typed=typed, task=task), []
    except Refusal as refusal:
        if task:
            raise
        return World(ALONE, "the launcher's variables are not usable", local_size=nproc), [refusal.note]


def name_task(command: Command) -> str:
    """Return what a command trains: the task, or the name of the script, as for a typed torchrun."""
    return os.path.basename(find_script([command.name, *command.words]) or command.name)


def find_script(words: Iterable[str]) -> str:
    """Return the first script that is a word by itself; empty if none is."""
    return next((word for word in words if word.endswith(".py")), "")


def check_world(command: Command, environ: Mapping[str, str], world: World) -> list[str]:
    """Return notes on a world in which this process would train apart from others; a training of ours is refused."""
    notes, python = [], is_python(command)
    if command.trains or python:
        try:
            alone.check(environ, world)
        except Refusal as refusal:
            if command.trains:
                raise
            return [refusal.note]
        notes += alone.warn_indexed(environ, world)
    notes += [] if command.trains else check_launcher(command, world, environ)
    return notes + (check_python(command, world, environ) if python and world.launcher == TORCHRUN else [])


def check_launcher(command: Command, world: World, environ: Mapping[str, str]) -> list[str]:
    """Return a note for a script that a shell starts in the launcher of an MPIJob, where no worker takes part.

    Raise Refusal where a Python is typed. What names a program that starts ranks is left alone.
    """
    plain = is_python(command) or os.path.basename(command.name) in starters.SHELLS
    words = " ".join([command.name, *command.words]).translate(APART).split()
    script = find_script(words)
    if world.launcher != MPIJOB_LAUNCHER or not plain or not script or any(map(may_start_ranks, words)):
        return []
    fact = "a script in the launcher of an MPIJob runs there alone, without the workers"
    instead = f"{script} without python3 is started on the hosts of the hostfile"
    if is_python(command) and environ.get(SIZE) != "1":
        raise Refusal(fact, script, f"{instead}; {SIZE}=1 where it is meant to run here alone")
    return [f"{fact}: {script}; {instead}"]


def may_start_ranks(word: str) -> bool:
    """Return whether a word is a program that starts ranks elsewhere, as mpiexec.hydra, or a module, or called so."""
    return not RANKS_ELSEWHERE.isdisjoint(os.path.basename(word).split("."))


def is_python(command: Command) -> bool:
    """Return whether a command is a typed Python, also one with its directory."""
    return command.kind == PLAIN and os.path.basename(command.name).startswith("python")


def check_python(command: Command, world: World, environ: Mapping[str, str]) -> list[str]:
    """Return a note for a Python in a rendezvous, which begins as many trainings as there are nodes.

    Raise Refusal for a script on several nodes: each would train a model of its own, and write it where the others do.
    """
    letter, code, _ = starters.find_code(command.words)
    is_module = letter == "m" and code not in starters.MODULES
    if not is_module and (letter or not code.endswith(".py")):
        return []
    instead = f"{code} without {command.name} is started by torchrun, as ranks of one training"
    if is_module:
        instead = f"torchrun -m {code} starts ranks of one training"
    fact = f"{command.name} starts one process on every node, each by itself"
    if not letter and world.several_nodes and environ.get(SIZE) != "1":
        remedy = f"{instead}; {SIZE}=1 where every node is meant to run it by itself"
        raise Refusal(fact, f"{code} on {world.nodes[1]} nodes", remedy)
    return [f"{fact}; {instead}"]


def find_kind(command: Command, world: World, starter: starters.Start | None) -> str:
    """Return what this process becomes, as in Context."""
    if starter is not None:
        return UNKNOWN if starter.local_size is None and not starter.is_auto else ANY
    if command.trains or world.rank is not None:
        return RANKS
    return SINGLE if command.kind == TASK or is_python(command) else ANY
