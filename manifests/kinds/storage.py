"""The claim that all pods mount, and the Job that fetches what a task needs into it, once."""

from __future__ import annotations

from typing import Any

from entrypoint.errors import USER
from entrypoint.tasks import job as jobs
from manifests.pod import write_container, write_metadata, write_pod, write_template
from manifests.request import Claim, Job

PREFETCH = "prefetch"
RETRIES = 3  # a hub that is busy, or a pod that is moved
# A mistake, as a token without access, is not tried again: spec.podFailurePolicy of batch/v1, since Kubernetes 1.26.
MISTAKES = {"containerName": PREFETCH, "operator": "In", "values": [USER]}


def write_claim(claim: Claim) -> dict[str, Any]:
    """Return the manifest of a PersistentVolumeClaim."""
    place = {"namespace": claim.namespace} if claim.namespace else {}
    provider = {"storageClassName": claim.storage_class} if claim.storage_class else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim.name, **place},
        "spec": {**provider, "accessModes": [claim.access], "resources": {"requests": {"storage": claim.size}}},
    }


def write_prefetch(job: Job) -> dict[str, Any]:
    """Return the manifest of a Job whose pod runs `prefetch` with the HF_HOME of the pods that train."""
    container = write_container(PREFETCH, job.pod, [jobs.PREFETCH, *job.words])
    pod = write_pod(job.pod, container, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": write_metadata(job),
        "spec": {
            "backoffLimit": RETRIES,
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": MISTAKES}]},
            "template": write_template(pod),
        },
    }
