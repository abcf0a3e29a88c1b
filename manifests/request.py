"""What a manifest is asked for, as one value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TORCH_DISTRIBUTED = "torch-distributed"  # the runtime that comes with Trainer
DOWNLOADS = "huggingface"  # the directory of the claim for what comes from the hub
# What a kubelet replaces in a value: third_party/forked/golang/expansion/expand.go of Kubernetes.
REFERENCE = re.compile(r"\$(?:\$|\([^)]*\))")
OFF = (0, 0)
# The number of a pod of an Indexed Job, and what says that each trains by itself.
INDEX, APART = "JOB_COMPLETION_INDEX", "MULTINODE_APART"


@dataclass(frozen=True)
class Volume:
    """A claim, the directory where all pods mount it, what of it they see, and whether they may only read there."""

    claim: str
    path: str
    part: str = ""
    read_only: bool = False


class ManifestKind(NamedTuple):
    """A kind of manifest: what is typed for it, the objects that are printed, and the options that it has.

    write: the object itself; write_needed: what it needs besides, printed before it; list_notes: what somebody should
    know of it before it runs; default_name: that of the object, where it does not follow from the kind's.

    has_pods, trains: whether there are pods, and whether they train; is_job: whether it is applied for one training,
    whose results have a directory; runs: whether it runs to an end, and has the options of jobs; starts_ranks: whether
    one pod starts ranks in all others; counts_cores: whether each pod counts its processes itself where nobody says how
    many; sweeps: whether each pod may train by itself, with its number for a parameter; options: those of its own;
    lacks: those of other kinds with pods, or that run.
    """

    name: str
    help: str
    write: Callable[[Request], dict[str, Any]]
    write_needed: Callable[[Request], list[dict[str, Any]]] = lambda request: []
    list_notes: Callable[[Request], list[str]] = lambda request: []
    default_name: str = ""
    has_pods: bool = True
    trains: bool = True
    is_job: bool = True
    runs: bool = True
    starts_ranks: bool = False
    counts_cores: bool = False
    sweeps: bool = False
    options: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """What was typed, by the names of the options; a kind that has no such option has the default.

    nproc: processes of each pod, None where nobody has said; elastic: the fewest and the most pods, None for a
    job that starts with all of them; env_secret: by variable, the name of a Secret and a key in it; env_from: Secrets
    and ConfigMaps all of whose keys are variables; script: texts of files of this machine, by their names; pod,
    limits, patch: fields by their names, of the pods' specification, of how long a job runs and stays, and of the job.
    """

    kind: ManifestKind
    name: str
    words: Sequence[str] = ()
    namespace: str | None = None
    image: str = ""
    workers: int = 1
    nproc: int | None = None
    cpu: int = 1
    memory: str = "4Gi"
    shm: str | None = None
    pvc: str = ""
    mount: str = ""
    volume: Sequence[Volume] = ()
    queue: str | None = None
    label: Mapping[str, str] = field(default_factory=dict)
    annotation: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    env_secret: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    env_from: Sequence[Mapping[str, Any]] = ()
    script: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    patch: Mapping[str, Any] = field(default_factory=dict)
    uid: int = 1000
    disk: str | None = None
    elastic: tuple[int, int] | None = None
    max_restarts: int = 0
    limits: Mapping[str, Any] = field(default_factory=dict)
    runtime: str = TORCH_DISTRIBUTED
    size: str = ""
    storage_class: str | None = None

    @property
    def processes(self) -> int:
        """Return how many processes a pod has, for operators that would start one for each CPU otherwise."""
        return self.nproc or 1

    @property
    def claims(self) -> list[Volume]:
        """Return what all pods mount; the first is for results and downloads."""
        return [Volume(self.pvc, self.mount), *self.volume]

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables in the order of the manifest: where downloads go, if not typed, and the user's own."""
        return {**({} if "HF_HOME" in self.env else {"HF_HOME": f"{self.mount}/{DOWNLOADS}"}), **self.env}

    @property
    def is_sweep(self) -> bool:
        """Return whether each pod of an Indexed Job trains by itself."""
        return self.kind.sweeps and self.env.get(APART, "") not in ("", "0")

    @property
    def scripts(self) -> str:
        """Return the name of the ConfigMap with the scripts of this machine."""
        return f"{self.name}-scripts"


def drop_empty(**fields: Any) -> dict[str, Any]:
    """Return the fields of an object without those that were not asked for: None, [] and {}."""
    return {name: value for name, value in fields.items() if value is not None and value not in ([], {})}
