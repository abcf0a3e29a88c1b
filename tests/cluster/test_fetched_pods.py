"""A task that one Job has fetched from a hub into the claim, trained by pods that reach nothing but each other."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.pods import ELASTIC, SIZES, TRAINJOB, Form, Podman, podman
from tests.support.harness import Done, env_options
from tests.support.hub import Hub, serving
from tests.support.hub_repositories import fill
from tests.support.manifests import run
from tests.support.operators import fill_secrets, make_job_pod, make_pods

LOG = "transformers-prefetch-x7k2p-prefetch"


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


def fetch(node: Podman, image: str, hub: Hub, *words: str, token: str = "") -> Done:
    """Play the Job that fetches into the claim, and wait for its end."""
    variables = env_options({"HF_ENDPOINT": hub.url, "HF_HUB_ETAG_TIMEOUT": "3"})
    pod = make_job_pod(run("prefetch", "--image", image, "--pvc", node.network, *variables, *words).manifest)
    node.play([fill_secrets(pod, {"hf-token": {"HF_TOKEN": token}})], node.addresses(1))
    [end] = node.ends([LOG])
    return end


@pytest.mark.slow  # test_prefetch.py fetches and trains; test_operators.py has the variables of the pods
@pytest.mark.parametrize("form", [ELASTIC, TRAINJOB], ids=["pytorchjob", "trainjob"])
def test_what_a_job_has_fetched_is_trained_without_a_network(
    pulled: str, node: Podman, apart: Podman, hub: Hub, form: Form
) -> None:
    end = fetch(node, pulled, hub, "qa")
    assert end.code == 0
    assert "prefetch: qa is in /workspace/output/huggingface; it runs with HF_HUB_OFFLINE=1\n" in end.out
    hub.requests.clear()

    ends = form.play(apart, "qa", pulled, node.network, "--env", "HF_HUB_OFFLINE=1", "qa", "--bf16")

    assert [pod.code for pod in ends] == [0, 0]
    assert all(f"rank {rank} of 2 ends at step 2" in "".join(pod.out for pod in ends) for rank in (0, 1))
    assert hub.requests == []


@pytest.mark.slow
def test_a_token_without_access_is_said_in_the_log_and_ends_the_job(pulled: str, node: Podman, hub: Hub) -> None:
    hub.gated = {"models/distilbert/distilbert-base-uncased"}

    end = fetch(node, pulled, hub, "--env-secret", "HF_TOKEN=hf-token", "qa", token="hf_closed")

    assert end.code == 1
    assert f"it cannot be fetched: model distilbert/distilbert-base-uncased from {hub.url}" in end.out
    assert "ask for access there" in end.out and "hf_closed" not in end.out


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

    [end] = node.ends([name], 120)
    assert end.code == 2
    assert message in end.out
