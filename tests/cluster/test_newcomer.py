"""The steps of docs/kubernetes.md, typed by somebody who has nothing else.

Every command is run as it is shown. Replaced are kubectl, by tests/cluster/kubectl.py, the registry's image, by the
tests' own, the token, and the sizes, by those of a small machine. The hub is a local one whose model needs the token.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.pods import podman
from tests.support.documents import Page, Shown, page
from tests.support.harness import ROOT, Done
from tests.support.hub import Hub, serving
from tests.support.hub_repositories import fill

pytestmark = pytest.mark.slow

GUIDE, REFERENCE = "docs/kubernetes.md", "docs/kubernetes-reference.md"
# A page and a chapter of it, in the order in which somebody types them who trains a task without a network.
CHAPTERS = (
    (GUIDE, "1. Image"), (GUIDE, "2. Storage"), (GUIDE, "3. Try the cluster"), (REFERENCE, "Download once"),
    (GUIDE, "4. Train"), (REFERENCE, "Copy results and data"), (GUIDE, "6. Clean up"),
)  # fmt: skip
# What takes something that is not here: a registry.
LEFT_OUT = ("python build.py --no-load --push ",)
SMALL = ("--cpu 112 --memory 128Gi --nproc 2", "--cpu 1 --memory 3Gi --shm 256Mi --workers 2")
IMAGES = ("registry.example/multinode@sha256:<DIGEST>", "registry.example/multinode:torch2.13.0-transformers5.23.0")
KUBECTL = '#!/bin/sh\nexec "{python}" -m tests.cluster.kubectl "$@"\n'
SECONDS = 330  # for one command


def list_steps() -> list[Shown]:
    """List the commands and the file of the chapters, in their order."""
    shown = [each for place in CHAPTERS for each in in_blocks(chapter(*place))]
    return [each for each in shown if not each.text.startswith(LEFT_OUT)]


def chapter(path: str, title: str) -> Page:
    """Return a chapter of a page as a page."""
    _, _, rest = page(path).text.partition(f"\n## {title}\n")
    return Page(path, rest.partition("\n## ")[0])


def in_blocks(page: Page) -> list[Shown]:
    """List what a page shows in blocks, without what stands within its sentences."""
    inside = {number + row for number, lines in page.blocks for row in range(len(lines))}
    return sorted((each for each in page.shown if each.line in inside), key=lambda each: each.line)


@dataclass(frozen=True)
class Newcomer:
    """An empty directory, an environment whose kubectl is the tests', and what is replaced in a command."""

    place: Path
    environ: dict[str, str]
    replaced: dict[str, str]

    def type(self, shown: Shown) -> Done:
        """Run a command, or save a file under the name that the page gives to it."""
        text = shown.text
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        if text.startswith("apiVersion: "):
            (self.place / "copy.yaml").write_text(text)
            return Done(0, "", "")
        return self.run(text)

    def run(self, text: str) -> Done:
        """Run a line of shell within a time limit."""
        command = ["bash", "-o", "pipefail", "-c", text]
        done = subprocess.run(
            command, cwd=self.place, env=self.environ, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        print(f"$ {text}\n{done.stdout}{done.stderr}[exit code {done.returncode}]")
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Serve the repositories of the tests; the model is open to those who have asked for access."""
    with serving("0.0.0.0") as served:
        fill(served)
        served.gated = {"models/distilbert/distilbert-base-uncased"}
        yield served


@pytest.fixture
def newcomer(pulled: str, hub: Hub, tmp_path: Path) -> Iterator[Newcomer]:
    """Lend an empty directory and a cluster in which nothing was made so far."""
    name, home = f"multinode-{uuid.uuid4().hex[:8]}", tmp_path / "home"
    for directory in (home, tmp_path / "bin", tmp_path / "state"):
        directory.mkdir()
    with podman(tmp_path / "state", name) as engine:
        state = {"network": name, "given": 0, "namespaces": ["default"], "secrets": {}, "objects": {}}
        (tmp_path / "state" / "objects.json").write_text(json.dumps(state))
        (tmp_path / "bin" / "kubectl").write_text(KUBECTL.format(python=sys.executable))
        (tmp_path / "bin" / "kubectl").chmod(0o755)
        own = {"PYTHONPATH": str(ROOT), "KUBECTL_STATE": str(tmp_path / "state")}
        environ = {**os.environ, **engine.environ, **own, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        endpoint = f"http://{engine.gateway}:{hub.url.rpartition(':')[2]}"
        yield Newcomer(home, environ, {
            "python scripts/": f"{sys.executable} {ROOT}/scripts/",
            " prefetch ": f" prefetch --env HF_ENDPOINT={endpoint} --env HF_HUB_ETAG_TIMEOUT=3 ",
            "<TOKEN>": hub.token, SMALL[0]: SMALL[1], **dict.fromkeys(IMAGES, pulled),
        })  # fmt: skip
        for file in sorted((tmp_path / "state").glob("*.yaml")):
            engine.played.append(file)
    subprocess.run(["podman", "volume", "rm", "--force", f"{name}-transformers-pvc"], capture_output=True, timeout=60)


def test_the_chapters_lead_from_an_empty_directory_to_a_model(newcomer: Newcomer, hub: Hub) -> None:
    said: dict[str, str] = {}
    asked = 0
    for shown in list_steps():
        done = newcomer.type(shown)
        assert done.code == 0, shown.place
        said[shown.text] = done.out
        if "job/transformers-prefetch" in shown.text:
            asked = len(hub.requests)

    log = next(text for command, text in said.items() if command.startswith("kubectl logs -n training -f -l "))
    assert any("smoke: passed: world_size=2 " in text for text in said.values())
    assert all(f"rank {rank} of 2 ends at step 2" in log for rank in (0, 1))
    assert asked == len(hub.requests) > 0
    left = {path.name for path in (newcomer.place / "qa").iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= left
    assert newcomer.run("kubectl get pvc -n training").out.split() == ["NAME", "STATUS"]
