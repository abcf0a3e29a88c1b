"""The options: which manifest has which, what each takes, and the values that all of them make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from entrypoint.errors import Refusal
from entrypoint.tasks.defaults import OUTPUT
from manifests import fields
from manifests.request import (
    JOBS,
    MPI,
    MPIJOB,
    PODS,
    PREFETCH,
    PVC,
    PYTORCHJOB,
    RUNTIME,
    TORCH,
    TORCH_DISTRIBUTED,
    TRAINJOB,
    Claim,
    Job,
    Pod,
    Shape,
)

# A PyTorchJob, TrainJob or MPIJob of more pods is a typing error.
MOST_WORKERS = 10_000
MOST_RESTARTS = 1000
# Uids of Linux have 32 bits, of which the last stands for none; 0 is root, which these manifests never are.
MOST_UID = (1 << 32) - 2
OFF = (0, 0)


@dataclass(frozen=True)
class Option:
    """A row of the table of options.

    read: returns the value, or raises Refusal; default: as typed, None for an option that may be absent; kinds: the
    manifests that have it; needed: those that cannot do without; many: whether it may be given several times.
    """

    name: str
    metavar: str
    help: str
    read: Callable[[str, str], Any]
    default: str | None = None
    kinds: Sequence[str] = PODS
    needed: Sequence[str] = ()
    many: bool = False

    @property
    def key(self) -> str:
        """Return its name among the values."""
        return self.name.removeprefix("--").replace("-", "_")


def count(least: int, most: int) -> Callable[[str, str], int]:
    """Return a reader of a number between two others."""
    return lambda text, option: fields.read_count(text, option, least, most)


def read_nproc(text: str, option: str) -> int | None:
    """Return a number of processes; None for `auto`."""
    return None if text == "auto" else fields.read_count(text, option, 1, fields.MOST_CPUS)


def read_elastic(text: str, option: str) -> tuple[int, int]:
    """Return the fewest and the most workers of an elastic job; none at all for `off`."""
    return OFF if text == "off" else fields.read_range(text, option, MOST_WORKERS)


def read_shape(text: str, option: str) -> Shape:
    """Return a node as `2x56x2` says it: NUMA nodes, cores of each, threads of each core (1 where it is left out)."""
    parts = text.split("x")
    good = len(parts) in (2, 3) and all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts)
    numbers = [int(part) for part in parts] if good else [0]
    shape = Shape(numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 1) if good else Shape(0, 0, 0)
    if not 0 < shape.cpus <= fields.MOST_CPUS:
        what = f"{option} takes NUMA nodes x cores of each x threads of each, at most {fields.MOST_CPUS} in all"
        raise Refusal(what, repr(text), f"{option} 2x56x2")
    return shape


def read_size(text: str, option: str) -> str:
    """Return a number of bytes as it is typed; refuse one so small that its unit was forgotten."""
    if fields.read_memory(text, option) < LEAST:
        remedy = f"{option} {text}Gi" if text.isdigit() else f"{option} 64Gi"
        raise Refusal(f"{option} is less than 1Mi; without a unit a number is one of bytes", repr(text), remedy)
    return text


def read_cpus(text: str, option: str) -> str:
    """Return a number of CPUs as it is typed."""
    fields.read_cpu(text, option)
    return text


def read_access(text: str, option: str) -> str:
    """Return how a volume may be mounted (core/v1, PersistentVolumeAccessMode); several pods write to it."""
    if text not in ("ReadWriteMany", "ReadWriteOnce"):
        what = f"{option} takes ReadWriteMany, or ReadWriteOnce where all pods are on one node"
        raise Refusal(what, repr(text), f"{option} ReadWriteMany")
    return text


def read_policy(text: str, option: str) -> str:
    """Return how the ranks of a runtime start."""
    if text not in (TORCH, MPI):
        what = f"{option} takes {TORCH}, or {MPI} for ranks that mpirun starts from a launcher"
        raise Refusal(what, repr(text), f"{option} {TORCH}")
    return text


# The unit of a smaller size was forgotten.
LEAST = 1 << 20
# Defaults are those of the Hugging Face guide to distributed CPUs, but for the directory of the claim, which is where
# the image writes its results; sizes have none.
OPTIONS = (
    Option("--name", "NAME", "name of the object", fields.read_name),
    Option("--name", "NAME", "name of the claim", fields.read_object, kinds=(PVC,)),
    Option("--namespace", "NAME", "its namespace; default: that of kubectl", fields.read_namespace,
           kinds=(*JOBS, PREFETCH, PVC)),
    Option("--image", "IMAGE", "image, best with @sha256:...", fields.read_image, needed=PODS),
    Option("--workers", "N", "number of pods that train", count(1, MOST_WORKERS), "4", (*JOBS, RUNTIME)),
    Option("--nproc", "N", "processes of each pod, or auto", read_nproc, "auto", JOBS),
    Option("--cpu", "CPUS", "request and limit of each pod", read_cpus, kinds=PODS, needed=(*JOBS, RUNTIME)),
    Option("--memory", "BYTES", "request and limit of each pod", read_size, kinds=PODS, needed=(*JOBS, RUNTIME)),
    Option("--shm", "BYTES", "size of /dev/shm, part of the memory; default: all of it", read_size),
    Option("--pvc", "NAME", "claim that all pods mount", fields.read_object, "transformers-pvc"),
    Option("--mount", "DIRECTORY", "where they mount it", fields.read_path, OUTPUT),
    Option("--node-selector", "KEY=VALUE", "label of the nodes to run on", fields.read_label, many=True),
    Option("--toleration", "TAINT", "taint to tolerate, KEY=VALUE:EFFECT", fields.read_toleration, many=True),
    Option("--queue", "NAME", "queue of Kueue", fields.read_queue, kinds=(*JOBS, PREFETCH)),
    Option("--env", "NAME=VALUE", "variable of every pod", fields.read_variable, many=True),
    Option("--token-secret", "NAME:KEY", "Secret that has HF_TOKEN", fields.read_secret),
    Option("--uid", "UID", "user of the processes", count(1, MOST_UID), "1000"),
    Option("--node-shape", "2x56x2", "NUMA nodes x cores x threads of a cluster's node", read_shape, None,
           (*JOBS, RUNTIME)),
    Option("--elastic", "MIN:MAX", "fewest and most pods, or off; default: 1 and --workers", read_elastic, None,
           (PYTORCHJOB,)),
    Option("--max-restarts", "N", "restarts before the job fails", count(0, MOST_RESTARTS), "10",
           (PYTORCHJOB, MPIJOB, RUNTIME)),
    Option("--runtime", "NAME", "ClusterTrainingRuntime", fields.read_object, TORCH_DISTRIBUTED, (TRAINJOB,)),
    Option("--policy", "POLICY", "what starts the ranks: torch or mpi", read_policy, TORCH, (RUNTIME,)),
    Option("--size", "BYTES", "size of the storage", read_size, "30Gi", (PVC,)),
    Option("--storage-class", "NAME", "class of the storage; default: the cluster's", fields.read_object, None, (PVC,)),
    Option("--access", "MODE", "ReadWriteMany or ReadWriteOnce", read_access, "ReadWriteMany", (PVC,)),
)  # fmt: skip
NAMES = {
    PYTORCHJOB: "transformers-pytorchjob", TRAINJOB: "transformers-trainjob", MPIJOB: "transformers-mpijob",
    RUNTIME: "multinode", PVC: "transformers-pvc", PREFETCH: "transformers-prefetch",
}  # fmt: skip
# A download needs a core, and memory for the tables that the data are unpacked into.
SMALL = {"cpu": "1", "memory": "4Gi"}


def of_kind(kind: str) -> list[Option]:
    """List the options of a kind of manifest."""
    return [option for option in OPTIONS if kind in option.kinds]


def read_values(kind: str, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every option of a kind, from what was typed; raise Refusal for the first that is wrong."""
    values: dict[str, Any] = {}
    for option in of_kind(kind):
        texts = typed.get(option.key)
        if option.many:
            values[option.key] = [option.read(as_text(text), option.name) for text in texts or []]
            continue
        text = option.default if texts is None else as_text(texts)
        if text is None and kind in option.needed:
            raise Refusal(f"{kind} needs {option.name}: {option.help}", "nothing", f"{option.name} {option.metavar}")
        values[option.key] = None if text is None else option.read(text, option.name)
    return values | {"name": values["name"] or NAMES[kind]}


