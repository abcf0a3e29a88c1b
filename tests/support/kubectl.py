#!/usr/bin/env python3
"""A stand-in for kubectl: it checks objects by their schemas, keeps them in a directory, and knows what is there.

It is a program: the directory is in KUBECTL_OBJECTS, with a file for each object, `KIND-NAME.yaml`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import kubernetes_validate
import yaml

RELEASE = "1.37"
KINDS = {"trainjob": "TrainJob", "job": "Job", "pvc": "PersistentVolumeClaim", "namespace": "Namespace",
         "secret": "Secret", "clustertrainingruntime": "ClusterTrainingRuntime"}  # fmt: skip
NAMED = re.compile(rf"\b({'|'.join(KINDS)})(?:/| )([a-z0-9][a-z0-9-]*)")
# What is named behind these has to be there.
ASKS = ("wait", "logs", "port-forward", "delete", "get")


def apply(text: str, objects: Path) -> None:
    """Check and keep the objects of a stream of YAML."""
    for manifest in yaml.safe_load_all(text):
        if "." not in manifest["apiVersion"]:  # Kubernetes' own
            kubernetes_validate.validate(manifest, RELEASE, strict=True)
        name = f"{manifest['kind']}-{manifest['metadata']['name']}"
        (objects / f"{name}.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
        print(f"{name} created")


def main(words: Sequence[str], objects: Path) -> int:
    """Do what a command line asks for; return the exit code."""
    verb, line = words[0], " ".join(words[1:])
    if verb == "apply":
        apply(sys.stdin.read() if words[2] == "-" else Path(words[2]).read_text(), objects)
        return 0
    named = [f"{KINDS[kind]}-{name}" for kind, name in NAMED.findall(line.replace("secret generic", "secret"))]
    if verb == "create":
        (objects / f"{named[0]}.yaml").write_text(line)
        return 0
    lacking = [name for name in named if not (objects / f"{name}.yaml").exists()]
    if verb not in ASKS or not named or lacking:
        print(f"kubectl {verb}: {' '.join(lacking) or line}", file=sys.stderr)
        return 1
    if verb == "delete":
        (objects / f"{named[0]}.yaml").unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(os.environ["KUBECTL_OBJECTS"])))
