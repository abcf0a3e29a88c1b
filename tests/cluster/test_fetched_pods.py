"""A task that one Job has fetched from a hub into the claim, trained by pods that reach nothing but each other."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.pods import Podman, podman
from tests.support.hub import Hub, serving
from tests.support.hub_repositories import fill
from tests.support.manifests import run
from tests.support.operators import TORCH_DISTRIBUTED, fill_secrets, make_job_pod, make_pods, make_trainjob_pods

SIZES = ("--cpu", "1", "--memory", "3Gi", "--shm", "256Mi", "--workers", "2")
LOG = "transformers-prefetch-x7k2p-prefetch"
Operator = Callable[[dict[str, Any], list[str]], list[dict[str, Any]]]


@pytest.fixture
def apart(pulled: str, tmp_path: Path) -> Iterator[Podman]:
    """Lend podman with a network that has no way out."""
    place = tmp_path / "apart"
    place.mkdir()
    with podman(place, f"multinode-{uuid.uuid4().hex[:8]}", internal=True) as lent:
        yield lent


@pytest.fixture
def hub(node: Podman) -> Iterator[Hub]:
    """Serve the repositories of the tests to the pods of `node`."""
    with serving("0.0.0.0") as served:
        fill(served)
        served.url = f"http://{node.gateway}:{served.url.rpartition(':')[2]}"
        yield served


def fetch(node: Podman, image: str, hub: Hub, *words: str, token: str = "") -> tuple[int, str]:
    """Play the Job that fetches into the claim; return its exit code and its log."""
    own = ("--image", image, "--pvc", node.network, "--env", f"HF_ENDPOINT={hub.url}", "--env", "HF_HUB_ETAG_TIMEOUT=3")
    pod = make_job_pod(run("prefetch", *own, *words).manifest)
    node.play([fill_secrets(pod, {"hf-token": {"HF_TOKEN": token}})], node.addresses(1))
    return node.wait(LOG, 180), node.logs(LOG)


def make_trainjob(manifest: dict[str, Any], addresses: list[str]) -> list[dict[str, Any]]:
    """Return the pods of a TrainJob with the runtime that comes with Trainer."""
    return make_trainjob_pods(manifest, TORCH_DISTRIBUTED, addresses)


ELASTIC = ("pytorchjob", ("--elastic", "2:2"), make_pods, ("qa-worker-0-pytorch", "qa-worker-1-pytorch"))
TRAINJOB = ("trainjob", (), make_trainjob, ("qa-node-0-0-node", "qa-node-0-1-node"))


@pytest.mark.parametrize(
    ("kind", "form", "operator", "containers"),
    [pytest.param(*ELASTIC, id="pytorchjob"), pytest.param(*TRAINJOB, id="trainjob", marks=pytest.mark.slow)],
)
def test_what_a_job_has_fetched_is_trained_without_a_network(
    pulled: str, node: Podman, apart: Podman, hub: Hub, kind: str, form: tuple[str, ...], operator: Operator,
    containers: tuple[str, str],
) -> None:  # fmt: skip
    code, said = fetch(node, pulled, hub, "qa")
    assert code == 0
    assert "prefetch: qa is in /workspace/output/huggingface; it runs with HF_HUB_OFFLINE=1\n" in said
    hub.requests.clear()
    own = ("--name", "qa", "--image", pulled, "--pvc", node.network, *SIZES, *form, "--env", "HF_HUB_OFFLINE=1")
    addresses = apart.addresses(2)

    apart.play(operator(run(kind, *own, "qa", "--bf16").manifest, addresses), addresses)
    codes = [apart.wait(each, 180) for each in containers]

    text = "".join(apart.logs(each) for each in containers)
    assert codes == [0, 0]
    assert all(f"rank {rank} of 2 ends at step 2" in text for rank in (0, 1))
    assert hub.requests == []


@pytest.mark.slow
def test_a_token_without_access_is_said_in_the_log_and_ends_the_job(pulled: str, node: Podman, hub: Hub) -> None:
    hub.gated = {"models/distilbert/distilbert-base-uncased"}

    code, said = fetch(node, pulled, hub, "--env-secret", "HF_TOKEN=hf-token", "qa", token="hf_closed")

    fails = run("prefetch", "--image", pulled).manifest["spec"]["podFailurePolicy"]["rules"][0]
    assert (code, fails["action"]) == (2, "FailJob") and code in fails["onExitCodes"]["values"]
    assert "the hub gives no such thing to this user: model distilbert" in said
    assert f"ask for access on {hub.url}" in said and "hf_closed" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("prefetch", ("qa",), "the cache cannot be written: /workspace/output/huggingface"),
        ("pytorchjob", (*SIZES, "--name", "qa", "qa"), "the directory for results cannot be written"),
    ],
)
def test_a_claim_that_may_only_be_read_is_refused(
    pulled: str, node: Podman, kind: str, words: tuple[str, ...], message: str
) -> None:
    manifest = run(kind, "--image", pulled, "--pvc", node.network, *words).manifest
    pod = make_job_pod(manifest) if kind == "prefetch" else make_pods(manifest, node.addresses(2))[0]
    [container] = pod["spec"]["containers"]
    container["volumeMounts"][0]["readOnly"] = True
    pod["spec"]["restartPolicy"] = "Never"
    name = f"{pod['metadata']['name']}-{container['name']}"

    node.play([pod], node.addresses(1))

    assert node.wait(name, 120) == 2
    assert message in node.logs(name)


@pytest.mark.slow
def test_a_directory_of_another_user_is_refused(pulled: str, node: Podman) -> None:
    words = ("--image", pulled, "--pvc", node.network, *SIZES, "--elastic", "off", "--workers", "1", "--name", "qa")
    first = make_pods(
        run("pytorchjob", *words, "bash", "-c", "mkdir -m 755 /workspace/output/qa").manifest, ["10.0.0.1"]
    )
    second = make_pods(run("pytorchjob", *words, "--uid", "2000", "qa").manifest, ["10.0.0.1"])
    name = "qa-master-0-pytorch"
    for pods, code in ((first, 0), (second, 2)):
        pods[0]["spec"]["restartPolicy"] = "Never"
        node.play(pods, node.addresses(1))
        assert node.wait(name, 120) == code
        said = node.logs(name)
        node.down_pods()

    assert "the directory for results cannot be written: /workspace/output/qa" in said
