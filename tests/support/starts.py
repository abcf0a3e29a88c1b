"""Starts as values: a container's facts, and the plan of a command in it, with nothing read and nothing started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from entrypoint.decide import Plan, decide, prepare_program
from entrypoint.facts import Facts, Files
from entrypoint.machine.identity import Identity
from entrypoint.machine.image import Stack
from entrypoint.machine.limits import Limits
from entrypoint.machine.network import Route
from entrypoint.machine.places import settle_caches
from entrypoint.situation import Situation, detect
from entrypoint.tasks.job import Job
from entrypoint.world.table import find_launcher
from tests.support.machines import Box, look_at

GLOO = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "/usr/lib/python3")
CCL = Stack("2.4.0+cpu", "4.46.0", "3.11", "ccl", None, "/usr/lib/python3")
PLENTY = Limits(1 << 30, 64 << 30, frozenset({"avx512_bf16"}))
OWN = "10.77.0.2"
ROUTES = (Route("eth0", b"\0" * 4, 0, 0),)


def make_facts(environ: Mapping[str, str], stack: Stack = GLOO, **changes: Any) -> Facts:
    """Return the facts of a container with these variables on two sockets of 28 cores; changes: fields of Facts."""
    values: dict[str, Any] = {
        "root": "/opt/multinode",
        "files": Files(lambda path: None),
        "machine": look_at(Box(2, 28, 2)),
        "limits": PLENTY,
        "identity": Identity({}, None, (), {}),
        "caches": tuple(settle_caches(environ, stack.transformers)),
        "mounts": (),
        "routes": ROUTES,
    }
    return Facts(environ=environ, stack=stack, **{**values, **changes})


def find_situation(job: Job, facts: Facts, nproc: int | None = None) -> Situation:
    """Return the situation of a command, on a network where every other host has an address."""
    with network():
        return detect(job, facts, find_launcher(facts.environ), nproc)


def make_plan(job: Job, facts: Facts, nproc: int | None = None) -> Plan:
    """Return the plan of a command, on a network where every other host has an address."""
    with network():
        here = detect(job, facts, find_launcher(facts.environ), nproc)
        return decide(here, prepare_program(here, facts), facts)


@contextmanager
def network(hosts: Mapping[str, str] | None = None) -> Iterator[None]:
    """Replace the network: names have the addresses of `hosts`, any other 10.77.0.9, and ours is on eth0."""
    known = hosts or {}

    def look_up(host: str, *_: object) -> list[tuple[int, tuple[str, int]]]:
        return [(2, (known.get(host, "10.77.0.9"), 9))]

    with (
        mock.patch("entrypoint.machine.network.look_up", look_up),
        mock.patch("entrypoint.machine.network.find_way", lambda to: (to[1][0], OWN)),
        mock.patch("entrypoint.machine.network.try_port", lambda port: None),
    ):
        yield
