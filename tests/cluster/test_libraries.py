"""Libraries that people train with, by scripts as their users write them: N nodes are one node, or an error."""

from __future__ import annotations

import base64
import os
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster.conftest import KEYS
from tests.cluster.nodes import Cluster, fixed, restart, two_pods
from tests.support.harness import HARDENED, Done, env_options, run
from tests.support.library_wheels import LIBRARIES, build_libraries

# What all of them have in common is in test_one_job.py: plain torch and accelerate.
pytestmark = pytest.mark.slow

SCRIPTS, OUTPUT = "/workspace/scripts", "/workspace/output"
WEIGHTS = re.compile(r"(?m)^rank (\d) of (\d): weights (\w+) loss ([\d.]+)$")
ONE_JOB = "multinode: trained as one job of 2 ranks"
SECONDS = 420  # a rank imports for 5 s on a core of its own, and many times that on a busy one


class Row(NamedTuple):
    """A script of tests/data/libraries.

    most: by how much a weight on two ranks may differ from that of one process with the same batch for a step, None
    where they differ by design; resumes: whether it goes on from its last checkpoint without a word.
    """

    script: str
    most: float | None = 1e-5
    resumes: bool = False


ROWS = (
    Row("hf_trainer.py", resumes=True),
    Row("trl_sft.py", resumes=True),
    Row("sentences.py", None, resumes=True),  # the negatives of an example are those of its own rank's batch
    Row("plain_ddp.py"),
    Row("accelerate_loop.py"),
    Row("lightning_ddp.py"),
    Row("fsdp2.py"),
    Row("ignite_loop.py"),
    Row("setfit_head.py", None),  # each rank draws its own pairs of texts
)
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.script)


@dataclass
class Libraries:
    """Two nodes of an image with all libraries, and the directory that both have for results."""

    image: str
    place: Path
    cluster: Cluster

    def environ(self, name: str, **more: str) -> dict[str, str]:
        """Return the variables of a start with a directory of its own for results."""
        (self.place / name).mkdir(mode=0o777, exist_ok=True)
        (self.place / name).chmod(0o777)
        return {"MULTINODE_OUTPUT": f"{OUTPUT}/{name}", **more}

    def alone(self, script: str) -> Done:
        """Run a script in one process."""
        return self.cluster.nodes[0].run(
            f"{SCRIPTS}/{script}", environ=self.environ(f"alone-{script}"), seconds=SECONDS
        )

    def two(self, script: str, name: str, **more: str) -> Done:
        """Run a script in two containers by the variables of the page on several machines."""
        place = {"PET_MASTER_ADDR": self.cluster.nodes[0].host, **self.environ(name, **more)}
        environ = [fixed(number, **place) for number in (0, 1)]
        ends = self.cluster.both(f"{SCRIPTS}/{script}", environ=environ, seconds=SECONDS)
        return Done(max(end.code for end in ends), "".join(end.text for end in ends), "")

    def launch(self, script: str, name: str) -> Done:
        """Run a script by one command for two nodes."""
        self.cluster.start(1, "worker")
        words = self.cluster.launch(f"{SCRIPTS}/{script}")
        return self.cluster.nodes[0].run(*words, environ=self.environ(name), seconds=SECONDS)

    def quota(self, script: str, name: str) -> Done:
        """Run a script on two ranks of one container that has the time of one core."""
        options = [*self.options, "--cpus", "1", *env_options(self.environ(name))]
        return run(self.image, "--nproc", "2", f"{SCRIPTS}/{script}", options=options, seconds=SECONDS)

    @property
    def options(self) -> tuple[str, ...]:
        """Return what a container of this image gets."""
        return (*HARDENED, "--volume", f"{LIBRARIES}:{SCRIPTS}:ro", "--volume", f"{self.place}:{OUTPUT}")

    def read(self, name: str) -> array[float]:
        """Return the weights that a training has left."""
        return array("f", base64.b64decode((self.place / name / "weights").read_text()))

    @cached_property
    def losses(self) -> dict[str, str]:
        """Return the losses of one process by script, each of which trains once."""
        return {}

    def one_process(self, script: str) -> tuple[array[float], str]:
        """Return weights and loss of one process."""
        if script not in self.losses:
            done = self.alone(script)
            assert done.code == 0
            ((_, _, _, self.losses[script]),) = WEIGHTS.findall(done.text)
        return self.read(f"alone-{script}"), self.losses[script]


