"""Manifests as scripts/manifest.py prints them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import yaml

from manifests import cli
from manifests.kinds import KINDS as ROWS
from manifests.options import Parser, add_options, make_parser
from tests.support.admission import identify, list_flaws

IMAGE = f"registry.example/multinode@sha256:{'0' * 64}"
SIZES = ("--cpu", "8", "--memory", "16Gi")
KINDS = tuple(ROWS)
# Reads the same as SafeLoader, ten times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
JOBS = tuple(name for name, kind in ROWS.items() if kind.is_job)


class Printed(NamedTuple):
    """What a command line of scripts/manifest.py ended with."""

    code: int
    out: str
    err: str

    @property
    def manifest(self) -> dict[str, Any]:
        """Return the manifest of the job; fail where there is none, or one that its operator would refuse."""
        last = self.objects[-1]
        assert list_flaws(last) == []
        return last

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Return all that is printed."""
        assert self.code == 0, self.err
        return list(yaml.load_all(self.out, LOADER))


# A command line makes it once, a test session too.
read_parser = cache(make_parser)


def run(*words: str) -> Printed:
    """Return what a command line prints."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch("manifests.cli.make_parser", read_parser):
        code = cli.main(words, out, err)
    return Printed(code, out.getvalue(), err.getvalue())


def write(kind: str, *words: str) -> Printed:
    """Return a manifest of a kind, with an image and sizes where it needs them."""
    row = ROWS[kind]
    needed = [*(("--image", IMAGE) if row.has_pods else ()), *(SIZES if row.trains else ())]
    return run(kind, *needed, *words)


def list_options(kind: str) -> list[str]:
    """List the options that a kind has."""
    parser = Parser(add_help=False)
    add_options(parser, ROWS[kind])
    return [action.option_strings[0] for action in parser._actions]


def list_containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """List the containers of all pods in a manifest; what a TrainJob says of its own is among them."""
    containers = [container for pod in list_pods(manifest) for container in pod["containers"]]
    return [{**one, **manifest["spec"].get("trainer", {})} for one in containers]


def list_pods(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """List the specifications of the pods in a manifest, of whichever kind."""
    return [template["spec"] for template in list_templates(manifest)]


def list_templates(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """List the templates of the pods in a manifest, of whichever kind."""
    name = identify(manifest)
    assert name in LAYOUTS, f"LAYOUTS of tests/support/manifests.py has no row of {name}"
    return LAYOUTS[name](manifest["spec"])


def list_replicated(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """List the templates of the pods of a JobSet."""
    return [job["template"]["spec"]["template"] for job in spec["template"]["spec"]["replicatedJobs"]]


# Where the specification of a kind has the templates of its pods.
LAYOUTS: Mapping[str, Callable[[dict[str, Any]], list[dict[str, Any]]]] = {
    "PyTorchJob.kubeflow.org": lambda spec: [replica["template"] for replica in spec["pytorchReplicaSpecs"].values()],
    "MPIJob.kubeflow.org": lambda spec: [replica["template"] for replica in spec["mpiReplicaSpecs"].values()],
    "TrainJob.trainer.kubeflow.org": lambda spec: list_replicated(spec["runtimePatches"][0]["trainingRuntimeSpec"]),
    "ClusterTrainingRuntime.trainer.kubeflow.org": list_replicated,
    "Job.batch": lambda spec: [spec["template"]],
}
