"""What a job runs, and where its results and its downloads go."""

from __future__ import annotations

import pytest

from tests.support.manifests import list_pods, write


@pytest.mark.parametrize(
    ("kind", "typed", "args"),
    [
        ("pytorchjob", "--name mine", "qa --bf16 --output_dir /workspace/output/mine"),
        ("trainjob", "--name mine --mount /data glue", "glue --output_dir /data/mine"),
        ("mpijob", "qa-no-trainer", "qa-no-trainer --output_dir /workspace/output/transformers-mpijob"),
        ("pytorchjob", "qa --output-dir=/workspace/output", "qa --output-dir=/workspace/output"),
        ("pytorchjob", "qa --output_d /workspace/output/a", "qa --output_d /workspace/output/a"),
        ("pytorchjob", "qa args.json", "qa args.json"),
        ("pytorchjob", "generation", "generation"),
        ("pytorchjob", "smoke", "smoke"),
        ("pytorchjob", "train.py", "train.py"),
        ("pytorchjob", "python3 train.py", "python3 train.py"),
        ("mpijob", "python_train.py --bf16", "python_train.py --bf16"),
        ("mpijob", "bash -c hostname", "bash -c hostname"),
        ("runtime", "--name mine", "qa --bf16"),
        ("prefetch", "--name mine", "prefetch qa"),
    ],
)
def test_results_go_to_a_directory_of_the_jobs_name(kind: str, typed: str, args: str) -> None:
    manifest = write(kind, *typed.split()).manifest
    trainer = manifest["spec"].get("trainer") or list_pods(manifest)[0]["containers"][0]

    assert trainer["args"] == args.split()


def test_downloads_may_go_anywhere_on_the_claim() -> None:
    words = ("--mount", "/data", "--env", "HF_HOME=/data/hub", "--env", "TRANSFORMERS_CACHE=/data")

    assert write("prefetch", *words).code == 0
