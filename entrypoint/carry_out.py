"""Carry a decision out: files and directories first, then this process becomes the command, or waits for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.machine.files import NETWORK, list_directory, read_text, write_in_private
from entrypoint.printing.streams import print_note
from entrypoint.processes.programs import execute
from entrypoint.tasks import job as jobs
from entrypoint.tasks.command import find_torchrun
from entrypoint.tuning.starters import read_start
from entrypoint.world.model import TORCHRUN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.decide import Decision
    from entrypoint.machine.cgroup import Files

# Where metrics are mounted, a directory each.
METRICS = "/workspace/metrics"


def carry_out(job: jobs.Job, decision: Decision, root: str) -> int:
    """Replace this process by the command, so that signals and the exit code are the command's own.

    Return the exit code where this process has to stay beside it.
    """
    environ, argv = decision.prepared.environ, decision.argv
    for path, text in decision.files.items():
        write_in_private(path, text)
    if os.path.isdir(METRICS) and not decision.world.local_rank and job.kind in (jobs.TASK, jobs.SCRIPT, jobs.PLAIN):
        from entrypoint.hub.metrics import place_metrics

        for note in place_metrics(environ, METRICS):
            print_note(note)
    if job.kind == jobs.WORKER:
        from entrypoint.mpi.sshd import serve

        argv, environ = serve(environ)
    elif job.kind == jobs.SSH:
        from entrypoint.mpi.ssh import connect

        argv, environ = connect(job.words, environ)
    elif job.kind == jobs.LAUNCH:
        from entrypoint.mpi.launch import launch

        return launch(job.words, environ, root, decision.machine)
    elif trains_with_others(decision):
        from entrypoint.rendezvous.master import check_master, warn_choice
        from entrypoint.rendezvous.torchrun import describe_wait

        check_master(decision.world)
        warn_choice(decision.world, decision.prepared.added.get("GLOO_SOCKET_IFNAME"))
        start = read_start(argv, environ)
        if start is not None and (wait := describe_wait(decision.world, start.environ)):
            print_note(wait)
    lease = open_directory(decision)
    try:
        argv = add_checkpoint(argv, decision)
        return train(job, argv, {**environ, **lease, **list_kills(decision, read_text)}, decision.world.rank)
    finally:  # where the training was a process of its own, or could not be started
        if lease:
            import time

            from entrypoint.programs.at_end import end_keeper

            end_keeper(lease, time.sleep, time.monotonic)


def train(job: jobs.Job, argv: list[str], environ: Mapping[str, str], rank: int | None) -> int:
    """Become the command, or wait for it where somebody has to say how it ended; return the exit code of the latter."""
    program = find_torchrun(environ) if argv[0] == TORCHRUN else argv[0]
    if environ.get("MULTINODE_SUPERVISED"):
        from entrypoint.mpi.rank import find_rank, supervise

        # The agent of a typed torchrun has no rank in its own world.
        started = find_rank(environ) if rank is None else rank
        if started is not None:
            return supervise([program, *argv[1:]], environ, started)
    if has_limit(job):
        from entrypoint.processes.child import watch_training

        return watch_training([program, *argv[1:]], environ, rank)
    return execute(program, argv, environ)


def has_limit(job: jobs.Job) -> bool:
    """Return whether a training may reach a memory limit, and nobody else would say so.

    Torchrun's agent says how its ranks ended, but the kernel may kill the agent itself, before it has any.
    """
    if not job.trains:
        return False
    from entrypoint.machine.limits import read_memory_limit  # other commands pay nothing for it

    return read_memory_limit(read_text) is not None


def list_kills(decision: Decision, files: Files) -> dict[str, str]:
    """Return what a training has to know of processes that were killed in this container before it began."""
    if not decision.starts:
        return {}
    from entrypoint.faults.memory import remember_kills  # other commands pay nothing for it

    return remember_kills(files)


def open_directory(decision: Decision) -> dict[str, str]:
    """Take the directory for results of a run, if there is one; return what its training has to know of that."""
    if decision.run is None:
        return {}
    from entrypoint.runs.lease import Clock
    from entrypoint.runs.output import open_run

    return open_run(decision.run, Clock(), print_note)


def add_checkpoint(argv: list[str], decision: Decision) -> list[str]:
    """Return the command line of a rank with the checkpoint that it goes on from; torchrun starts its ranks itself."""
    if decision.run is None or decision.world.rank is None:
        return argv
    from entrypoint.runs.rank import add_resume

    return add_resume(argv, decision.prepared.environ, decision.world, write_in_private)


def trains_with_others(decision: Decision) -> bool:
    """Return whether the command is one of several ranks, or starts them."""
    return decision.starts and decision.world.sizes[1] > 1


def check_named_interfaces(decision: Decision, environ: Mapping[str, str]) -> None:
    """Raise Refusal for a variable that names an interface which this container does not have."""
    from entrypoint.faults.interfaces import check_interfaces  # a process on its own pays nothing for it

    check_interfaces(environ, list_directory(NETWORK), decision.backend)


def await_master(decision: Decision, environ: Mapping[str, str]) -> bool:
    """Wait until the master's name resolves; return whether it was late. Raise Refusal where it does not come."""
    from entrypoint.rendezvous.wait import wait_for_master  # as above

    return wait_for_master(decision.world, environ)
