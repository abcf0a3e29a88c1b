"""Manifests of the pages, and the guide's with ours in its place."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import Shown, pages
from tests.support.manifests import list_pods, run

PROGRAM = "python scripts/manifest.py "
SHOWN = [shown for document in pages() for shown in document.shown if shown.text.startswith(PROGRAM)]


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in a directory with the scripts that the pages speak of."""
    for name in ("train.py", "sweep.py"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


def read_typed(shown: Shown) -> list[str]:
    """Return the words of a command, without what reads its output."""
    return shlex.split(re.split(" [|>] ", shown.text.removeprefix(PROGRAM))[0])


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.place)
def test_a_command_of_a_page_prints_a_manifest(shown: Shown) -> None:
    printed = run(*(word.replace("<DIGEST>", "0" * 64) for word in read_typed(shown)))

    assert printed.manifest["kind"]
    assert shown.output is None or printed.err.strip() == shown.output.strip()


@pytest.mark.parametrize("shown", [one for one in SHOWN if "<DIGEST>" in one.text], ids=lambda shown: shown.place)
def test_what_stands_in_the_place_of_a_digest_is_refused(shown: Shown) -> None:
    printed = run(*read_typed(shown))

    assert (printed.code, printed.out) == (2, "")
    assert "that is not a digest" in printed.err and "\n  try: --image registry.example/multinode" in printed.err


@pytest.mark.parametrize("shown", [one for one in SHOWN if " --script " in one.text], ids=lambda shown: shown.place)
def test_a_page_types_the_script_that_pods_run(shown: Shown) -> None:
    words = read_typed(shown)

    assert words[words.index("--script") + 1] in words[words.index("--script") + 2 :]


ELASTIC = {"rdzvBackend": "c10d", "minReplicas": 1, "maxReplicas": 4, "maxRestarts": 10}
CACHES = {
    "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9:/usr/local/lib/libiomp5.so",
    "TRANSFORMERS_CACHE": "/tmp/pvc-mount/transformers_cache",
    "HF_DATASETS_CACHE": "/tmp/pvc-mount/hf_datasets_cache",
    "LOGLEVEL": "INFO",
    "CCL_WORKER_COUNT": "1",
}
# Arguments of run_qa.py behind the model, in both.
SQUAD = (
    "--dataset_name squad --do_train --do_eval --per_device_train_batch_size 12 --learning_rate 3e-5 "
    "--num_train_epochs 2 --max_seq_length 384 --doc_stride 128"
)
OLD = f"--model_name_or_path bert-large-uncased {SQUAD} --output_dir /tmp/pvc-mount/output --no_cuda"
OLD += " --ddp_backend ccl --use_ipex --bf16"
NEW = f"--model_name_or_path distilbert/distilbert-base-uncased {SQUAD} --output_dir /tmp/pvc-mount/output --no_cuda"
NEW += " --ddp_backend ccl --bf16"

# Fields that matter, by job: what the guide has there.
GUIDE: dict[str, dict[str, Any]] = {
    "many CPUs": {
        "namespace": None,
        "cpu": "240",
        "nodeSelector": {"node-type": "gnr"},
        "env": {**CACHES, "OMP_NUM_THREADS": "240"},
        "args": NEW.split(),
    },
    "many CPUs, its first version": {
        "namespace": "kubeflow",
        "cpu": "200",
        "nodeSelector": {"node-type": "spr"},
        "env": CACHES,
        "args": OLD.split(),
    },
}


def command(asked: dict[str, Any]) -> list[str]:
    """Return the one command that prints such a job."""
    words = ["pytorchjob", "--image", "image:tag", "--mount", "/tmp/pvc-mount"]
    words += ["--namespace", asked["namespace"]] if asked["namespace"] else []
    words += ["--cpu", asked["cpu"], "--memory", "128Gi"]
    words += [word for name, value in asked["nodeSelector"].items() for word in ("--node-selector", f"{name}={value}")]
    words += [word for name, value in asked["env"].items() for word in ("--env", f"{name}={value}")]
    return [*words, "qa", *asked["args"]]


@pytest.mark.parametrize("asked", GUIDE.values(), ids=list(GUIDE))
def test_one_command_gives_the_job_of_the_guide(asked: dict[str, Any]) -> None:
    manifest = run(*command(asked)).manifest
    [pod] = list_pods(manifest)
    [container] = pod["containers"]
    replicas = manifest["spec"]["pytorchReplicaSpecs"]
    size = {"cpu": asked["cpu"], "memory": "128Gi"}

    assert (manifest["apiVersion"], manifest["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    assert manifest["metadata"]["name"] == "transformers-pytorchjob"
    assert manifest["metadata"].get("namespace") == asked["namespace"]
    assert manifest["spec"]["elasticPolicy"] == ELASTIC
    assert list(replicas) == ["Worker"]
    assert (replicas["Worker"]["replicas"], replicas["Worker"]["restartPolicy"]) == (4, "OnFailure")
    assert (container["name"], container["imagePullPolicy"]) == ("pytorch", "IfNotPresent")
    assert container["args"] == ["qa", *asked["args"]]
    variables = {row["name"]: row["value"] for row in container["env"]}
    assert {name: variables.get(name) for name in asked["env"]} == asked["env"]
    assert container["resources"] == {"requests": size, "limits": size}
    assert pod["nodeSelector"] == asked["nodeSelector"]
    places = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}
    assert volumes[places["/tmp/pvc-mount"]] == {"persistentVolumeClaim": {"claimName": "transformers-pvc"}}
    assert volumes[places["/dev/shm"]] == {"emptyDir": {"medium": "Memory"}}


def test_one_command_gives_the_claim_of_the_guide() -> None:
    assert run("pvc", "--namespace", "kubeflow", "--storage-class", "nfs-client").manifest == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "transformers-pvc", "namespace": "kubeflow"},
        "spec": {
            "storageClassName": "nfs-client",
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "30Gi"}},
        },
    }
