"""Run a command of a container: read the facts, detect the world, wait for it, decide, and become the command."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

from multinode_image.decide import Plan, decide, look_ahead
from multinode_image.errors import EXIT_OUTSIDE, EXIT_USER, Refusal
from multinode_image.explain import plan_as_json, plan_as_text
from multinode_image.facts import Facts, drop_inherited, snapshot
from multinode_image.machine.files import read_text, which
from multinode_image.machine.limits import explain_error
from multinode_image.mpi.rank import SUPERVISED, report_refused, take_cores
from multinode_image.printing.streams import print_error, print_output
from multinode_image.processes import execute, heed_sigterm
from multinode_image.results.record import RESULTS
from multinode_image.run import carry_out
from multinode_image.settings import LOGS, forget
from multinode_image.situation import Situation, detect_situation
from multinode_image.start import prepare_start
from multinode_image.tasks.command import (
    HELP,
    LAUNCH,
    LIST,
    NOTEBOOK,
    PREFETCH,
    REPORT,
    STACKS,
    TENSORBOARD,
    USAGE,
    Command,
    Options,
    read_command,
    read_options,
)
from multinode_image.tasks.defaults import OUTPUT, list_tasks
from multinode_image.tuning.handover import COUNTS, NO_PYTHON, RANK_PROGRAM, start_rank
from multinode_image.world import table
from multinode_image.world.alone import check_required_size
from multinode_image.world.model import MPIJOB_LAUNCHER
from multinode_image.world.table import find_launcher

# What the program in PYTHON_EXEC adds to the command line of a rank of torchrun.
RANK = "rank"


def main(argv: list[str], environ: Mapping[str, str], root: str) -> int:
    """Run the command of a container and return the exit code; root is the directory with stack.json and smoke.py."""
    heed_sigterm()
    code = EXIT_OUTSIDE  # where a mistake of ours ends in a traceback
    try:
        return run(argv, environ, root)
    except Refusal as refusal:
        print_error(refusal)
        code = refusal.code
        if argv[:1] == [RANK]:
            from multinode_image.hooks.job.reason import leave_reason  # as in `run`

            leave_reason([refusal.fact, refusal.value, refusal.remedy], environ)
    except OSError as error:
        print_error(explain_error(error, read_text))
    except KeyboardInterrupt:
        code = 130
    except Exception:
        report(environ, code)
        raise
    report(environ, code)
    return code


def report(environ: Mapping[str, str], code: int) -> None:
    """Tell `launch` that a rank of its job has been refused: the others would wait for it."""
    if environ.get(SUPERVISED):
        report_refused(environ, code)


def run(argv: list[str], environ: Mapping[str, str], root: str) -> int:
    """Go from the command line to exec; return the exit code of a command that has only something to print.

    What only one of our own commands needs is imported there: all of it would take 20 ms of every start.
    """
    if argv[:1] == [RANK]:
        return become_rank(argv[1:], environ)
    options, words = read_options(argv)
    facts = take_cores(snapshot(environ, root))
    command = read_command(words or shell(), facts.environ, which, facts.stack.examples)
    if command.kind.prints:
        return answer(command, options, facts)
    launcher = find_launcher(facts.environ)
    if command.trains and launcher.kind == MPIJOB_LAUNCHER:  # it starts ranks, on the hosts of its hostfile
        command = Command(LAUNCH, LAUNCH.name, words)
    facts = drop_inherited(facts, ranks_here=command.kind != LAUNCH)
    situation = detect_situation(command, facts, launcher, options.nproc)
    if command.kind == PREFETCH:
        from multinode_image.tasks.prefetch import prepare_prefetch

        command, environ = prepare_prefetch(command.words, facts)
        situation, facts = situation._replace(command=command), replace(facts, environ=environ)
    if command.kind in (NOTEBOOK, TENSORBOARD):
        from multinode_image.commands.servers import make_server_command

        situation = situation._replace(command=make_server_command(command, situation.world, facts))
    if options.explain:
        plan = plan_ahead(situation, facts)
        print_output(plan_as_json(plan) if options.explain == "json" else plan_as_text(plan))
        return 0
    return carry_out(prepare_start(situation, facts))


def answer(command: Command, options: Options, facts: Facts) -> int:
    """Print what was asked for, where nothing is started; return the exit code."""
    if command.kind == USAGE:
        (print_output if command.name else print_error)(HELP)
        return 0 if command.name else EXIT_USER
    if options.explain:
        raise Refusal("--explain has no meaning for a command that only prints", command.name, command.name)
    if command.kind == LIST:
        print_output(list_tasks(facts.stack))
        return 0
    if command.kind == REPORT:
        from multinode_image.report.command import write_report  # as in `run`

        return write_report(command.words, facts.environ.get(RESULTS) or OUTPUT)
    if command.kind == STACKS:
        from multinode_image.commands.stacks import print_stacks  # as in `run`

        return print_stacks()
    from multinode_image.commands.doctor import doctor  # as in `run`

    facts, launcher = drop_inherited(facts), find_launcher(facts.environ)
    return doctor(
        command, lambda training: plan_ahead(detect_situation(training, facts, launcher, options.nproc), facts)
    )


def plan_ahead(situation: Situation, facts: Facts) -> Plan:
    """Return the plan of a command that is not going to be started, so that nobody is waited for."""
    plan = decide(situation, look_ahead(situation, facts), facts)
    if situation.command.kind != LAUNCH:
        return plan
    from multinode_image.mpi.launch import explain_launch  # as in `run`

    return explain_launch(situation.command.words, plan)


def become_rank(words: list[str], environ: Mapping[str, str]) -> int:
    """Replace this process, which torchrun has started as a rank, by Python with these words, bound to its cores.

    Behind NO_PYTHON they are another program. Return the exit code where this process has to stay beside it.

    Raise Refusal in a world of another size than the user insists on: only now is it known how many nodes have met.
    """
    world = table.detect(environ)
    if environ.get(COUNTS):
        check_required_size(forget(environ), world)
    if environ.get(LOGS):
        from multinode_image.processes import run_logged  # as in `run`

        return run_logged([RANK_PROGRAM, *words], environ, world)
    if words[:1] == [NO_PYTHON]:
        execute(words[1], words[1:], environ)
    start_rank(words, environ, world)


def shell() -> list[str]:
    """Return a shell for a person at a terminal who named no command."""
    return ["bash"] if sys.stdin is not None and sys.stdin.isatty() else []
