"""An image for arm64, with the real torch: built on this machine, and run by qemu, alone and on two nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import KEYS
from tests.support import emulation
from tests.support.containers import detached, network
from tests.support.harness import IMAGES, Done, build, remove_images, run

pytestmark = pytest.mark.slow

PATIENCE = 1800  # seconds
# Whoever waits for the other rank does not keep qemu busy.
OPTIONS = ("--platform", "linux/arm64", "--env", "OMP_WAIT_POLICY=passive", "--shm-size", "1g")
TRAINING = (*OPTIONS, "--env", f"QEMU_CPU={emulation.PLAIN}")
SMOKE = ("smoke", "--max_steps", "30")
PASSED = "smoke: passed: world_size={}"


@pytest.fixture(scope="module")
def emulated(engine: None, module_path: Path) -> Iterator[str]:
    """Build an image without examples; every package of it is imported once, by qemu."""
    tag = f"{IMAGES}:arm64"
    with emulation.registered(emulation.fetch(module_path)):
        done = build("--platform", "linux/arm64", "--examples", "none", "--tag", tag, "--load", seconds=PATIENCE)
        assert done.code == 0 and "import check skipped" not in done.err
        yield tag
        remove_images([tag])


def start(image: str, *command: str, options: tuple[str, ...] = TRAINING) -> Done:
    return run(image, *command, options=options, seconds=PATIENCE)


def test_the_start_is_decided_for_the_machine(emulated: str) -> None:
    """What qemu imitates, if it is not told otherwise, computes in bf16."""
    plan = json.loads(start(emulated, "--explain=json", "smoke", "--bf16", options=OPTIONS).out)

    assert plan["machine"]["bf16"] == ["bf16"]
    assert plan["set"]["LD_PRELOAD"] == "/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4"
    assert not [name for name in plan["set"] if name.startswith(("KMP_", "I_MPI_", "CCL_"))]


def test_doctor_finds_nothing_wrong_in_it(emulated: str) -> None:
    done = start(emulated, "doctor", "--json")

    wrong = [check for check in json.loads(done.out)["checks"] if check["state"] == "wrong"]
    assert (done.code, wrong) == (0, [])


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_of_a_node_train_as_one_job(emulated: str, ranks: int) -> None:
    done = start(emulated, "--nproc", str(ranks), *SMOKE)

    assert done.code == 0 and PASSED.format(ranks) in done.text


def test_two_nodes_train_over_ssh(emulated: str, keys: Path) -> None:
    """MPICH's hydra takes hosts, numbers of ranks and our ssh as Intel's does, and hands on the code of a rank."""
    options = (*TRAINING, "--volume", f"{keys / '0644'}:{KEYS}:ro")
    with network() as joined, detached(*options, emulated, "worker", name=f"{joined}-1", network=joined) as other:
        words = ("launch", "--hosts", f"{joined}-0,{other.name}", "-n", "2", "--ppn", "1")
        here = (*options, "--network-alias", f"{joined}-0")
        done, failed = (
            run(emulated, *words, *command, options=here, seconds=PATIENCE, network=joined)
            for command in (SMOKE, ("sh", "-c", "exit 7"))
        )

    assert done.code == 0 and PASSED.format(2) in done.text
    assert failed.code == 7
