"""`prefetch TASK...` in a container that reaches nothing but a hub of ours; then the task, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import certificates, containers
from tests.support.harness import OFFLINE, Done, assert_three_parts, env_options, run
from tests.support.hub import NLTK, Hub, serving
from tests.support.hub_repositories import fill

CACHE = "/workspace/.cache/huggingface"
QA = ("qa", "--model_name_or_path", "ours/bert", "--dataset_name", "ours/questions")
TASKS = {
    QA: '{"rows": 8, "scores": [1, 4], "squad": 0.5, "train": true}',
    ("glue", "--model_name_or_path", "ours/bert"): '{"labels": ["different", "same"], "scores": [1, 2], "glue": 0.5}',
    ("summarization", "--model_name_or_path", "ours/bart", "--dataset_name", "ours/news"):
        '{"sentences": 2, "said": 1, "rouge": 0.5}',
}  # fmt: skip


@pytest.fixture(scope="module")
def network(engine: None) -> Iterator[str]:
    """Make a network without a way out."""
    with containers.network("--internal") as name:
        yield name


@pytest.fixture(scope="module")
def authority(module_path: Path) -> Path:
    """Make a certificate authority, and a certificate for the host of nltk's data that it has signed."""
    certificates.certificate(module_path, f"DNS:{NLTK}", certificates.authority(module_path))
    return module_path


@pytest.fixture
def hub(network: str, authority: Path) -> Iterator[Hub]:
    """Serve the repositories of the tests."""
    with serving(containers.gateway(network), authority / "server.pem") as served:
        fill(served)
        yield served


@pytest.fixture
def prefetch(image: str, hub: Hub, network: str, authority: Path, volume: Path) -> Prefetch:
    """Return how to fetch in a container that reaches nothing but the hub."""
    return Prefetch(image, hub, network, authority, volume)


class Prefetch:
    """A container that fetches into a cache."""

    def __init__(self, image: str, hub: Hub, network: str, authority: Path, cache: Path) -> None:
        self.image, self.network, self.cache = image, network, cache
        host = hub.url.partition("://")[2].partition(":")[0]
        variables = {"HF_ENDPOINT": hub.url, "HTTPS_PROXY": hub.url, "NO_PROXY": host, "HF_HUB_ETAG_TIMEOUT": "3"}
        trusted = f"{authority}/ca.pem:/etc/multinode/ca.pem:ro"
        self.options = [*env_options(variables), "--volume", trusted, *OFFLINE]

    def __call__(self, *words: str) -> Done:
        """Fetch."""
        options = (*self.options, "--volume", f"{self.cache}:{CACHE}")
        return run(self.image, "prefetch", *words, options=options, network=self.network)

    def alone(self, *words: str) -> Done:
        """Run a task from the cache, without a network."""
        mounted = ("--volume", f"{self.cache}:{CACHE}", *OFFLINE, "--env", "HF_HUB_OFFLINE=1")
        return run(self.image, *words, options=mounted)


@pytest.mark.parametrize(
    "words", [pytest.param(words, id=words[0], marks=[pytest.mark.slow] * (words is not QA)) for words in TASKS]
)
def test_a_task_that_was_fetched_runs_without_a_network(prefetch: Prefetch, words: tuple[str, ...]) -> None:
    done = prefetch(*words)
    assert done.code == 0
    assert f"prefetch: {words[0]} is in {CACHE}; it runs with HF_HUB_OFFLINE=1" in done.out

    done = prefetch.alone(*words)

    assert done.code == 0
    assert TASKS[words] in done.out


@pytest.mark.slow
def test_a_gated_repository_is_said(prefetch: Prefetch, hub: Hub) -> None:
    hub.gated = {"models/ours/bert"}
    for token in ((), ("--token", "hf_closed")):
        assert_three_parts(
            prefetch(*QA, *token), 1, "cannot be fetched: model ours/bert", "ask for access", "multinode"
        )
    assert any(headers.get("Authorization") == "Bearer hf_closed" for _, _, headers in hub.requests)


@pytest.mark.slow
def test_a_token_with_access_opens_a_gated_repository(prefetch: Prefetch, hub: Hub) -> None:
    hub.gated, hub.private = {"models/ours/bert"}, {"datasets/ours/questions"}
    done = prefetch(*QA, "--token", hub.token)
    assert done.code == 0
    assert hub.token not in done.text


@pytest.mark.slow
def test_a_half_fetched_cache_continues(prefetch: Prefetch, hub: Hub) -> None:
    hub.cut = "model.safetensors"
    assert_three_parts(prefetch(*QA), 1, "model ours/bert", "run it again", "multinode")
    hub.cut = None
    hub.requests.clear()

    assert prefetch(*QA).code == 0

    # The hub's library keeps whole files (huggingface_hub/file_download.py).
    fetched = {path.rpartition("/")[2] for method, path, _ in hub.requests if method == "GET" and "/resolve/" in path}
    assert "model.safetensors" in fetched and not fetched & {"config.json", "vocab.txt", "train.jsonl"}
    assert prefetch.alone(*QA).code == 0


@pytest.mark.slow
def test_no_network_is_said(image: str) -> None:
    done = run(image, "prefetch", *QA, options=OFFLINE)
    assert_three_parts(done, 1, "cannot be fetched", "HF_ENDPOINT", "multinode")
    assert f"nothing is mounted at {CACHE}: what is fetched is lost with the container" in done.err
