"""Kubeflow's custom resource definitions, as schemas that refuse unknown fields."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import utils

from tests.support.harness import ROOT

# Definitions of the releases that the pages speak of; they are not part of this repository.
DEFINITIONS = Path(os.environ.get("MULTINODE_CRDS", ROOT.parent / "shared" / "crds"))
FILES = {
    "PyTorchJob": "kubeflow.org_pytorchjobs.v1.9.0.yaml",
    "MPIJob": "kubeflow.org_mpijobs.v2beta1.yaml",
    "TrainJob": "trainer.kubeflow.org_trainjobs.v2.3.0.yaml",
    "ClusterTrainingRuntime": "trainer.kubeflow.org_clustertrainingruntimes.v2.3.0.yaml",
}


@cache
def schema(kind: str) -> dict[str, Any]:
    """Read the schema of a kind, and let it refuse fields that it does not have."""
    assert kind in FILES, f"FILES of tests/support/definitions.py has no definition of {kind}"
    path = DEFINITIONS / FILES[kind]
    if not path.is_file():
        pytest.skip(f"NOT VALIDATED: {path} is absent; MULTINODE_CRDS names the directory with Kubeflow's definitions")
    definition = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    known: dict[str, Any] = strict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    return known


@cache
def validator(kind: str) -> Any:
    """Return what validates manifests of a kind; the schema itself is not looked at each time, as by validate()."""
    known = schema(kind)
    return jsonschema.validators.validator_for(known)(known)


def strict(node: Any) -> Any:
    """Refuse unknown fields wherever a schema lists the known ones, as `kubectl --validate=strict` does."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = isinstance(node.get("properties"), dict) and not node.get("x-kubernetes-preserve-unknown-fields")
    open_metadata = node.get("type") == "object" and "properties" not in node
    inner = {key: strict(value) for key, value in node.items()}
    return {**inner, "additionalProperties": False} if closed and not open_metadata else inner


RELEASE = "1.37"
read_contents = cache(utils.schema_contents)


def require_known(item: Mapping[str, Any]) -> None:
    """Fail for what this release of Kubernetes does not take of its own kinds; their schemas are read only once."""
    with mock.patch.object(utils, "schema_contents", read_contents):
        kubernetes_validate.validate(item, RELEASE, strict=True)
