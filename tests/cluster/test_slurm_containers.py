"""Steps of Slurm that start a container for each task, as docs/slurm.md types them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import packages, slurm
from tests.cluster.nodes import MEET, TRAINS, places
from tests.cluster.slurm import NODES, Slurm
from tests.support.containers import Started
from tests.support.documents import page
from tests.support.harness import Done, call

pytestmark = pytest.mark.slow

ONE_EACH = ["node0 0/1", "node1 0/1"]
PLACE = "/job"  # what all nodes share: the unpacked image, and directories of the user
TASK = "smoke --bf16"
FAILS_ON_ONE = "import os, sys, time\nif os.environ['RANK'] == '1':\n    sys.exit(3)\ntime.sleep(600)\n"
# What a plain user of a host may do, and one of a container may not: make namespaces, and mount in them.
UNCONFINED = ("--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined")


def shown(program: str) -> str:
    """Return the line of the page that starts a step with this program."""
    lines = ("\n".join(lines_of_block) for _, lines_of_block in page("docs/slurm.md").blocks)
    return next(line for line in lines if line.startswith("srun") and program in line)


def batch_file(task: str) -> str:
    """Return the batch file of the page with another task."""
    texts = (block.text for block in page("docs/slurm.md").shown)
    return next(text for text in texts if text.startswith("#!/bin/bash")).replace("qa --bf16", task)


@pytest.fixture(scope="module")
def place(image: str, module_path: Path) -> Iterator[Path]:
    """Unpack the image into a directory that belongs to the user of the steps."""
    place, copy = module_path / "job", f"{module_path.name}-copy"
    for name in (".", "image", "results", "cache"):
        (place / name).mkdir(parents=True)
        (place / name).chmod(0o777)
    shutil.copy(Path(__file__).with_name("meet.py"), place / "results")
    variables = call(["docker", "inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", image])
    (place / "environment").write_text(variables.out)
    try:
        assert call(["docker", "create", "--name", copy, image]).code == 0
        assert call(["bash", "-c", f"docker export {copy} | tar -xf - -C {place}/image"]).code == 0
    finally:
        call(["docker", "rm", "--force", copy])
    yield place


@pytest.fixture(scope="module")
def up(image: str, place: Path, module_path: Path, module_tag: Callable[[str], str]) -> Iterator[Slurm]:
    """Bring up a Slurm whose nodes have Charliecloud, and the command of Docker."""
    debs, tag = packages.choose_packages(*slurm.PACKAGES, "charliecloud"), module_tag("slurm-containers")
    (module_path / "build").mkdir()
    slurm.build_image(image, tag, debs, module_path / "build")
    options = [*UNCONFINED, "--volume", f"{place}:{PLACE}", "--volume", f"{shutil.which('docker')}:/usr/bin/docker:ro"]
    options += ["--volume", "/var/run/docker.sock:/var/run/docker.sock"]
    with slurm.up(tag, f"multinode-steps-{os.getpid()}", options=options) as cluster:
        yield cluster


@pytest.fixture
def cluster(up: Slurm) -> Iterator[Slurm]:
    """Lend the cluster, and end what a test leaves."""
    yield up
    up.clear()


def command(cluster: Slurm, script: str, user: str = "1000:1000") -> list[str]:
    """Write the command line of a line of shell in the shared directory, with the few variables of a user's shell."""
    shell = ["env", "-i", "USER=somebody", "HOME=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin", "bash", "-c"]
    return ["docker", "exec", "--user", user, f"{cluster.name}-{slurm.CONTROLLER}", *shell, f"cd {PLACE}\n{script}"]


def with_charliecloud(task: str) -> str:
    """Write the page's step with another task; meet.py is among the results."""
    return shown("ch-run").replace(TASK, task)


def with_docker(cluster: Slurm, image: str, task: str, options: str = "") -> str:
    """Write the page's step with another task: a node here is a container, whose network is that of its host."""
    step = shown("docker").replace("IMAGE", f"{options} {image}").replace(TASK, task)
    return step.replace("--network host", f"--network container:{cluster.name}-$SLURMD_NODENAME")


