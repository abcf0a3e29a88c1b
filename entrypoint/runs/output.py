"""A run and its directory: from where it goes on, and what is done there before it starts."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import WORLD, Refusal
from entrypoint.faults.disks import MORE_ROOM, describe_disk
from entrypoint.runs.checkpoints import Checkpoint
from entrypoint.runs.keeper import KEEPER, start_keeper
from entrypoint.runs.lease import Clock, check_other, check_twin, create, release, take, write_whole
from entrypoint.runs.record import OWN, as_text, check_record, compare, describe, find_last, make_mark, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from entrypoint.launchers.world import World

MASTERS = ("PET_MASTER_ADDR", "MASTER_ADDR")


class Run(NamedTuple):
    """A training and its directory for results.

    anew: whether the user wants to begin anew, or from a checkpoint of his own; resumes: whether its script takes
    --resume_from_checkpoint, and nobody has typed it; nodes: at most; leads: whether this process is on the node of
    rank 0; asks: whether it looks at what the directory holds; joins: whether others may be there before it; owner:
    who the job is to other jobs; mark: how this node signs the directory, empty where another rank of it does.
    """

    directory: str
    task: str
    given: Mapping[str, object]
    anew: bool
    resumes: bool
    nodes: int
    leads: bool
    asks: bool
    joins: bool
    owner: str
    host: str
    mark: str


def make_run(directory: str, task: str, given: Mapping[str, object], world: World, environ: Mapping[str, str]) -> Run:
    """Return the run of a task; who leads is unknown where nodes come and go, so that each of them may.

    Where a launcher has started the ranks and named their job, all of them ask, or the others would wait for a rank 0
    that was refused: Slurm ends no step because one of its tasks has ended.
    """
    several = world.several_nodes
    host = os.uname().nodename
    leads = not world.rank and not world.node_rank
    asks = leads or (world.rank is not None and bool(world.job))
    joins = several and world.rank is None and world.node_rank is None
    owner, mark = name_owner(world, environ, host), name_mark(world, host)
    return Run(directory, task, given, False, True, world.nodes[1], leads, asks, joins, owner, host, mark)


def name_mark(world: World, host: str) -> str:
    """Return how a node signs: with its place among the nodes, as far as its launcher has said it.

    Where a launcher has started the ranks, it is that of the node's first rank.
    """
    low, high = world.nodes
    place = world.node_rank if world.rank is None else world.rank
    if high > 1 and (place is None or low != high):
        return make_mark(host, "")
    return "" if world.local_rank else make_mark(host, f"rank-{place}" if world.rank else f"node-{place or 0}")


def name_owner(world: World, environ: Mapping[str, str], host: str) -> str:
    """Return who a job is to other jobs: the same after a restart, where its launcher has a name for it."""
    if world.several_nodes and world.rank is None:
        master = next((environ[name] for name in MASTERS if environ.get(name)), "")
        # Two jobs by hand may have one node of rank 0, but not one port there.
        return f"{environ.get('PET_RDZV_ENDPOINT') or f'{master}:{world.port}'} {world.job}"
    if world.job:
        return f"{world.launcher} {world.job}"
    return f"{host} {os.urandom(8).hex()}"


def check_run(run: Run) -> None:
    """Raise Refusal if the directory holds another run."""
    if run.asks and not run.anew:
        new = describe(run.task, run.given, run.nodes, run.directory)
        check_record(run.directory, read_record(run.directory), new)


def find_resume(run: Run) -> tuple[Checkpoint | None, str]:
    """Return the checkpoint that a run goes on from, if there is one, and what to say of that."""
    return (None, "") if run.anew or not run.resumes else find_last(run.directory, run.nodes)


def open_run(run: Run, clock: Clock, say: Callable[[str], None]) -> dict[str, str]:
    """Sign the directory; on the node of rank 0 take its lease, keep that until this process ends, and leave a record.

    Return the variable by which the training ends what keeps the lease; empty where there is no such process.
    Raise Refusal if another job writes there, or has been there.
    """
    place = f"{run.directory}/{OWN}"
    if not run.leads:
        if run.asks:
            check_other(f"{place}/lease.json", run.owner, clock)
        with contextlib.suppress(OSError):  # a node that writes no results may be unable to
            sign(run)
        return {}
    try:
        sign(run)
        if not run.joins:
            check_twin(f"{place}/lease.json", run.owner, clock, say)
        own = take(f"{place}/lease.json", run.owner, run.host, clock, say)
        return {KEEPER: str(begin(run, f"{place}/lease.json", fresh=own or not run.joins))}
    except PermissionError as error:
        remedy = f"--output_dir ANOTHER, or as the user who made it: chmod -R g+w {place}"
        raise Refusal("the directory for results belongs to another user", error.filename, remedy) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        fact = "no space is left in the directory for results"
        raise Refusal(fact, describe_disk(run.directory), MORE_ROOM, WORLD) from None


def sign(run: Run) -> None:
    """Leave the mark of this node: those of two prove that the directory is shared."""
    if run.mark:
        make_shared(f"{run.directory}/{OWN}/nodes")
        create(f"{run.directory}/{OWN}/nodes/{run.mark}", "")


def make_shared(directory: str) -> None:
    """Make a directory that the group may write too: a job that starts again may have another uid."""
    os.makedirs(directory, exist_ok=True)
    for each in (directory, os.path.dirname(directory)):
        if os.stat(each).st_uid == os.getuid():
            os.chmod(each, 0o775)


def begin(run: Run, lease: str, *, fresh: bool) -> int:
    """Leave the record of a run, and return the process that keeps the lease.

    fresh: whether it is this process that may write the record.
    """
    try:
        check_run(run)
        leave_record(run, fresh=fresh)
    except (Refusal, OSError):
        with contextlib.suppress(OSError):
            release(lease, run.owner)
        raise
    return start_keeper(lease, run.owner, run.host)


def leave_record(run: Run, *, fresh: bool) -> None:
    """Write the record of a run that does not go on; fresh: whether it is this process that may."""
    old, new = read_record(run.directory), describe(run.task, run.given, run.nodes, run.directory)
    path = f"{run.directory}/{OWN}/run.json"
    anew = run.anew or old is None or compare(old, new) or run.nodes > 1 == old.nodes
    if anew and (fresh or not os.path.exists(path)):
        write_whole(path, as_text(new))