@pytest.fixture(scope="module")
def libraries(image: str, keys: Path, module_path: Path, module_tag: Callable[[str], str]) -> Iterator[Libraries]:
    """Build the image, and bring two nodes up."""
    tag, (context, place) = module_tag("libraries"), (module_path / "context", module_path / "results")
    for directory in (context, place):
        directory.mkdir()
    place.chmod(0o777)
    build_libraries(image, tag, context)
    name, mounts = f"multinode{os.getpid()}libraries", {keys / "0644": KEYS, LIBRARIES: SCRIPTS}
    options = (*HARDENED, "--volume", f"{place}:{OUTPUT}")
    with two_pods(name, tag, mounts, *options, hosts=("node0", "node1")) as cluster:
        yield Libraries(tag, place, cluster)


@pytest.fixture
def fresh(libraries: Libraries) -> Iterator[Libraries]:
    """Restart both nodes, so that nothing of an earlier test runs there, and end in the end what was started."""
    restart(libraries.cluster)
    yield libraries
    while libraries.cluster.started:
        libraries.cluster.started.pop().end()


def is_one_job(done: Done) -> str:
    """Check that two ranks were one job, and have the same weights; return the loss that rank 0 knows."""
    said = sorted(WEIGHTS.findall(done.text))
    assert done.code == 0
    assert [(rank, size) for rank, size, _, _ in said] == [("0", "2"), ("1", "2")]
    assert len({digest for _, _, digest, _ in said}) == 1
    assert done.text.count(ONE_JOB) == 1
    return str(said[0][3])


def is_one_process(libraries: Libraries, row: Row, name: str, loss: str) -> None:
    """Check that a training has the weights and the loss of one process."""
    weights, alone = libraries.one_process(row.script)
    mine = libraries.read(name)
    assert len(mine) == len(weights)
    difference = max(abs(one - other) for one, other in zip(mine, weights, strict=True))
    print(f"MEASURED {name}: weights differ by {difference:.1e}, loss {loss}, alone {alone}")
    if row.most is not None:
        assert difference <= row.most
        assert float(loss) == pytest.approx(float(alone), abs=1e-4)


@pytest.mark.parametrize("scene", ["two", "launch", "quota"])
@every_row
def test_two_ranks_are_one_process(fresh: Libraries, row: Row, scene: str) -> None:
    name = f"{scene}-{row.script}"

    done = getattr(fresh, scene)(row.script, name)

    is_one_process(fresh, row, name, is_one_job(done))


@pytest.mark.parametrize("row", [row for row in ROWS if row.resumes], ids=lambda row: row.script)
def test_a_killed_job_goes_on_to_the_same_end(fresh: Libraries, row: Row) -> None:
    name, whole = f"killed-{row.script}", f"whole-{row.script}"
    is_one_job(fresh.two(row.script, whole))
    killed = fresh.two(row.script, name, TEST_DIES_AT="12")
    assert killed.code and not WEIGHTS.search(killed.text)

    done = fresh.two(row.script, name)

    assert f"goes on from {OUTPUT}/{name}/checkpoint-10" in done.text
    is_one_job(done)
    assert fresh.read(name) == fresh.read(whole)


@pytest.mark.parametrize("script", ["lightning_default.py", "keras_fit.py", "spacy_update.py"])
def test_two_containers_without_a_group_are_an_error(fresh: Libraries, script: str) -> None:
    done = fresh.two(script, f"apart-{script}")

    assert done.code and "was meant to be one of 2" in done.text