def beside_slurm(cluster: Slurm, node: str, job: str, words: str) -> list[str]:
    """Write the command line of a container of Charliecloud on a node, with a key and a port of its job."""
    variables = {"MULTINODE_SSH_KEYS": f"/workspace/output/{job}", "MULTINODE_SSH_PORT": f"230{ord(job) - ord('a')}"}
    if words == "worker":
        variables["JOB"] = f"of-{job}"  # a rank that shows it has come in there
    options = " ".join(f"--set-env={name}={value}" for name, value in variables.items())
    script = f"ch-run --set-env=environment {options} --bind=results:/workspace/output image -- multinode {words}"
    line = command(cluster, script)
    return [
        word.replace(f"-{slurm.CONTROLLER}", f"-{node}") if word.startswith(cluster.name) else word for word in line
    ]


def run(line: list[str]) -> Done:
    """Run a step."""
    return call(line, seconds=180)


def test_charliecloud_trains(cluster: Slurm) -> None:
    done = run(command(cluster, with_charliecloud(TASK)))

    assert done.code == 0
    assert "smoke: passed: world_size=2 " in done.out


def test_the_batch_file_trains(cluster: Slurm, place: Path) -> None:
    (place / "qa.sbatch").write_text(batch_file(TASK))

    done = run(command(cluster, "sbatch --wait qa.sbatch; code=$?; cat qa-*.log; exit $code"))

    assert done.code == 0
    assert "smoke: passed: world_size=2 " in done.out


def test_a_rank_that_fails_ends_the_batch_job(cluster: Slurm, place: Path) -> None:
    (place / "results" / "fail.py").write_text(FAILS_ON_ONE)
    (place / "fail.sbatch").write_text(batch_file("/workspace/output/fail.py").replace("=qa", "=fail"))

    done = run(command(cluster, "sbatch --wait fail.sbatch; code=$?; cat fail-*.log; exit $code"))

    assert done.code != 0  # srun's own is the largest of its tasks, of which it ended one
    assert "task 1: Exited with exit code 3" in done.out


def test_uneven_tasks_of_charliecloud_meet(cluster: Slurm) -> None:
    step = with_charliecloud("/workspace/output/meet.py").replace("--nodes 2 --ntasks-per-node 1", "-N2 -n3")

    done = run(command(cluster, step))

    assert done.code == 0
    assert places(done.out) == ["node0 0/2", "node0 1/2", "node1 0/1"]


def test_two_jobs_on_the_same_nodes_keep_their_keys(cluster: Slurm, place: Path) -> None:
    """A container of Charliecloud has the /tmp of its node."""
    jobs = ("a", "b")
    for job in jobs:
        (place / "results" / job).mkdir()
        key = place / "results" / job / "id_ed25519"
        assert call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]).code == 0
        key.chmod(0o644)
    with contextlib.ExitStack() as stack:

        def start(node: str, job: str, words: str) -> Started:
            started = Started(beside_slurm(cluster, node, job, words))
            stack.callback(started.end)
            return started

        workers = [start(NODES[1], job, "worker") for job in jobs]
        assert all(worker.said("Server listening on") for worker in workers)
        launch = f"launch --hosts {NODES[1]} -n 1 sh -c 'echo rank $JOB; sleep 3'"
        ends = [running.finish(180) for running in [start(NODES[0], job, launch) for job in jobs]]
        call(["docker", "exec", f"{cluster.name}-{NODES[1]}", "pkill", "-TERM", "sshd"])
        for worker in workers:
            worker.finish(60)

    assert [end.code for end in ends] == [0, 0]
    for job, end in zip(jobs, ends, strict=True):
        assert f"rank of-{job}" in end.out
    for node in NODES:
        left = call(["docker", "exec", f"{cluster.name}-{node}", "find", "/tmp/multinode-1000", "-name", "id*"])
        assert left.out == ""


def test_containers_of_an_engine_meet(cluster: Slurm, image: str, place: Path) -> None:
    meet = f"--volume {place}/results/meet.py:{MEET}:ro"

    done = run(command(cluster, with_docker(cluster, image, MEET, meet), "0:0"))

    assert done.code == 0
    assert places(done.out) == ONE_EACH


def test_scancel_ends_what_charliecloud_runs(cluster: Slurm) -> None:
    child = Started(command(cluster, with_charliecloud("smoke --max_steps 1000000")))
    cluster.started.append(child)
    assert child.said(TRAINS, 240)

    assert cluster.run("scancel $(squeue --noheader --format=%A)").code == 0

    assert child.finish(60).code != 0
    for node in NODES:
        script = "until ! pgrep -f multinode/[s]moke.py; do [ $SECONDS -lt 20 ] || exit 1; sleep 0.2; done"
        assert cluster.on_node(node, script).code == 0
