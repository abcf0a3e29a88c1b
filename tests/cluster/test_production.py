"""The page about production: each command as it is printed, with containers, a registry and a server of S3.

What kubectl would be told is checked and kept by a stand-in; the pods of a Job without an operator are run here.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.support.admission import list_flaws
from tests.support.containers import Container, Started
from tests.support.definitions import schema
from tests.support.documents import Page, Shown, page
from tests.support.harness import ROOT, Done, call, new_name, wait_for
from tests.support.registry import manifest, running
from tests.support.stand_in import digest

pytestmark = pytest.mark.slow

PAGE = page("docs/production.md")
SCRIPT = ROOT / "tests/data/production/train.py"
NAMES = re.compile(r"\b(pod[01]|board)\b|(?<=--network )(training)|(?<=network create )(training)|(?<=-v )(results)")
# What is typed, and a file that is saved; a line of a script is neither.
TYPED = ("apiVersion: ", "docker ", "kubectl ", "printf ", "python ")
MOTO = "moto[server]==5.2.5"
KEYS = {"AWS_ACCESS_KEY_ID": "tested", "AWS_SECRET_ACCESS_KEY": "tested", "AWS_DEFAULT_REGION": "us-east-1"}


def read_section(title: str) -> list[Shown]:
    """Return the commands and files of a part of the page, in their order, but for those within sentences."""
    part = PAGE.text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    shown = Page(PAGE.path, re.sub("(?<!`)`(?!`)", "", part)).shown
    return [typed for typed in shown if typed.text.startswith(TYPED)]


@dataclass
class Desk:
    """A directory where the page is typed; digits: of the digest; ending: of the names in the engine."""

    place: Path
    registry: str
    image: str
    ending: str
    digits: str = ""
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, text: str) -> str:
        """Return a command of the page with the names of this desk."""
        text = NAMES.sub(lambda name_match: f"{name_match[0]}{self.ending}", text)
        text = text.replace("registry.example", self.registry).replace("<DIGEST>", self.digits)
        text = re.sub(r"\bIMAGE\b", self.image, text).replace("127.0.0.1:6006:", "127.0.0.1::")
        # Neither the examples nor the registry of an engine that cannot read zstd (20.10) are here.
        text = text.replace("--no-load", f"--examples none --tag {self.image}")
        return text.replace("python build.py", f"python {ROOT}/build.py").replace(
            "python scripts/", f"python {ROOT}/scripts/"
        )

    def type(self, shown: Shown) -> Done:
        """Run a command as a user types it; keep a file under the name that a command of the page has for it."""
        if shown.text.startswith("apiVersion"):
            (self.place / "quota.yaml").write_text(shown.text)
            return Done(0, "", "")
        script = f"set -o pipefail; cd {self.place}; {self.write(shown.text)}"
        done = call(["bash", "-euc", script], env={**os.environ, **self.environ}, seconds=600)
        assert done.code == 0, shown.text
        return done

    def type_all(self, title: str) -> list[Done]:
        """Run a part of the page."""
        return [self.type(typed) for typed in read_section(title)]

    def kept(self, name: str) -> dict[str, Any]:
        """Return an object that kubectl was given."""
        manifest: dict[str, Any] = yaml.safe_load((self.place / "objects" / f"{name}.yaml").read_text())
        return manifest

    def container(self, name: str) -> Container:
        """Return a container of the page."""
        return Container(f"{name}{self.ending}")


@pytest.fixture(scope="module")
def desk(engine: None, module_path: Path, module_tag: Callable[[str], str]) -> Iterator[Desk]:
    """Type the first part: the image is built, pushed and verified."""
    for name in ("objects", "bin"):
        (module_path / name).mkdir()
    for name in ("train.py", "sweep.py"):
        (module_path / name).write_text(SCRIPT.read_text())
    kubectl = module_path / "bin" / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/tests/support/kubectl.py "$@"\n')
    kubectl.chmod(0o755)
    path = f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    with running(module_path / "registry") as host:
        opened = Desk(module_path, host, module_tag("production"), new_name().removeprefix("multinode-test"))
        opened.environ = {"PATH": path, "KUBECTL_OBJECTS": str(module_path / "objects")}
        opened.type_all("One image")
        opened.digits = digest(manifest(f"{host}/multinode:1") or b"").removeprefix("sha256:")
        try:
            yield opened
        finally:
            ends = [opened.ending]
            call(["docker", "rm", "--force", *(f"{name}{end}" for end in ends for name in ("pod0", "pod1", "board"))])
            call(["docker", "network", "rm", f"training{opened.ending}"])
            call(["docker", "volume", "rm", "--force", f"results{opened.ending}", f"results{opened.ending}-spot"])


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace variables as a kubelet does."""
    return re.sub(r"\$\((\w+)\)", lambda variable: variables.get(variable[1], variable[0]), text)


