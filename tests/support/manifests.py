"""Manifests as scripts/manifest.py prints them."""

from __future__ import annotations

import copy
import io
from typing import Any, NamedTuple

import yaml

from manifests import cli
from tests.support.admission import list_flaws

IMAGE = f"registry.example/multinode@sha256:{'0' * 64}"
SIZES = ("--cpu", "8", "--memory", "16Gi")
JOBS = ("pytorchjob", "trainjob", "mpijob")


class Printed(NamedTuple):
    """What a command line of scripts/manifest.py ended with."""

    code: int
    out: str
    err: str

    @property
    def manifest(self) -> dict[str, Any]:
        """Return the manifest; fail where there is none, or one that its operator would refuse."""
        assert self.code == 0, self.err
        found: dict[str, Any] = yaml.safe_load(self.out)
        assert list_flaws(found) == []
        return found


def run(*words: str) -> Printed:
    """Return what a command line prints."""
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(words, out, err)
    return Printed(code, out.getvalue(), err.getvalue())


def write(kind: str, *words: str) -> Printed:
    """Return a manifest of a kind, with an image and sizes where it needs them."""
    needed = {"pvc": (), "prefetch": ("--image", IMAGE)}.get(kind, ("--image", IMAGE, *SIZES))
    return run(kind, *needed, *words)


def list_pods(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """List the specifications of the pods in a manifest, of whichever kind."""
    return [template["spec"] for template in list_templates(manifest)]


def list_templates(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """List the templates of the pods in a manifest, of whichever kind."""
    spec = manifest["spec"]
    for name in ("pytorchReplicaSpecs", "mpiReplicaSpecs"):
        if name in spec:
            return [replica["template"] for replica in spec[name].values()]
    if manifest["kind"] == "TrainJob":
        jobs = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    elif manifest["kind"] == "ClusterTrainingRuntime":
        jobs = spec["template"]["spec"]["replicatedJobs"]
    else:
        return [spec["template"]]
    return [job["template"]["spec"]["template"] for job in jobs]


def change(manifest: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    """Return a manifest with another value at a path; None takes it away."""
    changed = copy.deepcopy(manifest)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return changed
