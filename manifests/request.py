"""What a manifest is asked for: a job with its pods, or a claim for storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from manifests import fields

PYTORCHJOB, TRAINJOB, RUNTIME, MPIJOB = "pytorchjob", "trainjob", "runtime", "mpijob"
PVC, PREFETCH = "pvc", "prefetch"
JOBS = (PYTORCHJOB, TRAINJOB, MPIJOB)
PODS = (*JOBS, RUNTIME, PREFETCH)
ALL = (*PODS, PVC)
TORCH, MPI = "torch", "mpi"  # how the ranks of a TrainJob start
TORCH_DISTRIBUTED = "torch-distributed"  # the runtime that comes with Trainer
HOME = "HF_HOME"
DOWNLOADS = "huggingface"  # the directory of the claim for what comes from the hub


@dataclass(frozen=True)
class Shape:
    """A node of the cluster: NUMA nodes, cores of each, hardware threads of each core."""

    nodes: int
    cores: int
    threads: int

    @property
    def cpus(self) -> int:
        """Count what Kubernetes calls CPUs."""
        return self.nodes * self.cores * self.threads


@dataclass(frozen=True)
class Pod:
    """What each pod has; sizes and variables as typed, `token` a Secret and its key, `claim` mounted at `mount`."""

    image: str
    cpu: str
    memory: str
    shm: str | None
    claim: str
    mount: str
    selector: Mapping[str, str]
    tolerations: Sequence[Mapping[str, str]]
    variables: Mapping[str, str]
    token: tuple[str, str] | None
    uid: int

    @property
    def cpus(self) -> Fraction:
        """Return the limit of cpu as a number."""
        return fields.read_cpu(self.cpu, "--cpu")

    @property
    def listed(self) -> dict[str, str]:
        """Return the variables in the order of the manifest: where downloads go, if not typed, and the user's own."""
        usual = {} if HOME in self.variables else {HOME: f"{self.mount}/{DOWNLOADS}"}
        return {**usual, **self.variables}

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables as a process in the pod sees them."""
        return fields.expand(self.listed)

    @property
    def shared_bytes(self) -> int:
        """Return the size of /dev/shm; 0 where it has none of its own."""
        return 0 if self.shm is None else fields.read_memory(self.shm, "--shm")

    @property
    def memory_bytes(self) -> int:
        """Return the limit of memory, without what /dev/shm may fill of it."""
        return fields.read_memory(self.memory, "--memory") - self.shared_bytes


@dataclass(frozen=True)
class Job:
    """What a job has beside its pods; nproc: processes of each, None where the entrypoint decides."""

    kind: str
    name: str
    namespace: str | None
    queue: str | None
    pod: Pod
    workers: int
    nproc: int | None
    elastic: tuple[int, int] | None
    restarts: int
    shape: Shape | None
    runtime: str
    policy: str
    words: Sequence[str]


@dataclass(frozen=True)
class Claim:
    """A claim for storage: its size, and the class that provides it, None for the cluster's default."""

    name: str
    namespace: str | None
    size: str
    storage_class: str | None
    access: str