def play(desk: Desk, job: Mapping[str, Any], index: int, secret: Mapping[str, str]) -> Done:
    """Run a pod of an Indexed Job as its manifest says; secret: variables of all Secrets that it names."""
    spec = job["spec"]["template"]["spec"]
    [container], user = spec["containers"], spec["securityContext"]["runAsUser"]
    variables = dict(secret) if "envFrom" in container else {}
    for row in container["env"]:
        variables[row["name"]] = expand(row["value"], variables) if "value" in row else str(index)
    variables.setdefault("JOB_COMPLETION_INDEX", str(index))
    options = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    for mount in container["volumeMounts"]:
        source = {"storage": f"results{desk.ending}", "scripts": str(desk.place / "scripts")}.get(mount["name"])
        options += ["--volume", f"{source}:{mount['mountPath']}"] if source else ["--tmpfs", mount["mountPath"]]
    words = [expand(argument, variables) for argument in container["args"]]
    command = ["docker", "run", "--rm", "--read-only", "--user", f"{user}:0", *options, desk.image, *words]
    return call(command, seconds=180)


@contextmanager
def serve_s3(place: Path) -> Iterator[int]:
    """Serve S3 on a free port of this machine, with a bucket."""
    call(["uv", "venv", "--quiet", "--python", sys.executable, str(place)])
    assert call(["uv", "pip", "install", "--quiet", "--python", f"{place}/bin/python", MOTO]).code == 0
    server = Started([f"{place}/bin/moto_server", "-H", "0.0.0.0", "-p", "0"])
    try:
        assert server.said("Running on http", 60), server.text
        port = int(re.findall(r"Running on http://127\.0\.0\.1:(\d+)", server.text)[0])
        request = urllib.request.Request(f"http://127.0.0.1:{port}/models", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()
        yield port
    finally:
        server.end()


def find_bridge() -> str:
    """Return the address of this machine for containers of no network that was made; not each engine names it."""
    form = "{{(index .IPAM.Config 0).Subnet}}"
    return str(ip_network(call(["docker", "network", "inspect", "--format", form, "bridge"]).out.strip())[1])


def list_bucket(port: int) -> set[str]:
    """List the names of the objects in the bucket."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/models?list-type=2", timeout=30) as answer:
        return {*re.findall(r"<Key>([^<]+)</Key>", answer.read().decode())}


def test_a_team_gets_a_quota_claims_and_a_runtime_for_its_jobs(desk: Desk) -> None:
    desk.type_all("A quota and claims")
    desk.type_all("One runtime")

    runtime, job = desk.kept("ClusterTrainingRuntime-multinode-1"), desk.kept("TrainJob-mine")
    assert list_flaws(runtime) == list_flaws(job) == []
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"}
    named = {*re.findall(r"claimName: (\S+)", yaml.safe_dump_all([runtime, job]))}
    kept = {path.stem.removeprefix("PersistentVolumeClaim-") for path in (desk.place / "objects").glob("Persist*")}
    assert named == kept == {"results", "corpus"}
    jsonschema.validate(job, schema("TrainJob"))


def test_a_new_image_is_another_runtime_and_the_same_lines_give_the_same_digest(desk: Desk) -> None:
    desk.type_all("One runtime")

    for typed in (read_section("One image")[1], read_section("One runtime")[0]):
        desk.type(replace(typed, text=re.sub("(multinode[:-])1", r"\g<1>2", typed.text)))
    desk.type_all("A new image")

    assert digest(manifest(f"{desk.registry}/multinode:2") or b"") == f"sha256:{desk.digits}"
    runtimes = {path.stem for path in (desk.place / "objects").glob("ClusterTrainingRuntime-*")}
    assert runtimes == {"ClusterTrainingRuntime-multinode-2"}


def test_a_spot_node_that_goes_costs_no_step(desk: Desk) -> None:
    printed, *commands = read_section("Spot nodes")
    desk.type(printed)
    spot = desk.kept("Job-spot")["spec"]["template"]["spec"]
    assert spot["tolerations"] == [{"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]
    pods = [desk.container(name) for name in ("pod0", "pod1")]

    for command in commands:
        if command.text.startswith("docker stop"):
            assert all(pod.said("begins at step 0") for pod in pods)
        if command.text.startswith("docker logs"):
            assert wait_for(lambda: all(pod.log.count("begins at step") == 2 for pod in pods), 90)
        desk.type(command)

    [step] = re.findall(r"saved at step (\d+);", pods[0].log)
    assert f"goes on from /workspace/output/checkpoint-{step}\n" in pods[0].log
    assert all(f"begins at step {step}\n" in pod.log for pod in pods)
    call(["docker", "rm", "--force", *(pod.name for pod in pods)])


def test_results_are_watched_and_copied(desk: Desk) -> None:
    train, shown, board, *in_cluster = read_section("Watch it")
    desk.type(train)
    assert "offline-run-" in desk.type(shown).out
    desk.type(board)
    container = desk.container("board")
    place = call(["docker", "port", container.name, "6006"]).out.splitlines()[0]

    def runs() -> list[str]:
        try:
            with urllib.request.urlopen(f"http://{place}/data/runs", timeout=10) as answer:
                return list(json.load(answer))
        except OSError:
            return []

    assert wait_for(lambda: any(name.startswith("watched/runs/") for name in runs()), 60)
    for typed in in_cluster:
        desk.type(typed)
    assert (
        "tensorboard" in desk.kept(f"Job-board{desk.ending}")["spec"]["template"]["spec"]["containers"][0]["args"][-1]
    )
    with serve_s3(desk.place / "moto") as port:
        endpoint = {"AWS_ENDPOINT_URL": f"http://{find_bridge()}:{port}"}
        variables = {**KEYS, **endpoint}
        (desk.place / "s3.env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        desk.type_all("Results to S3")
        done = play(desk, desk.kept("Job-upload"), 0, variables)

        assert done.code == 0
        keys = list_bucket(port)
    assert {"watched/trainer_state.json", "again/trainer_state.json"} <= keys
    assert not any(name.startswith("watched/checkpoint-") for name in keys)
    assert any(name.startswith("again/checkpoint-20/") for name in keys)


def test_each_pod_of_a_sweep_trains_with_a_rate_of_its_own(desk: Desk) -> None:
    desk.type_all("A sweep")
    scripts = desk.kept("ConfigMap-sweep-scripts")["data"]
    (desk.place / "scripts").mkdir()
    for name, text in scripts.items():
        (desk.place / "scripts" / name).write_text(text)

    ends = [play(desk, desk.kept("Job-sweep"), index, {}) for index in range(3)]

    assert [end.code for end in ends] == [0, 0, 0]
    mounted = ("--volume", f"results{desk.ending}:/workspace/output")
    read = ["docker", "run", "--rm", *mounted, "--entrypoint", "cat", desk.image]
    states = [
        json.loads(call([*read, f"/workspace/output/sweep/{index}/trainer_state.json"]).out) for index in range(3)
    ]
    rates = [state["log_history"][0]["learning_rate"] for state in states]
    assert rates[0] * 10 == pytest.approx(rates[1]) and rates[1] * 10 == pytest.approx(rates[2])
