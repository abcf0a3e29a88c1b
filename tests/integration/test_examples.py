"""The files of examples/ in what reads them: SkyPilot's own parser, and kubectl."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.harness import ROOT, call
from tests.support.programs import needs

SKYPILOT = "skypilot==0.14.1"
PARSE = """
import json, sys, sky
task = sky.Task.from_yaml(sys.argv[1])
print(json.dumps([task.num_nodes, task.run, sorted(task.file_mounts or ()), sorted(task.storage_mounts), task.envs]))
"""


@pytest.mark.slow
def test_skypilot_reads_its_task(module_path: Path) -> None:
    """In an environment of its own: it wants other releases of what the tests stand on."""
    python = module_path / "sky/bin/python"
    assert call([sys.executable, "-m", "venv", str(module_path / "sky")]).code == 0
    installed = call([str(python), "-m", "pip", "install", "--quiet", "--no-compile", SKYPILOT], seconds=600)
    if installed.code:
        pytest.skip(f"{SKYPILOT} cannot be installed here: {installed.err.strip().splitlines()[-1]}")
    file = ROOT / "examples/sky.yaml"
    environ = {**os.environ, "HOME": str(module_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}

    done = call([str(python), "-c", PARSE, str(file)], env=environ)

    written = yaml.safe_load(file.read_text())
    assert done.code == 0
    nodes, run, _, mounts, variables = yaml.safe_load(done.out.splitlines()[-1])
    assert (nodes, run, variables) == (written["num_nodes"], written["run"], written["envs"])
    assert mounts == [*written["file_mounts"]]


@needs("kubectl")
def test_kubectl_makes_what_a_team_applies() -> None:
    done = call(["kubectl", "kustomize", str(ROOT / "examples/kustomize/team")])

    objects = [*yaml.safe_load_all(done.out)]
    (job,) = [manifest for manifest in objects if manifest["kind"] == "Job"]
    (node,) = job["spec"]["template"]["spec"]["containers"]
    assert done.code == 0 and {manifest["metadata"]["namespace"] for manifest in objects} == {"training"}
    assert "@sha256:" in node["image"] and node["resources"]["limits"]["cpu"] == "32"
    assert {"name": "MULTINODE_METRICS", "value": "9400"} in node["env"]
