"""A run and its directory for results: whose that is, and what is done there before the training starts."""

from __future__ import annotations

import contextlib
import errno
import os
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.faults.disks import explain_full
from entrypoint.machine.files import make_shared, write_whole
from entrypoint.numbers import first_set
from entrypoint.runs.keeper import KEEPER, start_keeper
from entrypoint.runs.lease import (
    Clock,
    check_other,
    check_twin,
    release,
    take,
)
from entrypoint.runs.record import OWN, as_text, check_record, compare, describe, mark_time, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from entrypoint.world.model import World

MASTERS = ("PET_MASTER_ADDR", "MASTER_ADDR")


class Role(Enum):
    """What this process may do in the directory for results.

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

    anew: whether the user wants to begin anew, or from a checkpoint of his own; resumes: whether its script goes on
    from a checkpoint that the command line names; splits: whether its Trainer goes on with the same examples of a step
    in other parts; owner: the name by which other jobs know this one.
    """

    directory: str
    task: str
    given: Mapping[str, object]
    anew: bool
    resumes: bool
    splits: bool
    role: Role
    owner: str
    host: str


def make_run(directory: str, task: str, given: Mapping[str, object], world: World, environ: Mapping[str, str]) -> Run:
    """Return the run of a task."""
    host = os.uname().nodename
    return Run(directory, task, given, False, True, True, choose_role(world), name_owner(world, environ, host), host)


def choose_role(world: World) -> Role:
    """Return the role of this process; where nodes come and go, nobody knows yet which of them gets rank 0."""
    if world.several_nodes and world.rank is None and world.node_rank is None:
        return Role.CANDIDATE
    if not world.rank and not world.node_rank:
        return Role.LEADER
    return Role.ASKING if world.rank is not None and world.job else Role.FOLLOWER


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
        new = describe(run.task, run.given, run.directory)
        check_record(run.directory, read_record(run.directory), new, splits=run.splits)


def open_run(run: Run, clock: Clock, say: Callable[[str], None]) -> dict[str, str]:
    """Do in the directory what a process of this role does there.

    Return the variable by which the training knows the keeper of its lease; empty where this process takes no lease.
    Raise Refusal if another job writes there, or the directory holds another run.
    """
    lease = f"{run.directory}/{OWN}/lease.json"
    if run.role is Role.ASKING:
        check_other(lease, run.owner, clock)
    if run.role in (Role.ASKING, Role.FOLLOWER):
        return {}
    try:
        return {KEEPER: str(take_directory(run, lease, clock, say))}
    except PermissionError as error:
        remedy = f"--output_dir ANOTHER, or as the user who made it: chmod -R g+w {run.directory}/{OWN}"
        raise Refusal("the directory for results belongs to another user", error.filename, remedy) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise explain_full(run.directory) from None


def take_directory(run: Run, lease: str, clock: Clock, say: Callable[[str], None]) -> int:
    """Take the lease of the directory and leave the record of the run; return the number of the keeper.

    Candidates of one job share the lease.
    """
    make_shared(f"{run.directory}/{OWN}")
    shares = run.role is Role.CANDIDATE
    if not shares:
        check_twin(lease, run.owner, clock, say)
    there = take(lease, run.owner, run.host, clock, say, shares=shares)
    try:
        check_run(run)
        leave_record(run, replaces=there is None or not shares)
    except (Refusal, OSError):
        with contextlib.suppress(OSError):
            release(lease, run.owner)
        raise
    return start_keeper(lease, run.owner, run.host)


def leave_record(run: Run, *, replaces: bool) -> None:
    """Write the record of a run that begins; replaces: whether it may take the place of another record."""
    old, new = read_record(run.directory), describe(run.task, run.given, run.directory)
    path = f"{run.directory}/{OWN}/run.json"
    begins = run.anew or old is None or compare(old, new, splits=run.splits)
    if begins and (replaces or not os.path.exists(path)):
        write_whole(path, as_text(new._replace(written=mark_time(run.directory) if new.before else 0)))
