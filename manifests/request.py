"""What a manifest is asked for: the options, which kind has which and what each takes, as one value.

What the API server or a webhook checks when a manifest is applied is left to it. Checked here is what would be seen
only in pods that do not start, or that train wrongly.
"""

from __future__ import annotations

import posixpath
import re
from argparse import REMAINDER, ArgumentParser
from argparse import ArgumentTypeError as Wrong
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from entrypoint.errors import Refusal
from entrypoint.printing.secrets import hide_value
from entrypoint.tasks.defaults import OUTPUT

PYTORCHJOB, TRAINJOB, RUNTIME, MPIJOB = "pytorchjob", "trainjob", "runtime", "mpijob"
PVC, PREFETCH = "pvc", "prefetch"
TORCH_DISTRIBUTED = "torch-distributed"  # the runtime that comes with Trainer
DOWNLOADS = "huggingface"  # the directory of the claim for what comes from the hub
# What a kubelet replaces in a value: third_party/forked/golang/expansion/expand.go of Kubernetes.
REFERENCE = re.compile(r"\$(?:\$|\([^)]*\))")
HELP = {
    PYTORCHJOB: "a PyTorchJob, as in the Hugging Face guide",
    TRAINJOB: "a TrainJob of Trainer v2",
    RUNTIME: "a ClusterTrainingRuntime of Trainer v2, for TrainJobs that share it",
    MPIJOB: "an MPIJob",
    PVC: "a claim for storage",
    PREFETCH: "a Job that fetches model and data of a task into the claim, once",
}
JOBS = (PYTORCHJOB, TRAINJOB, MPIJOB)
TRAINING, PODS = (*JOBS, RUNTIME), (*JOBS, RUNTIME, PREFETCH)
OFF = (0, 0)
# A quantity of Kubernetes with its unit, without which it would be bytes.
SIZE = re.compile(r"\d{1,9}(\.\d{1,9})?(k|[MGTPE]|[KMGTPE]i)", re.ASCII)
# What a volume would hide that is mounted there or above it.
NEEDED = ("/dev/shm", "/etc", "/home/multinode", "/opt/multinode", "/proc", "/sys", "/tmp", "/usr/lib", "/usr/local",
          "/workspace/transformers")  # fmt: skip


@dataclass(frozen=True)
class Volume:
    """A claim, the directory where all pods mount it, and whether they may only read there."""

    claim: str
    path: str
    read_only: bool = False


@dataclass(frozen=True)
class Request:
    """What was typed, by the names of the options; a kind that has no such option has the default.

    nproc: processes of each pod, None where nobody has said; elastic: the fewest and the most pods, None for a
    job that starts with all of them; env_secret: by variable, the name of a Secret and a key in it.
    """

    kind: str
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
    node_selector: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_secret: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    uid: int = 1000
    elastic: tuple[int, int] | None = None
    max_restarts: int = 0
    deadline: int | None = None
    ttl: int | None = None
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
    def listed(self) -> dict[str, str]:
        """Return the variables in the order of the manifest: where downloads go, if not typed, and the user's own."""
        return {**({} if "HF_HOME" in self.env else {"HF_HOME": f"{self.mount}/{DOWNLOADS}"}), **self.env}


def keep(**fields: Any) -> dict[str, Any]:
    """Return the fields of an object that were asked for."""
    return {name: value for name, value in fields.items() if value is not None and value not in ([], {})}


