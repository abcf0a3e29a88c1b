"""The claim that all pods mount, and the Job that fetches what a task needs into it, once."""

from __future__ import annotations

from typing import Any

from manifests.pod import write_container, write_limits, write_metadata, write_template
from manifests.request import ManifestKind, Request, drop_empty
from multinode_image.tasks.command import PREFETCH

RETRIES = 3  # a hub that is busy, or a pod that is moved


def write_claim(request: Request) -> dict[str, Any]:
    """Return the manifest of a PersistentVolumeClaim."""
    size = {"requests": {"storage": request.size}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": write_metadata(request),
        "spec": drop_empty(storageClassName=request.storage_class, accessModes=["ReadWriteMany"], resources=size),
    }


def write_prefetch(request: Request) -> dict[str, Any]:
    """Return the manifest of a Job whose pod runs `prefetch` with the HF_HOME of the pods that train."""
    container = write_container(PREFETCH.name, request, [PREFETCH.name, *request.words])
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": write_metadata(request),
        "spec": {
            **write_limits(request, backoffLimit=RETRIES),
            "template": write_template(request, container, restartPolicy="Never"),
        },
    }


CLAIM = ManifestKind(
    "pvc",
    "a claim for storage",
    write_claim,
    has_pods=False,
    trains=False,
    is_job=False,
    runs=False,
    options=("--namespace", "--size", "--storage-class"),
)
FETCH = ManifestKind(
    PREFETCH.name,
    "a Job that fetches model and data of a task into the claim, once",
    write_prefetch,
    trains=False,
    is_job=False,
)
