"""What scripts/manifest.py prints, as pods: the operator's part is tests/support/operators.py, podman plays them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.pods import ELASTIC, MASTER, SIZES, TRAINJOB, Form, Podman
from tests.support.harness import ROOT
from tests.support.manifests import run
from tests.support.mpi_operator import make_mpi_pods, mount, write_hostfile, write_mounts
from tests.support.operators import make_trainjob_pods
from tests.support.wheels import pack

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("form", [ELASTIC, MASTER, TRAINJOB], ids=["elastic", "a master and a worker", "trainjob"])
def test_two_pods_of_a_job_train_together(pulled: str, node: Podman, form: Form) -> None:
    ends = form.play(node, "smoke", pulled, node.network, "smoke", "--bf16")

    assert [end.code for end in ends] == [0, 0]
    assert "".join(end.out for end in ends).count("smoke: passed: world_size=2 ") == 1


def test_a_function_of_the_sdk_trains_on_the_runtime(pulled: str, node: Podman, tmp_path: Path) -> None:
    """The SDK writes the function into the working directory, and has pip install packages for the user."""
    trainer = json.loads((ROOT / "tests" / "data" / "sdk" / "custom_trainer.json").read_text())
    # podman 4.3 writes a text anew that begins with an empty line, and cannot read it then.
    trainer["command"][-1] = trainer["command"][-1].lstrip()
    job = {"metadata": {"name": "sdk"}, "spec": {"trainer": trainer}}
    runtime = run("runtime", "--image", pulled, "--pvc", node.network, *SIZES).manifest
    index = tmp_path / "index" / "thing"
    index.mkdir(parents=True)
    wheel = pack(index, {"thing.py": b"VALUE = 42\n"}).name
    (index / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
    addresses = node.addresses(2)
    pods = make_trainjob_pods(job, runtime, addresses)
    for pod in pods:
        mount(pod, "index", index.parent, "/index")

    node.play(pods, addresses)
    ends = node.ends([f"sdk-node-0-{index}-node" for index in range(2)])

    assert [end.code for end in ends] == [0, 0]
    place = "/home/multinode/.local/lib/python3.11/site-packages/thing.py"
    for rank, end in enumerate(ends):
        assert f"sdk: rank {rank} of 2 has 8, thing 42 of {place}, in /home/multinode" in end.out


def test_an_mpijob_trains_on_its_workers(pulled: str, node: Podman, tmp_path: Path) -> None:
    words = ("--name", "smoke", "--image", pulled, "--pvc", node.network, *SIZES, "smoke", "--bf16")
    manifest = run("mpijob", *words).manifest
    write_mounts(tmp_path, write_hostfile(manifest))
    addresses = node.addresses(3)
    pods = make_mpi_pods(manifest, tmp_path, addresses)

    node.play(pods, addresses)
    [end] = node.ends(["smoke-launcher-launcher"])

    workers = "".join(node.logs(f"smoke-worker-{index}-worker") for index in range(2))
    assert end.code == 0, workers
    assert "smoke: passed: world_size=2 " in end.out
