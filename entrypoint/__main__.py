"""Run a command of a container: decide, then replace this process by the command."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from entrypoint.decide import decide
from entrypoint.errors import USER, WORLD, Refusal
from entrypoint.explain import decision_as_json, decision_as_text, print_start
from entrypoint.machine.files import read_file, read_text, which, write_in_private
from entrypoint.machine.image import list_sites, read_stack
from entrypoint.printing.streams import print_error, print_output
from entrypoint.settings import forget
from entrypoint.situation import read_this_machine
from entrypoint.tasks import job as jobs
from entrypoint.world.model import MPIJOB_LAUNCHER, drop_links
from entrypoint.world.mpi import read_proxy
from entrypoint.world.schedulers import read_files
from entrypoint.world.table import detect, read_world

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the program in PYTHON_EXEC adds to the command line of a rank of torchrun.
RANK = "rank"
# Commands of ours that start no ranks on this node, and what to type instead.
WITHOUT_NPROC = {jobs.LAUNCH: "launch --ppn N smoke", jobs.PREFETCH: "prefetch TASK"}


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
        from entrypoint.mpi.rank import report_refused  # only a rank of `launch` pays for it

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
    job = start_ranks(job, words, environ, options)
    if job.kind == jobs.PREFETCH:
        from entrypoint.hub.prefetch import prepare_prefetch

        job, environ = prepare_prefetch(job.words, environ, stack, root)
    if job.kind == jobs.DOCTOR:
        from entrypoint.doctor.report import doctor

        return doctor(job, lambda each: decide(each, environ, stack, options.nproc, root), stack, root)
    decision = decide(job, environ, stack, options.nproc, root)
    if options.explain:
        if job.kind == jobs.LAUNCH:
            from entrypoint.mpi.launch import explain_launch

            decision = explain_launch(job.words, decision, root)
        print_output(decision_as_json(decision) if options.explain == "json" else decision_as_text(decision))
        return 0
    # What only prints has ended.
    from entrypoint.carry_out import await_master, carry_out, check_named_interfaces, trains_with_others

    if trains_with_others(decision):
        check_named_interfaces(decision, environ)
        late = await_master(decision, environ)
        # What was unknown before the master had a name, as the interface that leads to it, is decided now.
        decision = decide(job, environ, stack, options.nproc, root) if late else decision
    print_start(job, decision)
    return carry_out(job, decision, root)


def become_rank(words: list[str], environ: Mapping[str, str], root: str) -> NoReturn:
    """Replace this process, which torchrun has started as a rank, by Python with these words, bound to its cores.

    Raise Refusal in a world of another size than the user insists on: only now is it known how many nodes have met.
    """
    from entrypoint.runs.rank import add_resume
    from entrypoint.tuning.bind import start_rank
    from entrypoint.tuning.starters import COUNTS
    from entrypoint.world.signs import check_insisted

    world, stack = read_world(environ, detect(environ), None), read_stack(read_text(f"{root}/stack.json"))
    if environ.get(COUNTS):
        check_insisted(forget(environ), world)
    start_rank(add_resume(words, environ, world, write_in_private), environ, world, read_this_machine(), stack)


def start_ranks(job: jobs.Job, words: list[str], environ: Mapping[str, str], options: jobs.Options) -> jobs.Job:
    """Return the job; the launcher of an MPIJob is no rank but starts them, on the hosts of its hostfile."""
    if job.trains and detect(environ).kind == MPIJOB_LAUNCHER:
        job = jobs.Job(jobs.LAUNCH, jobs.LAUNCH, words)
    if job.kind in WITHOUT_NPROC and options.nproc is not None:
        fact = f"--nproc has no meaning to {job.kind}"
        raise Refusal(fact, f"--nproc {options.nproc}", WITHOUT_NPROC[job.kind])
    return job


def shell() -> list[str]:
    """Return a shell for a person at a terminal who named no command."""
    return ["bash"] if sys.stdin is not None and sys.stdin.isatty() else []
