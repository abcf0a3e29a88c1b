"""What a manifest is asked for, as the numbers and the variables that its pods have."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from manifests.request import Pod, Shape

POD = Pod(
    image="a", cpu="1500m", memory="4Gi", shm=None, claim="c", mount="/data", selector={}, tolerations=(),
    variables={}, token=None, uid=1000,
)  # fmt: skip


@pytest.mark.parametrize(("shape", "cpus"), [(Shape(2, 56, 2), 224), (Shape(1, 4, 1), 4)])
def test_kubernetes_counts_threads(shape: Shape, cpus: int) -> None:
    assert shape.cpus == cpus


def test_sizes_are_numbers() -> None:
    assert (POD.cpus, POD.memory_bytes) == (Fraction(3, 2), 4 << 30)


@pytest.mark.parametrize(
    ("shm", "shared", "memory"), [(None, 0, 4 << 30), ("1Gi", 1 << 30, 3 << 30), ("1G", 10**9, (4 << 30) - 10**9)]
)
def test_what_is_in_shared_memory_is_memory_of_the_pod(shm: str | None, shared: int, memory: int) -> None:
    pod = replace(POD, shm=shm)

    assert (pod.shared_bytes, pod.memory_bytes) == (shared, memory)


@pytest.mark.parametrize(
    ("variables", "listed", "environ"),
    [
        ({}, [("HF_HOME", "/data/huggingface")], {"HF_HOME": "/data/huggingface"}),
        ({"A": "1"}, [("HF_HOME", "/data/huggingface"), ("A", "1")], {"HF_HOME": "/data/huggingface", "A": "1"}),
        (
            {"BASE": "/data/x", "HF_HOME": "$(BASE)/hub"}, [("BASE", "/data/x"), ("HF_HOME", "$(BASE)/hub")],
            {"BASE": "/data/x", "HF_HOME": "/data/x/hub"},
        ),
        (
            {"A": "$(HF_HOME)/a"}, [("HF_HOME", "/data/huggingface"), ("A", "$(HF_HOME)/a")],
            {"HF_HOME": "/data/huggingface", "A": "/data/huggingface/a"},
        ),
    ],
)  # fmt: skip
def test_downloads_go_to_the_claim_unless_the_user_says_where(
    variables: dict[str, str], listed: list[tuple[str, str]], environ: dict[str, str]
) -> None:
    pod = replace(POD, variables=variables)

    assert [*pod.listed.items()] == listed
    assert pod.environ == environ