def as_text(typed: object) -> str:
    """Return what was typed; argparse makes a list without elements of `--` as a value."""
    return typed if isinstance(typed, str) else "--"


def make_pod(values: Mapping[str, Any]) -> Pod:
    """Return the pods of a job; those that only fetch have small sizes."""
    sizes = {**SMALL, **{key: values[key] for key in SMALL if values.get(key)}}
    pod = Pod(
        image=values["image"],
        shm=values["shm"],
        claim=values["pvc"],
        mount=values["mount"],
        selector=take_once(values["node_selector"], "--node-selector"),
        tolerations=values["toleration"],
        variables=take_once(values["env"], "--env"),
        token=values["token_secret"],
        uid=values["uid"],
        **sizes,
    )
    if pod.memory_bytes <= 0:
        value = f"--shm {pod.shm} of --memory {pod.memory}"
        raise Refusal("what is in /dev/shm counts as memory of the pod, and leaves none", value, "a smaller --shm")
    return pod


def take_once(pairs: Sequence[tuple[str, str]], option: str) -> dict[str, str]:
    """Return pairs by their names; raise Refusal for a name that has two values, of which one would be lost."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            raise Refusal(f"{option} gives one name two values", name, f"{option} {name}=VALUE once")
    return found


def make_job(kind: str, values: Mapping[str, Any], words: Sequence[str]) -> Job:
    """Return a job, or what runs one, from the values of its options and the task with its arguments."""
    return Job(
        kind=kind,
        name=values["name"],
        namespace=values.get("namespace"),
        queue=values.get("queue"),
        pod=make_pod(values),
        workers=values.get("workers", 1),
        nproc=values.get("nproc"),
        elastic=choose_bounds(values) if kind == PYTORCHJOB else None,
        restarts=values.get("max_restarts", 0),
        shape=values.get("node_shape"),
        runtime=values.get("runtime") or "",
        policy=values.get("policy") or TORCH,
        words=tuple(words),
    )


def choose_bounds(values: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the fewest and the most workers of an elastic job; None for a job that needs all of them."""
    typed, workers = values["elastic"], values["workers"]
    low, high = typed or (1, workers)
    if typed == OFF:
        return None
    if not low <= workers <= high:
        what = "the workers are fewer than --elastic asks for at least, or more than at most"
        raise Refusal(what, f"--workers {workers} --elastic {low}:{high}", f"--elastic {min(low, workers)}:{workers}")
    return low, high


def make_claim(values: Mapping[str, Any]) -> Claim:
    """Return a claim for storage from the values of its options."""
    return Claim(values["name"], values["namespace"], values["size"], values["storage_class"], values["access"])
