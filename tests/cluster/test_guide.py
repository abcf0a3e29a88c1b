"""The command lines of the Hugging Face guide as they are printed in it, for the release that they were written for.

Where the real oneCCL stack is at hand, they run with it. It is on no index that is always there: elsewhere a stand-in
has the names of Intel's bindings and carries ccl over gloo.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodes import Cluster, two_pods
from tests.support import real_ccl
from tests.support.containers import Started
from tests.support.harness import ROOT, Done, call, env_options
from tests.support.machines import find_bf16

SCRIPT = "/workspace/transformers/examples/pytorch/question-answering/run_qa.py"
SETVARS = """\
oneccl_bindings_for_pytorch_path=$(python -c "from oneccl_bindings_for_pytorch import cwd; print(cwd)")
source $oneccl_bindings_for_pytorch_path/env/setvars.sh
"""
ARGUMENTS = """\
 --model_name_or_path google-bert/bert-large-uncased \\
 --dataset_name squad \\
 --do_train \\
 --do_eval \\
 --per_device_train_batch_size 12  \\
 --learning_rate 3e-5  \\
 --num_train_epochs 2  \\
 --max_seq_length 384 \\
 --doc_stride 128  \\
 --output_dir /tmp/debug_squad/ \\
 --no_cuda \\
 --ddp_backend ccl \\
"""
MPIRUN_ON_ONE_NODE = f"""\
{SETVARS}cd {Path(SCRIPT).parent}
export CCL_WORKER_COUNT=1
export MASTER_ADDR=127.0.0.1
mpirun -n 2 -genv OMP_NUM_THREADS=23 \\
python3 run_qa.py \\
{ARGUMENTS} --use_ipex
"""
MPIRUN_ON_TWO_NODES = f"""\
{SETVARS}export CCL_WORKER_COUNT=1
export MASTER_ADDR=$(hostname -i) #node0 ip
mpirun -f hostfile -n 4 -ppn 2 \\
 -genv OMP_NUM_THREADS=23 \\
python3 run_qa.py \\
{ARGUMENTS} --use_ipex \\
 --bf16
"""
# The two shapes of a pod's command: a line of shell, and torchrun itself.
POD_SHELL = f"""\
cd /workspace/transformers;
pip install -r /workspace/transformers/examples/pytorch/question-answering/requirements.txt;
source /usr/local/lib/python3.10/dist-packages/oneccl_bindings_for_pytorch/env/setvars.sh;
torchrun {SCRIPT} \\
{ARGUMENTS.replace("/tmp/debug_squad/", "/tmp/pvc-mount/output_$(date +%Y%m%d_%H%M%S)")} --bf16;
"""
WORDS = ARGUMENTS.replace("\\", "").replace("/tmp/debug_squad/", "/tmp/pvc-mount/output").split()
POD_WORDS = ["torchrun", SCRIPT, *WORDS, "--use_ipex", "--bf16"]
# What the guide's jobs set, and what the operator adds for an elasticPolicy without rdzvId or nprocPerNode.
POD = {
    "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9:/usr/local/lib/libiomp5.so",
    "TRANSFORMERS_CACHE": "/tmp/pvc-mount/transformers_cache", "HF_DATASETS_CACHE": "/tmp/pvc-mount/hf_datasets_cache",
    "LOGLEVEL": "INFO", "CCL_WORKER_COUNT": "1", "OMP_NUM_THREADS": "56", "PYTHONUNBUFFERED": "1",
    "PET_RDZV_ENDPOINT": "transformers-pytorchjob-worker-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "2:2",
    "PET_NPROC_PER_NODE": "auto", "PET_MAX_RESTARTS": "10", "PET_STANDALONE": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def pods(ccl_image: str, keys: Path, module_path: Path) -> Iterator[Cluster]:
    """Bring up two containers of a release that knew ccl."""
    mounts, options = {keys / "0600": "/etc/multinode/ssh"}, list[str]()
    if not real_ccl.is_at_hand():
        stand_in, variable = find_stand_in(module_path)
        mounts, options = {**mounts, **stand_in}, ["--env", variable]
    with two_pods(f"multinode{os.getpid()}guide", ccl_image, mounts, *options) as cluster:
        yield cluster


def find_stand_in(place: Path) -> tuple[dict[Path, str], str]:
    """Return the mounts and the variable of the stand-in, with the last accelerate that used ccl."""
    wheels = place / "wheels"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), "accelerate==1.12.0"]
    assert call(pip).code == 0
    path = ":".join(["/bindings", *(f"/wheels/{wheel.name}" for wheel in wheels.glob("*.whl"))])
    return {ROOT / "tests/data/bindings": "/bindings", wheels: "/wheels"}, f"PYTHONPATH={path}"


def ranks(done: Done) -> list[dict[str, Any]]:
    """Read what the ranks said of themselves, in the order of their numbers."""
    said = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    return sorted(said, key=lambda rank: int(rank["rank"]))


def world(said: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Cut that down to rank, size of the world and backend."""
    return [(rank["rank"], rank["world_size"], rank["backend"]) for rank in said]


def hostfile(pods: Cluster) -> str:
    """Write the lines before the guide's: the hostfile, and the script in one place on both once a worker answers."""
    first, second = (node.shell("hostname -i").out.strip() for node in pods.nodes)
    return (
        f'printf "{first} #node0 ip\\n{second} #node1 ip\\n" > /tmp/hostfile; cp {SCRIPT} /tmp; cd /tmp\n'
        f"until multinode ssh {second} cp {SCRIPT} /tmp 2> /dev/null; do sleep 0.2; done\n"
    )


def test_mpirun_on_two_nodes(pods: Cluster) -> None:
    pods.start(1, "worker")

    done = pods.nodes[0].run("bash", "-c", hostfile(pods) + MPIRUN_ON_TWO_NODES)

    assert done.code == 0
    assert world(ranks(done)) == [(rank, 4, "ccl") for rank in range(4)]
    assert {(said["bf16"], said["computes"]) for said in ranks(done)} == {(True, find_bf16())}


def run_job(pods: Cluster, command: list[str]) -> list[Done]:
    """Run the command of a job in both pods, past the entrypoint, to a good end; return what the pods said."""
    children = [Started(["docker", "exec", *env_options(POD), node.container, *command]) for node in pods.nodes]
    pods.started.extend(children)
    done = [child.finish() for child in children]
    assert [end.code for end in done] == [0, 0]
    return done


def ranks_of(done: Sequence[Done]) -> list[dict[str, Any]]:
    """Read what the ranks of several pods said of themselves, in the order of their numbers."""
    return sorted((rank for one in done for rank in ranks(one)), key=lambda rank: int(rank["rank"]))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["/bin/bash", "-c", POD_SHELL], id="shell"),
        pytest.param(POD_WORDS, id="words", marks=pytest.mark.slow),
    ],
)
def test_the_command_of_a_pytorchjob_takes_the_place_of_the_entrypoint(pods: Cluster, command: list[str]) -> None:
    said = ranks_of(run_job(pods, command))

    assert world(said) == [(0, 2, "ccl"), (1, 2, "ccl")]
    assert {rank["asked_threads"] for rank in said} == {"56"}
