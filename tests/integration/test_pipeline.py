"""The steps of action.yml and of the job for GitLab, as they stand: as nobody, with an empty home, to a registry."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.harness import ROOT, call
from tests.support.programs import needs
from tests.support.registry import PASSWORD, manifest, running

pytestmark = [needs("docker-registry", "skopeo", "git"), pytest.mark.slow]
NOBODY = 65534
PARTS = ("build.py", "pyproject.toml", "README.md", "multinode_image", "images", "scripts")
# What a machine has to say of its network; all other variables are those of the pipeline.
NETWORK = re.compile(r"(?i)(PIP|UV|MULTINODE_DEBIAN)_.*|.*_PROXY|SSL_CERT_.*|REQUESTS_CA_BUNDLE")
# The registry of the test speaks HTTP, which skopeo wants to be told; build.py does so.
PLAIN = """#!/bin/sh
[ "$1" != login ] || { shift; set -- login --tls-verify=false "$@"; }
exec /usr/bin/skopeo "$@"
"""
EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")


class Runner(NamedTuple):
    """Where a pipeline runs: its directory, what belongs to nobody there, and its variables."""

    place: Path
    environ: Mapping[str, str]

    def run(self, lines: str, environ: Mapping[str, str]) -> str:
        """Run lines of shell as a runner does; return what they print."""
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines],
            cwd=self.place / "project", env={**self.environ, **environ}, capture_output=True, text=True,
            timeout=900, check=False, user=NOBODY, group=NOBODY, extra_groups=[],
        )  # fmt: skip
        print(f"{done.stdout}{done.stderr}[exit code {done.returncode}]")
        assert done.returncode == 0
        return done.stdout


def give(place: Path) -> None:
    """Let a directory and what is in it belong to nobody."""
    for path in (place, *place.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@pytest.fixture(scope="module")
def registry(module_path: Path) -> Iterator[str]:
    with running(module_path / "registry", locked=True) as host:
        yield host


@pytest.fixture(scope="module")
def runner(module_path: Path) -> Runner:
    """Lend what a runner has: a project, a clone of multinode, and an empty home."""
    if os.getuid():
        pytest.skip("needs root to become nobody")
    source = module_path / "source"
    for name in ("home", "temporary", "project", "bin"):
        (module_path / name).mkdir()
    (module_path / "bin/skopeo").write_text(PLAIN)
    (module_path / "bin/skopeo").chmod(0o755)
    (module_path / "project/train.py").write_text("print(1)\n")
    (module_path / "project/requirements.txt").write_text("sentencepiece\n")
    source.mkdir()
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    give(module_path)
    fixed = {name: value for name, value in os.environ.items() if NETWORK.fullmatch(name)}
    home = {"HOME": str(module_path / "home"), "PATH": f"{module_path}/bin:/usr/bin:/bin"}
    return Runner(module_path, {**fixed, **home})


def is_pushed(registry: str, image: str) -> bool:
    """Return whether an image is in the registry under its digest, with an SBOM that names what is in it."""
    login = ("--creds", f"user:{PASSWORD}")
    return manifest(image, *login) is not None and image.startswith(registry)


@pytest.fixture(scope="module")
def action(runner: Runner) -> Any:
    """Return a function that runs the shell steps of action.yml, and returns its outputs."""
    described = yaml.safe_load((ROOT / "action.yml").read_text())

    def run(**inputs: str) -> dict[str, str]:
        given = {name: one.get("default", "") for name, one in described["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        known = {f"inputs.{name}": value for name, value in given.items()}
        known |= {"github.action_path": str(runner.place / "source"), "github.actor": "user"}

        def fill(expression: re.Match[str]) -> str:
            # The name of the user, where nobody types another, is an expression itself.
            return EXPRESSION.sub(fill, known[expression[1]])

        outputs = runner.place / "temporary/outputs"
        outputs.write_text("")
        os.chown(outputs, NOBODY, NOBODY)
        usual = {"RUNNER_TEMP": str(runner.place / "temporary"), "GITHUB_OUTPUT": str(outputs)}
        for step in described["runs"]["steps"]:
            if "run" in step:
                assert "${{" not in step["run"], "a value of others would be read as shell"
                environ = {name: EXPRESSION.sub(fill, text) for name, text in step["env"].items()}
                runner.run(step["run"], {**usual, **environ})
        return dict(line.split("=", 1) for line in outputs.read_text().splitlines())

    return run


@pytest.fixture(scope="module")
def pushed(action: Any, registry: str) -> dict[str, str]:
    """Push an image of a script, as of a day."""
    outputs: dict[str, str] = action(script="train.py\n", push=f"{registry}/team/training:1", password=PASSWORD)
    return outputs


def test_the_action_pushes_and_says_what(pushed: dict[str, str], runner: Runner, registry: str) -> None:
    assert pushed["name"] == f"{registry}/team/training" and is_pushed(registry, pushed["image"])
    assert pushed["image"] == f"{pushed['name']}@{pushed['digest']}"
    bill = json.loads((runner.place / "temporary/multinode/sbom.cdx.json").read_text())
    assert "torch" in {part["name"] for part in bill["components"]}


def test_a_renewed_lock_builds_without_a_login(pushed: dict[str, str], action: Any, runner: Runner) -> None:
    assert action(requirements="requirements.txt", renew="pylock.toml") == {}
    lock = runner.place / "project/pylock.toml"
    assert "sentencepiece" in lock.read_text()

    assert "image" in pushed and (runner.place / "home/.cache/multinode").is_dir()


def test_the_job_of_gitlab_pushes_the_image_of_the_lock(
    pushed: dict[str, str], action: Any, runner: Runner, registry: str
) -> None:
    job = yaml.safe_load((ROOT / "examples/gitlab-ci.yml").read_text())["multinode-image"]
    project, source = runner.place / "project", runner.place / "source"
    if not (project / "pylock.toml").exists():
        action(requirements="requirements.txt", renew="pylock.toml")
    tag = ("git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@example")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "x"), ("tag", job["variables"]["MULTINODE_TAG"])):
        assert call([*tag, "-c", f"safe.directory={source}", *words]).code == 0
    give(source)
    known = {
        "CI_PROJECT_DIR": str(project),
        "CI_REGISTRY_IMAGE": f"{registry}/group/project",
        "CI_COMMIT_SHORT_SHA": "0123abcd",
        "CI_REGISTRY_USER": "user",
        "CI_REGISTRY_PASSWORD": PASSWORD,
    }
    values = {**job["variables"], "MULTINODE_SOURCE": f"file://{source}"}
    environ = {
        name: re.sub(r"\$(CI_\w+)", lambda variable: known[variable[1]], value) for name, value in values.items()
    }
    shutil.copytree(runner.place / "home/.cache", project / ".cache", symlinks=True)  # what the runner has kept
    give(project / ".cache")

    runner.run("\n".join(job["script"]), {**known, **environ})

    name, _, image = (project / ".multinode/image.env").read_text().strip().partition("=")
    assert name == "IMAGE" and image.startswith(f"{registry}/group/project/multinode@") and is_pushed(registry, image)
