"""A start once its situation is known: what is refused before anybody waits, the wait, the plan, what is handed on."""

from __future__ import annotations

from multinode_image.decide import Plan, decide, look_ahead
from multinode_image.explain import print_start
from multinode_image.facts import Facts
from multinode_image.machine.limits import find_thread_fault, remember_kills
from multinode_image.results.plan import find_results, find_typed_results, name_words
from multinode_image.results.record import RUN, write_run
from multinode_image.settings import METRICS, PLANNED, TRAINING
from multinode_image.situation import Situation
from multinode_image.tasks.command import PLAIN
from multinode_image.tuning.context import Role
from multinode_image.world.master import check_master, wait_for_master


def prepare_start(situation: Situation, facts: Facts) -> Plan:
    """Return the plan of a start, and print the line that begins its log; the master is waited for on the way.

    Raise Refusal for what would end it later: what can be known before is said before anybody waits.
    """
    ours = situation.role.trains or situation.must_be_asked or situation.command.kind != PLAIN
    if ours and (fault := find_thread_fault(facts.files, "this command")):
        raise fault
    ahead = look_ahead(situation, facts)
    if situation.meets_others:
        wait_for_master(situation.world, facts.environ)
    plan = decide(situation, ahead, facts)
    print_start(plan)
    return plan


def begin_beside(plan: Plan) -> None:
    """Begin what goes on beside the ranks of this node, once it is sure that they can meet."""
    situation = plan.situation
    if situation.meets_others:
        check_master(plan.world)
    if situation.role.trains and plan.prepared.environ.get(METRICS) and plan.world.is_first:
        show_metrics(plan)


def list_known(plan: Plan) -> dict[str, str]:
    """Return what is handed on to the Pythons of a training as variables."""
    situation = plan.situation
    known = {TRAINING: "on", **remember_kills(plan.facts.files)} if situation.may_train else {}
    if situation.role is Role.AGENT:
        known[PLANNED] = "1"
    if plan.run is not None:
        known[RUN] = write_run(plan.run)  # rank 0 keeps its record
    if plan.world.several_nodes:
        known |= name_words(situation.command, plan.arguments, plan.facts.environ)
    return known


def show_metrics(plan: Plan) -> None:
    """Let a process beside this one answer Prometheus, if results are somewhere."""
    command, environ = plan.situation.command, plan.facts.environ_with_home
    typed = command.kind == PLAIN  # of a torchrun, whose script has no arguments in the plan
    usual = find_typed_results(command, environ) if typed else find_results(command, plan.arguments, environ)[0]
    if directory := plan.run.directory if plan.run else usual:
        from multinode_image.report.metrics import serve_beside

        serve_beside(int(plan.prepared.environ[METRICS]), directory)
