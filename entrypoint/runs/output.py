"""A run and its directory for results: whose that is, and what is done there before the training starts."""

from __future__ import annotations

import contextlib
import errno
import os
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import WORLD, Refusal
from entrypoint.faults.disks import MORE_ROOM, describe_disk
from entrypoint.numbers import first_set
from entrypoint.runs.checkpoints import Checkpoint
from entrypoint.runs.keeper import KEEPER, start_keeper
from entrypoint.runs.lease import (
    Clock,
    check_other,
    check_twin,
    create,
    find_twin,
    read_lease,
    release,
    take,
    write_whole,
)
from entrypoint.runs.record import (
    OWN,
    PROOF,
    as_text,
    check_record,
    compare,
    describe,
    find_last,
    is_shared,
    make_mark,
    read_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from entrypoint.launchers.world import World

MASTERS = ("PET_MASTER_ADDR", "MASTER_ADDR")


class Role(Enum):
    """What this process may do in the directory for results; every process with a mark signs it.

    | role      | which process              | another run | the lease               | the record of the run |
    | --------- | -------------------------- | ----------- | ----------------------- | --------------------- |
    | LEADER    | the node of rank 0         | is refused  | is taken                | is written            |
    | CANDIDATE | a node of an elastic job,  | is refused  | is taken, or shared     | is written by who     |
    |           | any of which may be rank 0 |             | with nodes of this job  | took the lease first  |
    | ASKING    | another rank, of a job     | is refused  | of another job is       | is only read          |
    |           | that its launcher named    |             | refused                 |                       |
    | FOLLOWER  | any other                  | is not seen | is not seen             | is only read          |

    A candidate that shares the lease writes a record where there is none. A rank is asking because it would wait for
    ever for a rank 0 that was refused: Slurm ends no step because one of its tasks has ended.
    """

    LEADER = "leader"
    CANDIDATE = "candidate"
    ASKING = "asking"
    FOLLOWER = "follower"


class Run(NamedTuple):
    """A training and its directory for results.

    anew: whether the user wants to begin anew, or from a checkpoint of his own; resumes: whether its script takes
    --resume_from_checkpoint, and nobody has typed it; nodes: how many there are at most; owner: the name by which other
    jobs know this one; mark: the file by which this node signs the directory, empty where another of its ranks signs,
    or nothing says which of the nodes it is.
    """

    directory: str
    task: str
    given: Mapping[str, object]
    anew: bool
    resumes: bool
    nodes: int
    role: Role
    owner: str
    host: str
    mark: str


def make_run(directory: str, task: str, given: Mapping[str, object], world: World, environ: Mapping[str, str]) -> Run:
    """Return the run of a task."""
    host = os.uname().nodename
    owner, mark = name_owner(world, environ, host), name_mark(world, host)
    return Run(directory, task, given, False, True, world.nodes[1], choose_role(world), owner, host, mark)


def choose_role(world: World) -> Role:
    """Return the role of this process; where nodes come and go, nobody knows yet which of them gets rank 0."""
    if world.several_nodes and world.rank is None and world.node_rank is None:
        return Role.CANDIDATE
    if not world.rank and not world.node_rank:
        return Role.LEADER
    return Role.ASKING if world.rank is not None and world.job else Role.FOLLOWER


def name_mark(world: World, host: str) -> str:
    """Return the file by which a node signs: its place among the nodes, where that is known, and its host.

    A launcher that has started the ranks does not number the nodes: there the place is the rank of the first process
    of the node, and its other processes do not sign. A candidate does not sign: its host may have another name at each
    start, and two names in a directory of its own would look like two nodes.
    """
    low, high = world.nodes
    place = world.node_rank if world.rank is None else world.rank
    if high > 1 and place is None:
        return ""
    if low != high:
        return make_mark(host, "")
    return "" if world.local_rank else make_mark(host, f"rank-{place}" if world.rank else f"node-{place or 0}")


def name_owner(world: World, environ: Mapping[str, str], host: str) -> str:
    """Return the name by which other jobs know this one: the same after a restart, if a launcher has named the job."""
    if world.several_nodes and world.rank is None:
        master = first_set(environ, MASTERS)
        # Two jobs by hand may have one node of rank 0, but not one port there.
        return f"{environ.get('PET_RDZV_ENDPOINT') or f'{master}:{world.port}'} {world.job}"
    if world.job:
        return f"{world.launcher} {world.job}"
    return f"{host} {os.urandom(8).hex()}"


def check_run(run: Run) -> None:
    """Raise Refusal if the directory holds another run."""
    if run.role is not Role.FOLLOWER and not run.anew:
        new = describe(run.task, run.given, run.nodes, run.directory)
        check_record(run.directory, read_record(run.directory), new)


def find_resume(run: Run) -> tuple[Checkpoint | None, str]:
    """Return the checkpoint that a run goes on from, None if there is none, and a note on that for the log."""
    return (None, "") if run.anew or not run.resumes else find_last(run.directory, run.nodes)


def open_run(run: Run, clock: Clock, say: Callable[[str], None]) -> dict[str, str]:
    """Do in the directory what a process of this role does there.

    Return the variable by which the training knows the keeper of its lease; empty where this process takes no lease.
    Raise Refusal if another job writes there, or the directory holds another run.
    """
    lease = f"{run.directory}/{OWN}/lease.json"
    if run.role is Role.ASKING:
        check_other(lease, run.owner, clock)
    if run.role in (Role.ASKING, Role.FOLLOWER):
        with contextlib.suppress(OSError):  # a node that writes no results may be unable to
            sign(run)
        return {}
    try:
        return {KEEPER: str(take_directory(run, lease, clock, say))}
    except PermissionError as error:
        remedy = f"--output_dir ANOTHER, or as the user who made it: chmod -R g+w {run.directory}/{OWN}"
        raise Refusal("the directory for results belongs to another user", error.filename, remedy) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        fact = "no space is left in the directory for results"
        raise Refusal(fact, describe_disk(run.directory), MORE_ROOM, WORLD) from None


def take_directory(run: Run, lease: str, clock: Clock, say: Callable[[str], None]) -> int:
    """Sign the directory, take its lease and leave the record of the run; return the number of the keeper.

    Candidates of one job share the lease. One that finds it renewed, or taken while it looked, leaves the proof that
    they share the directory: it has not met the others yet, so all ranks will find the proof when they look for a
    checkpoint together.
    """
    sign(run)
    before, shares = read_lease(lease), run.role is Role.CANDIDATE
    unproven = shares and not is_shared(run.directory, run.nodes)
    if not shares:
        check_twin(lease, run.owner, clock, say)
    met = unproven and find_twin(lease, run.owner, clock, say) is not None
    there = take(lease, run.owner, run.host, clock, say, shares=shares)
    try:
        if met or (unproven and there not in (None, before)):
            create(f"{run.directory}/{OWN}/{PROOF}", "")
        check_run(run)
        leave_record(run, say, replaces=there is None or not shares)
    except (Refusal, OSError):
        with contextlib.suppress(OSError):
            release(lease, run.owner)
        raise
    return start_keeper(lease, run.owner, run.host)


def sign(run: Run) -> None:
    """Leave the mark of this node: the marks of two nodes prove that they share the directory."""
    make_shared(f"{run.directory}/{OWN}/nodes")
    if run.mark:
        create(f"{run.directory}/{OWN}/nodes/{run.mark}", "")


def make_shared(directory: str) -> None:
    """Make a directory that the group may write too: a job that starts again may have another uid."""
    os.makedirs(directory, exist_ok=True)
    for each in (directory, os.path.dirname(directory)):
        if os.stat(each).st_uid == os.getuid():
            os.chmod(each, 0o775)


def leave_record(run: Run, say: Callable[[str], None], *, replaces: bool) -> None:
    """Write the record of a run that begins; replaces: whether it may take the place of another record."""
    old, new = read_record(run.directory), describe(run.task, run.given, run.nodes, run.directory)
    path = f"{run.directory}/{OWN}/run.json"
    grows = old is not None and old.nodes == 1 and run.nodes > 1
    begins = run.anew or old is None or compare(old, new) or grows
    if begins and (replaces or not os.path.exists(path)):
        if grows and new.before and not run.anew:
            say(f"{run.directory}/{new.before[-1].name} is not used: one node wrote it, and others may not see it")
        write_whole(path, as_text(new))
