"""The claim that all pods mount, and the Job that fills it."""

from __future__ import annotations

import pytest

from manifests.kinds.storage import write_claim
from manifests.request import Claim
from tests.support.manifests import write


@pytest.mark.parametrize(
    ("claim", "metadata", "spec"),
    [
        (Claim("a", None, "1Gi", None, "ReadWriteMany"), {"name": "a"}, {}),
        (
            Claim("a", "b", "1Gi", "nfs", "ReadWriteMany"), {"name": "a", "namespace": "b"},
            {"storageClassName": "nfs"},
        ),
    ],
)  # fmt: skip
def test_what_is_not_said_is_left_to_the_cluster(claim: Claim, metadata: dict[str, str], spec: dict[str, str]) -> None:
    written = write_claim(claim)

    assert written["metadata"] == metadata
    assert written["spec"] == {
        **spec, "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip


def test_a_hub_that_is_busy_is_asked_again_and_a_mistake_is_not_made_again() -> None:
    spec = write("prefetch", "glue").manifest["spec"]
    [container] = spec["template"]["spec"]["containers"]
    [rule] = spec["podFailurePolicy"]["rules"]

    assert spec["backoffLimit"] == 3
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"] == {"containerName": container["name"], "operator": "In", "values": [2]}
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # a policy for failures takes no other


def test_what_is_fetched_is_what_is_trained_with() -> None:
    [container] = write("prefetch", "glue").manifest["spec"]["template"]["spec"]["containers"]

    assert container["args"][:2] == ["prefetch", "glue"]
    assert {"name": "HF_HOME", "value": "/workspace/output/huggingface"} in container["env"]
