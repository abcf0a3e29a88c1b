"""How logs begin, and the words of every refusal of a start and of every error that ends a training, together."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from multinode_image.errors import Refusal
from multinode_image.explain import one_line
from multinode_image.hooks.job import one_job
from multinode_image.hooks.model import one_model
from multinode_image.hooks.model.proof import Look, Record
from multinode_image.hooks.model.weights import DIFFERENT
from multinode_image.world import alone
from multinode_image.world.table import detect
from tests.golden.data import as_json
from tests.support.endings import say_all
from tests.support.launchers import read_cases, read_machines
from tests.support.refusals import REFUSED
from tests.support.starts import SMOKE, Container, make_facts, make_plan


def produce() -> dict[str, str]:
    """Return for each kind one file: what is typed, left by a launcher, or raised -> the lines of the message."""
    with tempfile.TemporaryDirectory() as home:
        container = Container(Path(home)).furnish()
        said = {}
        for row in REFUSED:
            refusal = container.start(row.argv_in(home), row.variables).refusal
            said[str(row)] = str(refusal).replace(home, "HOME").splitlines()
    return {
        "starts.json": as_json(said),
        "launchers.json": as_json(dict(refuse_launchers())),
        "endings.json": as_json(dict(say_all())),
        "apart.json": as_json(dict(train_apart())),
        "places.json": as_json(dict(place_launchers())),
    }


def train_apart() -> Iterator[tuple[str, list[str]]]:
    """Yield each way in which ranks train apart, and the lines of the message."""
    alone = {"accelerate.state": SimpleNamespace(PartialState=SimpleNamespace(_shared_state={"num_processes": 1}))}
    ranks = {"RANK": "1", "WORLD_SIZE": "2"}
    for library in ("torch", "lightning.pytorch", "pytorch_lightning", "lightning.fabric"):
        yield library, str(one_job.find_fault({library: None}, ranks)).splitlines()
    for optimizer in ("keras.optimizers.SGD", "thinc.model"):
        yield optimizer, str(one_job.find_fault({}, ranks, optimizer)).splitlines()
    yield "accelerate", str(one_job.find_fault(alone, ranks)).splitlines()
    yield "no rank", str(one_job.find_fault({}, {"MULTINODE_WORLD_SIZE": "2"})).splitlines()
    for environ in ({"PMI_SIZE": "2"}, {"PET_NNODES": "1:4"}):
        yield f"torchrun, {environ}", str(one_job.find_agent_fault(1, environ)).splitlines()
    record = Record("SGD", 65, (Look(64, DIFFERENT, 0.5, exchanged=False),) * 2, exchanged=True)
    for describe in (one_model.describe_apart, one_model.describe_bare, one_model.describe_unlike):
        yield describe.__name__, str(describe(record)).splitlines()
    yield "a wrapped model", str(one_model.describe_apart(record._replace(wrapped=True))).splitlines()


def place_launchers() -> Iterator[tuple[str, str]]:
    """Yield each form of a launcher that is a world, and the line that a log of `smoke` begins with there."""
    for case in read_cases():
        with contextlib.suppress(Refusal):
            yield f"{case.launcher}: {case.form}", one_line(make_plan(SMOKE, make_facts(case.environ), case.nproc))


def refuse_launchers() -> Iterator[tuple[str, list[str]]]:
    """Yield each form of a launcher, and each process of several, that is refused, with the lines of the message."""
    forms = [(f"{case.launcher}: {case.form}", case.environ, case.nproc) for case in read_cases()]
    several = [(row["machine"], row["variables"], None) for row in read_machines()["several"]]
    for name, environ, nproc in [*forms, *several]:
        try:
            alone.check(environ, detect(environ, nproc))
        except Refusal as refusal:
            yield name, str(refusal).splitlines()
