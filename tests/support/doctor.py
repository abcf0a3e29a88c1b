"""A container in which doctor finds nothing wrong, and how a test changes it."""

from __future__ import annotations

from dataclasses import replace

from entrypoint.decide import Plan
from entrypoint.doctor.report import Row, examine
from entrypoint.doctor.view import OK, Directory, Interface, Probe, View
from entrypoint.machine.cpus import Machine
from entrypoint.machine.image import Stack
from entrypoint.machine.limits import Limits
from entrypoint.settings import Prepared
from entrypoint.world.model import World
from tests.support.starts import make_facts

GB = 1 << 30
SITE = "/usr/local/lib/python3.11/dist-packages"
MACHINE = Machine(frozenset(range(4)), 4, 4, 1, (frozenset(range(4)),), None, False)
ENVIRON = {"OMP_NUM_THREADS": "4", "GLOO_SOCKET_IFNAME": "eth0", "HOME": "/home/multinode"}
DECISION = Plan(
    make_facts({}, machine=MACHINE), World("alone", "no variables", local_size=1), Prepared(ENVIRON, {}, {}), [], [], {}
)
TCMALLOC, IOMP = "/usr/lib/libtcmalloc.so.4", "/usr/local/lib/libiomp5.so"
HEALTHY = View(
    Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, SITE), DECISION, None, "model name\t: Xeon\n",
    Limits(GB, 64 * GB, frozenset({"avx2", "amx_bf16"})),
    preloads=((TCMALLOC, f"{TCMALLOC}.5.9"), (IOMP, IOMP)),
    locked={"six": "1.17.0"}, installed={"six": ("1.17.0",), "extra": ("1.0",)},
    interfaces=(Interface("eth0", "up"), Interface("lo", "unknown")),
    directories=(Directory("/workspace/output", True, True, 9 * GB), Directory("/tmp", True, False, None)),
    user=(1000, 0), certificate=None,
    probe=Probe("3.11.2", ("/x", SITE), (f"{TCMALLOC}.5.9", IOMP), "2.13.0+cpu", f"{SITE}/torch/__init__.py", 4, "",
                "5.23.0"),
)  # fmt: skip
PROBE, LIMITS = HEALTHY.probe, HEALTHY.limits
NODES = replace(DECISION, world=World("torchrun", "", nodes=(2, 2), local_size=1))


def with_environ(**variables: str) -> Plan:
    return replace(DECISION, prepared=Prepared({**ENVIRON, **variables}, {}, {}))


def find_rows(view: View) -> dict[str, Row]:
    """Return what every check finds, by its name."""
    return {row.name: row for row in examine(view)}


def find_faults(view: View) -> list[Row]:
    """List what the checks find that is not as it should be."""
    return [row for row in examine(view) if row.state != OK]


def on(machine: Machine) -> Plan:
    """Return the same plan on another machine."""
    return replace(DECISION, facts=replace(DECISION.facts, machine=machine))
