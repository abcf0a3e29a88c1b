"""Starts that are refused: what is typed, what is set, the exit code and the value that is named.

tests/unit/multinode_image/test_starts.py holds codes and values; tests/golden/messages.py writes down the words of
all of them once, for somebody who reads them together. HOME is the directory of the container.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.launchers import left_by


@dataclass(frozen=True)
class Row:
    """One refused start; words: as they are typed in a shell."""

    words: str
    environ: Mapping[str, str] = field(default_factory=dict)
    value: str = ""
    code: int = 2
    left: tuple[str, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of the launchers, and those beside them."""
        return {**left_by(*self.left), **self.environ}

    def argv_in(self, home: str) -> list[str]:
        """Return the words of the command line in a container with this directory."""
        return [word.replace("HOME", home) for word in shlex.split(self.words)]

    def __str__(self) -> str:
        """Return the row as it would be typed."""
        return " ".join([*self.left, *(f"{name}={value}" for name, value in self.environ.items()), self.words])


def after(words: str, *left: str, value: str, code: int = 2, **more: str) -> Row:
    """Return a row in the environment that launchers have left."""
    return Row(words, more, value, code, left)


WORKER = {"PET_NNODES": "2", "PET_MASTER_ADDR": "late", "PET_NODE_RANK": "1"}
HOSTFILE = {"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile"}
LAUNCHER = {"K_MPI_JOB_ROLE": "launcher"}
HOSTS = "launch --hosts 192.0.2.1,192.0.2.2"
REFUSED = (
    # what is no command
    Row("qaa", {}, "qaa", 127),
    Row("sumarization", {}, "sumarization", 127),
    Row("translate", {}, "translate", 127),
    Row("sum", {}, "sum", 127),
    Row("''", {}, "", 127),
    Row("-m", {}, "-m"),
    Row("missing.py", {}, "missing.py"),
    Row("/etc/passwd", {}, "/etc/passwd", 126),
    Row("--explain=xml sh", {}, "--explain=xml"),
    Row("--explain doctor", {}, "doctor"),
    Row("notebook", {}, "torch 2.13.0+cpu, transformers 5.23.0"),
    Row("tensorboard", {}, "torch 2.13.0+cpu, transformers 5.23.0"),
    Row("--nproc 2 notebook", {}, "--nproc 2"),
    Row("smoke", {"MULTINODE_METRICS": "x"}, "'x'"),
    Row("smoke", {"MULTINODE_METRICS": "70000"}, "'70000'"),
    Row("--nproc 2 smoke", {"MULTINODE_GRADIENTS": "fp8"}, "'fp8'"),
    Row("smoke", {"MULTINODE_LOGS": "/dev/null/logs"}, "/dev/null/logs"),
    Row("--explain tasks", {}, "tasks"),
    Row("worker --port 2223", {}, "--port"),
    Row("tasks --json", {}, "--json"),
    # options that nothing would follow
    Row("--nproc x smoke", {}, "'x'"),
    Row("--nproc 0 smoke", {}, "'0'"),
    Row("--nproc 99999999 smoke", {}, "'99999999'"),
    Row("--nproc", {}, "''"),
    Row("--bf16 qa", {}, "--bf16"),
    Row("--nproc 2 generation", {}, "--nproc 2"),
    Row("--nproc 2 worker", {}, "--nproc 2"),
    Row("--nproc 2 sh", {}, "--nproc 2"),
    Row("--nproc 2 prefetch qa", {}, "--nproc 2"),
    Row("--nproc 2 launch smoke", {}, "--nproc 2"),
    Row("--nproc 2 smoke", LAUNCHER, "--nproc 2"),
    after("--nproc 2 smoke", "intel-mpi-1", value="PMI_RANK and PMI_SIZE are set"),
    # one of several that nobody has given a place
    Row("smoke", {"WORLD_SIZE": "2"}, "WORLD_SIZE=2"),
    Row("smoke", {"RANK": "1"}, "RANK=1"),
    Row("smoke", {"PET_NNODES": "2"}, "PET_NNODES=2"),
    Row("smoke", {"PET_RDZV_ENDPOINT": "pod0:29400"}, "pod0:29400"),
    Row("smoke", {"PET_MASTER_ADDR": "pod0", "PET_MASTER_PORT": "29400"}, "pod0"),
    after("smoke", "pytorchjob-workers", value="PET_NNODES=2"),
    after("smoke", "slurm-batch", value="SLURM_JOB_NUM_NODES=2"),
    after("smoke", "prterun-0", value="PRTE_LAUNCHED=1"),
    Row("smoke", {"PMI_ID": "0", "PMI_PORT": "node0:39063"}, "PMI_PORT=node0:39063"),
    # a world that is not the one that was meant
    Row("smoke", {"MULTINODE_WORLD_SIZE": "two"}, "'two'"),
    Row("smoke", {"MASTER_ADDR": "x", "RANK": "0", "WORLD_SIZE": "$(N)"}, "'$(N)'"),
    Row("smoke", {"MULTINODE_WORLD_SIZE": "0"}, "'0'"),
    Row("smoke", {"MY_NUM_NODES": "$(N)"}, "'$(N)'"),
    Row("smoke", {"PMI_RANK": "0", "PMI_SIZE": "1", "WORLD_SIZE": "2x"}, "'2x'"),
    Row("torchrun --nproc-per-node 0 x.py", {}, "'0'"),
    Row("torchrun --standalone --nproc-per-node -1 x.py", {}, "'-1'"),
    Row("torchrun --nproc-per 5000 x.py", {"PET_NPROC_PER_NODE": "2"}, "'5000'"),
    Row("torchrun x.py", {"PET_NPROC_PER_NODE": "0"}, "'0'"),
    Row("smoke", {"PET_NPROC_PER_NODE": "9999"}, "'9999'"),
    Row("smoke", {"PMI_RANK": "0", "PMI_SIZE": "x"}, "'x'"),
    Row(f"--explain {HOSTS} smoke", {"MASTER_PORT": "x"}, "'x'"),
    Row("--explain launch --hosts 192.0.2.1:1,192.0.2.2:1 smoke", {"MULTINODE_WORLD_SIZE": "4"}, "2 of 4"),
    Row("torchrun --nproc_per_node 2 x.py", {"MULTINODE_WORLD_SIZE": "4"}, "2 of 4"),
    Row("python3 -m torch.distributed.run x.py", {"MULTINODE_WORLD_SIZE": "4"}, "1 of 4"),
    Row("smoke", {"K_MPI_JOB_ROLE": "worker"}, "smoke"),
    Row("python3 train.py", LAUNCHER, "K_MPI_JOB_ROLE is launcher"),
    Row("python3 -m torch.distributed.run train.py", LAUNCHER, "K_MPI_JOB_ROLE is launcher"),
    Row("accelerate launch --cpu train.py", HOSTFILE, "a hostfile in /etc/mpi is set"),
    after("torchrun --nproc_per_node 1 x.py", "slurm-step", value="SLURM_PROCID and SLURM_STEP_NUM_TASKS are set"),
    after("torchrun --nproc_per_node 1 x.py", "intel-mpi-1", value="PMI_RANK and PMI_SIZE are set"),
    after("torchrun --standalone x.py", "open-mpi-1", value="OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE are set"),
    after("python3 -m torch.distributed.run -m x", "intel-mpi-1", value="PMI_RANK and PMI_SIZE are set"),
    # nodes that would wait in vain, or meet themselves
    Row("smoke", {**WORKER, "PET_STANDALONE": "1"}, "2 nodes"),
    Row("smoke", {**WORKER, "PET_STANDALONE": "yes"}, "'yes'"),
    Row("torchrun --standalone x.py", {"PET_NNODES": "2"}, "2 nodes"),
    Row("torchrun --nnodes 1:2 x.py", {"PET_STANDALONE": "1"}, "2 nodes"),
    Row("smoke", {"PET_NNODES": "1:2", "PET_RDZV_ENDPOINT": "localhost:29400"}, "localhost"),
    Row("smoke", {**WORKER, "PET_RDZV_BACKEND": "c10d"}, "PET_RDZV_BACKEND=c10d and the master late"),
    Row("torchrun --nnodes 2 --nproc-per-node 1 x.py", {}, "--nnodes 2"),
    Row("torchrun --nnodes 1:2 --rdzv-backend c10d x.py", {}, "--nnodes 1:2"),
    Row("torchrun x.py", {"PET_NNODES": "2"}, "--nnodes 2"),
    Row("torchrun --nnodes 2 x.py --help", {}, "--nnodes 2"),
    Row("torchrun --nnodes 2 --node-rank 5 --master-addr node0 x.py", {}, "5 of 2"),
    Row("torchrun --nnodes 2 --node-rank 0 --master-addr node0:29500 x.py", {}, "'node0:29500'"),
    Row("torchrun --master-port 0 x.py", {}, "'0'"),
    Row("torchrun --master-port 99999 x.py", {}, "'99999'"),
    Row("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint node0:99999 x.py", {}, "'99999'"),
    # tasks that would fail after minutes
    Row("qa --output_dir HOME/stack.json/results", {}, "HOME/stack.json/results"),
    Row("qa --output_dir ''", {}, "output_dir ''"),
    Row("qa HOME/missing.json", {}, "HOME/missing.json"),
    Row("qa squad", {}, "squad"),
)