class Parser(ArgumentParser):
    """A parser whose errors have three parts."""

    def error(self, message: str) -> NoReturn:
        """Raise Refusal instead of ending the program."""
        raise Refusal("the command line cannot be read", message, f"{self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse an option that is not known before argparse asks for those that are missing; each takes a value."""
        words = iter(args)
        for word in words:
            name, equals, _ = word.partition("=")
            if not word.startswith("-") or name in ("-h", "--help", "--"):
                break
            if name not in self._option_string_actions:
                self.error(f"unrecognized arguments: {name}")
            if not equals:
                next(words, None)
        return super().parse_known_args(args, namespace)


def count(least: int) -> Callable[[str], int]:
    """Return a reader of a number that is not smaller than another."""

    def read(text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1
        if value < least:
            raise Wrong(f"takes a number, at least {least}, not {text!r}")
        return value

    return read


def read_elastic(text: str) -> tuple[int, int]:
    """Return the fewest and the most pods of an elastic job, from `2:4`; OFF for `off`."""
    low, _, high = text.partition(":")
    return OFF if text == "off" else (count(1)(low), count(1)(high))


def read_size(text: str) -> str:
    """Return a number of bytes with its unit."""
    if not SIZE.fullmatch(text):
        raise Wrong(f"takes a size with its unit, such as 64Gi, not {text!r}")
    return text


def read_path(text: str) -> str:
    """Return an absolute directory in a container that hides nothing of what it needs, without a slash at its end."""
    path = "/" + posixpath.normpath(text).strip("/")
    if not text.startswith("/") or any(f"{each}/".startswith(f"{path.rstrip('/')}/") for each in NEEDED):
        raise Wrong(f"takes a directory that hides nothing of the image, such as /workspace/data, not {text!r}")
    return path


def read_volume(text: str) -> Volume:
    """Return a claim and where it is mounted, `data:/workspace/data`, and `:ro` where pods only read."""
    claim, _, place = text.partition(":")
    path, colon, mode = place.partition(":")
    if colon and mode not in ("ro", "rw"):
        raise Wrong(f"takes CLAIM:DIRECTORY, or CLAIM:DIRECTORY:ro, not {text!r}")
    return Volume(claim, read_path(path), mode == "ro")


def read_pair(text: str) -> tuple[str, str]:
    """Return a name and what follows the first `=`."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Wrong(f"takes NAME=VALUE, not {text!r}")
    return name, value


def read_variable(text: str) -> tuple[str, str]:
    """Return a variable; raise Refusal for a secret, which everybody would read who may read the manifest."""
    name, value = read_pair(text)
    plain = REFERENCE.sub("1", value)
    if hide_value(name, plain) != plain:
        remedy = f"kubectl create secret generic mine --from-literal={name}=..., then --env-secret {name}=mine:{name}"
        raise Refusal("a secret in a manifest is read by all who may read the job", f"--env {name}", remedy)
    return name, value


def read_secret(text: str) -> tuple[str, tuple[str, str]]:
    """Return a variable, and the Secret and key that it comes from (valueFrom.secretKeyRef): `NAME=SECRET:KEY`."""
    name, value = read_pair(text)
    secret, _, key = value.partition(":")
    return name, (secret, key or name)


def make_parser() -> Parser:
    """Return the parser of the command line."""
    text = "Print a manifest for `kubectl apply -f -`."
    parser = Parser(prog="scripts/manifest.py", description=text, allow_abbrev=False)
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="|".join(HELP))
    for kind, what in HELP.items():
        one = kinds.add_parser(kind, help=what, description=f"Print {what}.", allow_abbrev=False)
        add_options(one, kind)
        if kind != PVC:
            one.add_argument("words", nargs=REMAINDER, metavar="TASK ARGUMENT...", help="default: qa --bf16")
    return parser


def add_options(parser: Parser, kind: str) -> None:
    """Add the options that a kind has.

    Defaults are those of the Hugging Face guide to distributed CPUs, but for the directory of the claim, which is where
    the image writes its results; sizes have none.
    """

    def add(name: str, metavar: str, text: str, kinds: tuple[str, ...] = PODS, **settings: Any) -> None:
        if kind in kinds:
            shown = f"{text}; default: %(default)s" if settings.get("default") else text
            parser.add_argument(name, metavar=metavar, help=shown, **settings)

    many: Any = {"action": "append"}
    name = "multinode" if kind == RUNTIME else f"transformers-{kind}"
    add("--name", "NAME", "name of the object", tuple(HELP), default=name)
    add("--namespace", "NAME", "its namespace; default: that of kubectl", (*JOBS, PREFETCH, PVC))
    add("--image", "IMAGE", "image, best with @sha256:...", required=True)
    add("--workers", "N", "number of pods that train", TRAINING, type=count(1), default=4)
    processes = "processes of each pod, one for each NUMA node that its cores fill"
    add("--nproc", "N", processes, TRAINING, type=count(1))
    sizes: Any = {"required": True} if kind in TRAINING else {}
    add("--cpu", "CPUS", "request and limit of each pod", type=count(1), **(sizes or {"default": 1}))
    add("--memory", "BYTES", "request and limit of each pod", type=read_size, **(sizes or {"default": "4Gi"}))
    add("--shm", "BYTES", "size of /dev/shm, part of the memory; default: all of it", type=read_size)
    add("--pvc", "NAME", "claim for results and downloads, which all pods mount", default="transformers-pvc")
    add("--mount", "DIRECTORY", "where they mount it", type=read_path, default=OUTPUT)
    add("--volume", "CLAIM:DIRECTORY[:ro]", "another claim that all pods mount, for data", type=read_volume, **many)
    add("--node-selector", "KEY=VALUE", "label of the nodes to run on", type=read_pair, **many)
    add("--queue", "NAME", "queue of Kueue", (*JOBS, PREFETCH))
    add("--env", "NAME=VALUE", "variable of every pod", type=read_variable, **many)
    add("--env-secret", "NAME=SECRET:KEY", "variable of every pod, from a Secret", type=read_secret, **many)
    add("--uid", "UID", "user of the processes", type=count(1), default=1000)
    bounds = "fewest and most pods, or off; default: 1 and --workers, for a script --workers alone"
    add("--elastic", "MIN:MAX", bounds, (PYTORCHJOB,), type=read_elastic)
    again = (PYTORCHJOB, MPIJOB, RUNTIME)
    add("--max-restarts", "N", "restarts before the job fails", again, type=count(0), default=10)
    add("--deadline", "SECONDS", "how long the job may run", (*JOBS, PREFETCH), type=count(1))
    removed = (PYTORCHJOB, MPIJOB, PREFETCH)
    add("--ttl", "SECONDS", "how long the job is kept after its end", removed, type=count(0))
    add("--runtime", "NAME", "ClusterTrainingRuntime, one of torch", (TRAINJOB,), default=TORCH_DISTRIBUTED)
    add("--size", "BYTES", "size of the storage", (PVC,), default="30Gi")
    add("--storage-class", "NAME", "class of the storage; default: the cluster's", (PVC,))


def make_request(typed: dict[str, Any]) -> Request:
    """Return what was typed as a request; raise Refusal for values that do not go together."""
    for key in ("env", "env_secret", "node_selector"):
        typed[key] = dict(typed.get(key) or [])
    request = Request(**keep(**typed))
    places = [each.path for each in request.claims]
    if len({*places}) < len(places):
        raise Refusal("two claims would be mounted in one directory", ", ".join(places), "--volume CLAIM:ANOTHER")
    if request.processes > request.cpu:
        value, remedy = f"{request.processes} processes, {request.cpu} CPUs", f"--cpu {request.processes}"
        raise Refusal("each process needs a core of its own", value, f"{remedy}, or a smaller --nproc")
    low, high = request.elastic or OFF
    if (low, high) != OFF and not low <= request.workers <= high:
        fact = "--workers is not between the fewest and the most pods of --elastic"
        raise Refusal(fact, f"{request.workers}, {low}:{high}", f"--elastic {request.workers}:{request.workers}")
    return request
