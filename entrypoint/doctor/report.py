"""The command `doctor`: all checks in their order, as a table and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.doctor import hardware, software
from entrypoint.doctor.view import OK, WRONG, Finding, View, read_view
from entrypoint.errors import WORLD, Refusal
from entrypoint.printing.secrets import hide
from entrypoint.printing.streams import print_output
from entrypoint.tasks import job as jobs
from entrypoint.world.model import MPIJOB_WORKER

if TYPE_CHECKING:
    from entrypoint.decide import Plan
    from entrypoint.machine.image import Stack

CHECKS: tuple[tuple[str, Callable[[View], Finding]], ...] = (
    ("launcher", software.check_launcher),
    ("processor", hardware.check_processor),
    ("units", hardware.check_units),
    ("speed", hardware.check_speed),
    ("cores", hardware.check_cores),
    ("threads", hardware.check_threads),
    ("NUMA", hardware.check_numa),
    ("memory", hardware.check_memory),
    ("shm", hardware.check_shm),
    ("packages", software.check_packages),
    ("python", software.check_python),
    ("torch", software.check_torch),
    ("transformers", software.check_transformers),
    ("preloads", software.check_preloads),
    ("backend", software.check_backend),
    ("network", software.check_network),
    ("certificate", software.check_certificate),
    ("user", software.check_user),
    ("directories", software.check_directories),
)


class Row(NamedTuple):
    """A finding under the name of its check."""

    name: str
    value: str
    state: str
    remedy: str


def doctor(job: jobs.Job, decide: Callable[[jobs.Job], Plan], stack: Stack, root: str) -> int:
    """Print every finding, and return 1 if one of them is wrong."""
    if job.words not in ([], ["--json"]):
        raise Refusal("doctor has no such option", " ".join(hide(job.words)), "doctor, or doctor --json")
    decision, refusal = decide_training(job, decide)
    rows = examine(read_view(decision, refusal, stack, root))
    print_output(rows_as_json(rows) if job.words else rows_as_text(rows))
    return WORLD if any(row.state == WRONG for row in rows) else 0


def decide_training(job: jobs.Job, decide: Callable[[jobs.Job], Plan]) -> tuple[Plan, Refusal | None]:
    """Return the decision for a training; where that is refused, the one for any command, with the refusal.

    A worker of an MPIJob is not meant to start a training: it waits for ranks.
    """
    try:
        return decide(jobs.Job(jobs.SMOKE, jobs.SMOKE, [])), None
    except Refusal as refusal:
        decision = decide(job)
        return decision, None if decision.world.launcher == MPIJOB_WORKER else refusal


def examine(view: View) -> list[Row]:
    """Run every check."""
    return [Row(name, *check(view)) for name, check in CHECKS]


def rows_as_json(rows: list[Row]) -> str:
    """Return everything as one JSON object."""
    import json

    healthy = all(row.state != WRONG for row in rows)
    return json.dumps({"healthy": healthy, "checks": [row._asdict() for row in rows]}, indent=2)


def rows_as_text(rows: list[Row]) -> str:
    """Return a table for people, with the remedy below what needs one."""
    lines = []
    for row in rows:
        lines.append(f"{row.state:8} {row.name:12} {row.value}")
        if row.state != OK:
            lines.append(f"{'':21} try: {row.remedy}")
    return "\n".join(lines)
