"""The end of a start: become the command, or wait for it."""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.decide import Plan
from multinode_image.machine.cpus import read_memory_limit
from multinode_image.mpi.rank import SUPERVISED, find_rank, supervise
from multinode_image.processes import execute, watch_training
from multinode_image.settings import LOGS
from multinode_image.start import begin_beside, list_known
from multinode_image.tasks.command import LAUNCH, SSH, WORKER
from multinode_image.world.model import TORCHRUN
from multinode_image.world.torchrun import find_torchrun


def carry_out(plan: Plan) -> int:
    """Replace this process by the command, so that signals and the exit code are the command's own.

    Return the exit code where this process has to stay beside it. What only one kind of command needs is imported here.
    """
    environ, argv, command = plan.prepared.environ, plan.argv, plan.situation.command
    if command.kind == LAUNCH:
        from multinode_image.mpi.launch import launch

        return launch(command.words, environ, plan.facts)
    if command.kind == WORKER:
        from multinode_image.mpi.sshd import serve

        return serve(environ)
    if command.kind == SSH:
        from multinode_image.mpi.keys import connect

        argv, environ = connect(command.words, environ)
    else:
        begin_beside(plan)
    return become_or_log(argv, {**environ, **list_known(plan)}, plan)


def become_or_log(argv: list[str], environ: Mapping[str, str], plan: Plan) -> int:
    """Become the command, or wait for it, with a log if it is a rank and logs are wanted; torchrun's ranks have theirs.

    Return the exit code where this process stays.
    """
    directory = environ.get(LOGS)
    if not directory or not plan.situation.command.trains or argv[0] == TORCHRUN:
        return become_or_watch(argv, environ, plan)
    from multinode_image.processes import keep_log

    with keep_log(directory, plan.world) as stays:
        return become_or_watch(argv, environ, plan, stays=stays)


def become_or_watch(argv: list[str], environ: Mapping[str, str], plan: Plan, *, stays: bool = False) -> int:
    """Become the command, or wait for it where somebody has to say how it ended; return the exit code of the latter.

    stays: whether this process has to wait all the same.
    """
    program, rank = find_torchrun(environ) if argv[0] == TORCHRUN else argv[0], plan.world.rank
    if environ.get(SUPERVISED):
        # The agent of a typed torchrun has no rank in its own world.
        started = find_rank(environ) if rank is None else rank
        if started is not None:
            return supervise([program, *argv[1:]], environ, started)
    # Torchrun's agent says how its ranks ended, but the kernel may kill the agent itself, before it has any.
    starts_ranks = plan.situation.role.trains or plan.situation.must_be_asked
    if stays or (starts_ranks and read_memory_limit(plan.facts.files) is not None):
        return watch_training([program, *argv[1:]], environ, rank)
    return execute(program, argv, environ)
