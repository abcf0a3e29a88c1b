"""Run a command of a container: decide, then replace this process by the command."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from entrypoint import programs
from entrypoint.container.files import NETWORK, list_directory, make_private, read_file, read_text, which, write_private
from entrypoint.container.image import list_sites, read_stack
from entrypoint.decide import decide
from entrypoint.errors import NOT_EXECUTABLE, NOT_FOUND, USER, WORLD, Refusal
from entrypoint.explain import as_json, as_text, print_start
from entrypoint.launchers.mpi import read_proxy
from entrypoint.launchers.schedulers import read_files
from entrypoint.launchers.table import detect, read_world
from entrypoint.launchers.world import MPIJOB_LAUNCHER, drop_links
from entrypoint.settings import forget
from entrypoint.situation import read_this_machine
from entrypoint.streams import print_error, print_note, print_output
from entrypoint.training import job as jobs
from entrypoint.training.command import TORCHRUN_COMMAND, find_torchrun
from entrypoint.tuning.starters import read_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.explain import Decision

# Where metrics are mounted, a directory each.
METRICS = "/workspace/metrics"
# What the program in PYTHON_EXEC adds to the command line of a rank of torchrun.
RANK = "rank"


def main(argv: list[str], environ: Mapping[str, str], root: str) -> int:
    """Run the command of a container and return the exit code; root is the directory with stack.json and smoke.py."""
    if os.getpid() == 1:
        heed_sigterm()
    try:
        return run(argv, environ, root)
    except Refusal as refusal:
        print_error(refusal)
        code = refusal.code
    except OSError as error:
        print_error(Refusal("the system refused", error, "check the file or program that is named"))
        code = WORLD
    except KeyboardInterrupt:
        code = 130
    if environ.get("MULTINODE_SUPERVISED"):
        from entrypoint.cluster.rank import report_refused  # only a rank of `launch` pays for it

        report_refused(environ, code)
    return code


def heed_sigterm() -> None:
    """Let SIGTERM end this process while it waits: the kernel gives process 1 no signal that it has no handler for.

    A pod whose `command` is a program of ours has no tini. The handler ends with exec.
    """
    import signal

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def run(argv: list[str], environ: Mapping[str, str], root: str) -> int:
    """Go from the command line to exec; return the exit code of a command that has only something to print."""
    if argv[:1] == [RANK]:
        become_rank(argv[1:], environ, root)
    options, words = jobs.read_options(argv)
    environ = drop_links(forget(environ))
    environ = {**read_files(environ, read_file), **environ, **read_proxy(environ, read_text)}
    job = jobs.read_job(words or shell(), environ, which)
    if job.kind == jobs.USAGE:
        print_error(jobs.HELP)
        return 0 if job.name else USER
    stack = read_stack(read_text(f"{root}/stack.json"))
    if options.explain and job.kind in (jobs.LIST, jobs.DOCTOR):
        raise Refusal("--explain has no meaning for a command that only prints", job.name, job.name)
    if job.kind == jobs.LIST:
        from entrypoint.needs.listing import list_tasks
        from entrypoint.needs.packages import ask_python

        print_output(list_tasks(stack, list_sites(stack, environ), lambda: ask_python(environ)))
        return 0
    if job.kind == jobs.PREFETCH:
        from entrypoint.hub.prefetch import prepare

        job, environ = prepare(job.words, environ, stack, root)
    job = start_ranks(job, words, environ, options)
    if job.kind == jobs.DOCTOR:
        from entrypoint.doctor.report import doctor

        return doctor(job, lambda each: decide(each, environ, stack, options.nproc, root), stack, root)
    decision = decide(job, environ, stack, options.nproc, root)
    if options.explain:
        if job.kind == jobs.LAUNCH:
            from entrypoint.cluster.launch import explain_launch

            decision = explain_launch(job.words, decision, root)
        print_output(as_json(decision) if options.explain == "json" else as_text(decision))
        return 0
    if joins(job, decision) and is_late(decision, environ):
        # What was unknown before the master had a name, as the interface that leads to it, is decided now.
        decision = decide(job, environ, stack, options.nproc, root)
    print_start(job, decision)
    return carry_out(job, decision, root)


def become_rank(words: list[str], environ: Mapping[str, str], root: str) -> NoReturn:
    """Replace this process, which torchrun has started as a rank, by Python with these words, bound to its cores."""
    from entrypoint.runs.rank import add_resume
    from entrypoint.tuning.bind import start_rank

    world, stack = read_world(environ, detect(environ), None), read_stack(read_text(f"{root}/stack.json"))
    start_rank(add_resume(words, environ, world, write_copy), environ, world, read_this_machine(), stack)


def start_ranks(job: jobs.Job, words: list[str], environ: Mapping[str, str], options: jobs.Options) -> jobs.Job:
    """Return the job; the launcher of an MPIJob is no rank but starts them, on the hosts of its hostfile."""
    if job.trains and detect(environ).kind == MPIJOB_LAUNCHER:
        job = jobs.Job(jobs.LAUNCH, jobs.LAUNCH, words)
    if job.kind == jobs.LAUNCH and options.nproc is not None:
        raise Refusal("--nproc has no meaning to launch", f"--nproc {options.nproc}", "launch --ppn N smoke")
    return job


def write_copy(name: str, text: str) -> str:
    """Write a private file for this process, and return its path."""
    return write_private(f"{make_private(f'/tmp/multinode-{os.getuid()}')}/{os.getpid()}-{name}", text)


def shell() -> list[str]:
    """Return a shell for a person at a terminal who named no command."""
    return ["bash"] if sys.stdin is not None and sys.stdin.isatty() else []


def joins(job: jobs.Job, decision: Decision) -> bool:
    """Return whether the command is one of several ranks, or starts them."""
    return (job.trains or job.name == TORCHRUN_COMMAND) and decision.world.sizes[1] > 1


def is_late(decision: Decision, environ: Mapping[str, str]) -> bool:
    """Return whether the name of another node had to be waited for; what can be checked is checked before."""
    from entrypoint.faults.interfaces import check_interfaces  # a process on its own pays nothing for it
    from entrypoint.meeting.ready import wait_for_master

    check_interfaces(environ, list_directory(NETWORK), decision.backend)
    return wait_for_master(decision.world, environ)


def carry_out(job: jobs.Job, decision: Decision, root: str) -> int:
    """Replace this process by the command, so that signals and the exit code are the command's own.

    Return the exit code where this process has to stay beside it.
    """
    environ, argv = decision.prepared.environ, decision.argv
    for path, text in decision.files.items():
        make_private(os.path.dirname(path))
        write_private(path, text)
    if os.path.isdir(METRICS) and not decision.world.local_rank and job.kind in (jobs.TASK, jobs.SCRIPT, jobs.PLAIN):
        from entrypoint.hub.metrics import place_metrics

        for note in place_metrics(environ, METRICS):
            print_note(note)
    if job.kind == jobs.WORKER:
        from entrypoint.cluster.sshd import serve

        argv, environ = serve(environ)
    elif job.kind == jobs.SSH:
        from entrypoint.cluster.ssh import connect

        argv, environ = connect(job.words, environ)
    elif job.kind == jobs.LAUNCH:
        from entrypoint.cluster.launch import launch

        return launch(job.words, environ, root, decision.machine)
    elif joins(job, decision):
        from entrypoint.meeting.ready import check_master, describe_wait, warn_choice

        check_master(decision.world)
        warn_choice(decision.world, decision.prepared.added.get("GLOO_SOCKET_IFNAME"))
        start = read_start(argv, environ)
        if start is not None and (wait := describe_wait(decision.world, start.environ)):
            print_note(wait)
    lease = open_directory(decision)
    try:
        return train(job, argv, {**environ, **lease}, decision.world.rank)
    finally:  # where the training was a process of its own, or could not be started
        if lease:
            import time

            from entrypoint.jobs.at_end import end_keeper

            end_keeper(lease, time.sleep, time.monotonic)


def train(job: jobs.Job, argv: list[str], environ: Mapping[str, str], rank: int | None) -> int:
    """Become the command, or wait for it where somebody has to say how it ended; return the exit code of the latter."""
    if rank is not None and environ.get("MULTINODE_SUPERVISED"):
        from entrypoint.cluster.rank import supervise

        return supervise(argv, environ, rank)
    program = find_torchrun(environ) if argv[0] == TORCHRUN_COMMAND else argv[0]
    if has_limit(job):
        from entrypoint.faults.child import watch

        return watch([program, *argv[1:]], environ, rank)
    return execute(program, argv, environ)


def has_limit(job: jobs.Job) -> bool:
    """Return whether a training may reach a memory limit, and nobody else would say so.

    Torchrun's agent says how its ranks ended, but the kernel may kill the agent itself, before it has any.
    """
    if not job.trains:
        return False
    from entrypoint.container.limits import read_memory_limit  # other commands pay nothing for it

    return read_memory_limit(read_text) is not None


def open_directory(decision: Decision) -> dict[str, str]:
    """Take the directory for results of a run, if there is one; return what its training has to know of that."""
    if decision.run is None:
        return {}
    from entrypoint.runs.lease import Clock
    from entrypoint.runs.output import open_run

    return open_run(decision.run, Clock(), print_note)


def execute(program: str, argv: list[str], environ: Mapping[str, str]) -> int:
    """Replace this process by a program; raise Refusal with the exit code of a shell for one that cannot be run."""
    try:
        programs.become(program, argv, environ)
    except FileNotFoundError:
        # Python looked it up before, so it is what the file names in its first line, or a library's loader.
        if which(program, environ) is None:
            raise Refusal("there is no such program", program, "a program of the image", NOT_FOUND) from None
        remedy = "name one that is there in its first line: #!/bin/sh, #!/usr/bin/env python3"
        raise Refusal("the interpreter of a program is not there", program, remedy, NOT_EXECUTABLE) from None
    except OSError as error:
        remedy = "begin a script with #!/bin/sh or #!/usr/bin/env python3, make it executable, and match the machine"
        value = f"{program}: {error.strerror}"
        raise Refusal("the program cannot be executed", value, remedy, NOT_EXECUTABLE) from None
