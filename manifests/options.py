"""The command line of manifests: which kind has which option, what each takes, and what goes together.

What the API server or a webhook checks when a manifest is applied is left to it. Checked here is what would be seen
only in pods that do not start, or that train wrongly.
"""

from __future__ import annotations

import posixpath
import re
from argparse import REMAINDER, ArgumentParser
from argparse import ArgumentTypeError as Wrong
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from manifests.command import default_command
from manifests.kinds import KINDS
from manifests.names import read_image, read_key, read_name, read_object, read_value
from manifests.request import OFF, REFERENCE, TORCH_DISTRIBUTED, ManifestKind, Request, Volume, drop_empty
from manifests.secrets import FACT, check_patch, check_script
from multinode_image.errors import Refusal
from multinode_image.printing.secrets import hide_value
from multinode_image.tasks.defaults import OUTPUT

# A quantity of Kubernetes with its unit, without which it would be bytes.
SIZE = re.compile(r"\d{1,9}(\.\d{1,9})?(k|[MGTPE]|[KMGTPE]i)", re.ASCII)
# What a volume would hide that is mounted there or above it.
NEEDED = ("/dev/shm", "/etc", "/home/multinode", "/opt/multinode", "/proc", "/sys", "/tmp", "/usr/lib", "/usr/local",
          "/workspace/transformers")  # fmt: skip
# Bytes of all files together: `kubectl apply` keeps the whole object in an annotation, and those have 256 KiB in all
# (TotalAnnotationSizeLimitB in apimachinery/pkg/api/validation/objectmeta.go of Kubernetes).
MOST_SCRIPTS = 200_000
LONGEST, DEEPEST = 1 << 20, 50  # letters of a file, and levels of a patch: a pod's have twelve
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


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


def at_least(least: int) -> Callable[[str], int]:
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
    return OFF if text == "off" else (at_least(1)(low), at_least(1)(high))


def read_size(text: str) -> str:
    """Return a number of bytes with its unit."""
    if not SIZE.fullmatch(text):
        raise Wrong(f"takes a size with its unit, such as 64Gi, not {text!r}")
    return text


def read_path(text: str) -> str:
    """Return an absolute directory in a container that hides nothing of what it needs, without a slash at its end."""
    path = "/" + posixpath.normpath(text).strip("/")
    if not text.startswith("/") or any(f"{needed}/".startswith(f"{path.rstrip('/')}/") for needed in NEEDED):
        raise Wrong(f"takes a directory that hides nothing of the image, such as /workspace/data, not {text!r}")
    return path


def read_volume(text: str) -> Volume:
    """Return a claim and where it is mounted: `data:/workspace/data`, or `data/part:/workspace/data:ro`."""
    claim, _, place = text.partition(":")
    path, colon, mode = place.partition(":")
    if colon and mode not in ("ro", "rw"):
        raise Wrong(f"takes CLAIM:DIRECTORY, or CLAIM:DIRECTORY:ro, not {text!r}")
    claim, _, part = claim.partition("/")
    return Volume(read_object(claim), read_path(path), part, mode == "ro")


def read_pair(text: str) -> tuple[str, str]:
    """Return a name and what follows the first `=`."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Wrong(f"takes NAME=VALUE, not {text!r}")
    return name, value


def read_variable(text: str) -> tuple[str, str]:
    """Return a variable; raise Refusal for a secret, which everybody would read who may read the manifest."""
    name, value = read_pair(text)
    read_name(name)
    plain = REFERENCE.sub("1", value)
    if hide_value(name, plain) != plain:
        remedy = f"kubectl create secret generic mine --from-literal={name}=..., then --env-secret {name}=mine:{name}"
        raise Refusal(FACT, f"--env {name}", remedy)
    return name, value


def read_secret(text: str) -> tuple[str, tuple[str, str]]:
    """Return a variable, and the Secret and key that it comes from (valueFrom.secretKeyRef): `NAME=SECRET:KEY`."""
    name, value = read_pair(text)
    secret, _, key = value.partition(":")
    return read_name(name), (read_object(secret), key or name)


def read_source(text: str) -> dict[str, Any]:
    """Return a Secret, or after `configmap/` a ConfigMap, all of whose keys become variables."""
    kind, slash, name = text.rpartition("/")
    if slash and kind not in ("secret", "configmap"):
        raise Wrong(f"takes SECRET, or configmap/NAME, not {text!r}")
    return {"configMapRef" if kind == "configmap" else "secretRef": {"name": read_object(name)}}


def read_toleration(text: str) -> dict[str, str]:
    """Return the taint of nodes on which pods may run all the same: `KEY`, `KEY=VALUE`, either with `:EFFECT`."""
    pair, colon, effect = text.partition(":")
    key, equals, value = pair.partition("=")
    if not key or (colon and effect not in EFFECTS):
        raise Wrong(f"takes KEY or KEY=VALUE, then :{' or :'.join(EFFECTS)} or nothing, not {text!r}")
    operator = {"operator": "Equal", "value": read_value(value)} if equals else {"operator": "Exists"}
    return {"key": read_key(key), **operator, **drop_empty(effect=effect or None)}


def read_label(text: str) -> tuple[str, str]:
    """Return the key and the value of a label that nodes have."""
    key, value = read_pair(text)
    return read_key(key), read_value(value)


def read_labels(text: str) -> tuple[str, list[str]]:
    """Return the key of a label and the values of which nodes have one: `zone=a,b`."""
    key, values = read_pair(text)
    return read_key(key), [read_value(value) for value in values.split(",")]


def require_nodes(labels: Sequence[tuple[str, list[str]]]) -> dict[str, Any]:
    """Return the affinity to nodes that have one of the values of each label."""
    rules = [{"key": key, "operator": "In", "values": values} for key, values in labels]
    terms = {"nodeSelectorTerms": [{"matchExpressions": rules}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def read_script(text: str) -> tuple[str, str]:
    """Return the name and the text of a file of this machine."""
    path = Path(text)
    try:
        with path.open(encoding="utf-8") as file:
            written = file.read(LONGEST + 1)
        if len(written) > LONGEST:
            raise ValueError(f"more than {LONGEST} letters")
        return path.name, written
    except (OSError, ValueError) as error:  # ValueError: no text, or no path
        raise Wrong(f"takes a file of text that can be read, not {text!r} ({error})") from None


def require_plain(written: str) -> None:
    """Raise ValueError for YAML whose parts name each other, so that few lines are millions, or are nested too deep."""
    depth = 0
    for event in yaml.parse(written, yaml.SafeLoader):
        if name := getattr(event, "anchor", None):
            raise ValueError(f"an anchor or an alias, {name}: write it out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} levels")


def read_patch(text: str) -> dict[str, Any]:
    """Return the object in a file of YAML."""
    _, written = read_script(text)
    try:
        require_plain(written)
        fields = yaml.safe_load(written)
    except (yaml.YAMLError, ValueError) as error:
        raise Wrong(f"takes a file of YAML, not {text!r} ({' '.join(str(error).split())})") from None
    if not isinstance(fields, dict):
        raise Wrong(f"takes a file with the fields of one object, such as spec, not {text!r}")
    return fields


# Which kinds have an option: all, those with pods, those whose pods train, those that run to an end, or those that name
# it in their row.
ALL, PODS, TRAINING, JOBS, NAMED = "all", "pods", "training", "jobs", "named"


class FieldRow(NamedTuple):
    """An option that becomes a field of a specification; join: what makes the field of all values typed."""

    option: str
    metavar: str
    help: str
    field: str
    read: Callable[[str], Any] = str
    join: Callable[[list[Any]], Any] = lambda values: values[-1]


POD_ROWS = (
    FieldRow("--node-selector", "KEY=VALUE", "label of the nodes to run on", "nodeSelector", read_label, dict),
    FieldRow("--node-affinity", "KEY=A,B", "label of the nodes, one of these", "affinity", read_labels, require_nodes),
    FieldRow("--toleration", "KEY[=VALUE][:EFFECT]", "taint of nodes to run on", "tolerations", read_toleration, list),
    FieldRow(
        "--service-account", "NAME", "account of the pods, such as a cloud's identity", "serviceAccountName",
        read_object,
    ),
    FieldRow(
        "--pull-secret", "NAME", "login to the registry of the image", "imagePullSecrets",
        lambda name: {"name": read_object(name)}, list,
    ),
    FieldRow("--priority-class", "NAME", "which pods go before others", "priorityClassName", read_object),
)  # fmt: skip
# Fields of jobs that Jobs, both old operators and TrainJobs call alike; a kind without one says that it `lacks` it.
JOB_ROWS = (
    FieldRow("--deadline", "SECONDS", "how long the job may run", "activeDeadlineSeconds", at_least(1)),
    FieldRow("--ttl", "SECONDS", "how long the job is kept after its end", "ttlSecondsAfterFinished", at_least(0)),
)


def make_parser() -> Parser:
    """Return the parser of the command line."""
    text = "Print a manifest for `kubectl apply -f -`."
    parser = Parser(prog="scripts/manifest.py", description=text, allow_abbrev=False)
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="|".join(KINDS))
    for name, kind in KINDS.items():
        one = kinds.add_parser(name, help=kind.help, description=f"Print {kind.help}.", allow_abbrev=False)
        add_options(one, kind)
        if kind.has_pods:
            scripted, usual = has_option(kind, "--script", NAMED), " ".join(default_command(kind))
            default = f"default: the first --script, else {usual}" if scripted else f"default: {usual}"
            one.add_argument("words", nargs=REMAINDER, metavar="TASK ARGUMENT...", help=f"what pods run; {default}")
    return parser


def has_option(kind: ManifestKind, option: str, group: str) -> bool:
    """Return whether a kind has an option of a group."""
    of_group = {ALL: True, PODS: kind.has_pods, TRAINING: kind.trains, JOBS: kind.runs, NAMED: False}[group]
    return option in kind.options or (of_group and option not in kind.lacks)


def add_options(parser: Parser, kind: ManifestKind) -> None:
    """Add the options that a kind has.

    Defaults are those of the Hugging Face guide to distributed CPUs, but for the directory of the claim, which is where
    the image writes its results; sizes have none.
    """

    def add(name: str, metavar: str, text: str, group: str = PODS, **settings: Any) -> None:
        if has_option(kind, name, group):
            shown = f"{text}; default: %(default)s" if settings.get("default") else text
            parser.add_argument(name, metavar=metavar, help=shown, **settings)

    many: Any = {"action": "append"}
    add("--name", "NAME", "name of the object", ALL, default=kind.default_name or f"transformers-{kind.name}")
    add("--namespace", "NAME", "its namespace; default: that of kubectl", JOBS)
    add("--image", "IMAGE", "image, best with @sha256:...", required=True, type=read_image)
    add("--workers", "N", "number of pods that train", TRAINING, type=at_least(1), default=4)
    processes = "processes of each pod, one for each NUMA node that its cores fill"
    add("--nproc", "N", processes, TRAINING, type=at_least(1))
    sizes: Any = {"required": True} if kind.trains else {}
    add("--cpu", "CPUS", "request and limit of each pod", type=at_least(1), **(sizes or {"default": 1}))
    add("--memory", "BYTES", "request and limit of each pod", type=read_size, **(sizes or {"default": "4Gi"}))
    add("--shm", "BYTES", "size of /dev/shm, part of the memory; default: all of it", type=read_size)
    results = "claim for results and downloads, which all pods mount"
    add("--pvc", "NAME", results, type=read_object, default="transformers-pvc")
    add("--mount", "DIRECTORY", "where they mount it", type=read_path, default=OUTPUT)
    claim = "another claim that all pods mount, for data"
    add("--volume", "CLAIM[/PART]:DIRECTORY[:ro]", claim, type=read_volume, **many)
    add("--disk", "BYTES", "limit of what a pod writes to its node's disk, /tmp and logs", type=read_size)
    add("--script", "FILE", "a file of this machine, in a ConfigMap, for all pods", NAMED, type=read_script, **many)
    for row in POD_ROWS:
        add(row.option, row.metavar, row.help, type=row.read, **many)
    add("--queue", "NAME", "queue of Kueue", JOBS, type=read_object)
    add("--label", "KEY=VALUE", "label of the job and of its pods", type=read_pair, **many)
    add("--annotation", "KEY=VALUE", "annotation of the job and of its pods", type=read_pair, **many)
    add("--env", "NAME=VALUE", "variable of every pod", type=read_variable, **many)
    add("--env-secret", "NAME=SECRET:KEY", "variable of every pod, from a Secret", type=read_secret, **many)
    add("--env-from", "SECRET", "variables of a Secret, or of configmap/NAME", type=read_source, **many)
    add("--uid", "UID", "user of the processes", type=at_least(1), default=Request.uid)
    bounds = "fewest and most pods, or off; default: 1 and --workers, for a script --workers alone"
    add("--elastic", "MIN:MAX", bounds, NAMED, type=read_elastic)
    add("--max-restarts", "N", "restarts before the job fails", NAMED, type=at_least(0), default=10)
    for row in JOB_ROWS:
        add(row.option, row.metavar, row.help, JOBS, type=row.read, **many)
    add("--runtime", "NAME", "ClusterTrainingRuntime, one of torch", NAMED, type=read_object, default=TORCH_DISTRIBUTED)
    add("--patch", "FILE", "fields that replace and complete those of the job, as YAML", ALL, type=read_patch)
    add("--size", "BYTES", "size of the storage", NAMED, default="30Gi")
    add("--storage-class", "NAME", "class of the storage; default: the cluster's", NAMED, type=read_object)


def take_fields(rows: Sequence[FieldRow], typed: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that options set, and take these out of what was typed."""
    values = {row: typed.pop(row.option[2:].replace("-", "_"), None) for row in rows}
    return {row.field: row.join(given) for row, given in values.items() if given}


def make_request(typed: dict[str, Any]) -> Request:
    """Return what was typed as a request; raise Refusal for values that do not go together."""
    names = [name for name, _ in typed.get("script") or []]
    if twice := [name for name in names if names.count(name) > 1]:
        raise Refusal("two scripts have the same name, and pods would have one of them", twice[0], "another file name")
    for key in ("env", "env_secret", "label", "annotation", "script"):
        typed[key] = dict(typed.get(key) or [])
    for name, text in typed["script"].items():
        check_script(name, text)
    check_patch(typed.get("patch") or {})
    pod, limits = take_fields(POD_ROWS, typed), take_fields(JOB_ROWS, typed)
    typed["kind"] = KINDS[typed["kind"]]
    request = Request(**drop_empty(**typed), pod=pod, limits=limits)
    places = [volume.path for volume in request.claims]
    if len({*places}) < len(places):
        raise Refusal("two claims would be mounted in one directory", ", ".join(places), "--volume CLAIM:ANOTHER")
    if (size := sum(len(text.encode()) for text in request.script.values())) > MOST_SCRIPTS:
        remedy = f"an image of your own with them, or --volume; a ConfigMap has room for {MOST_SCRIPTS}"
        raise Refusal("the scripts are too large for a ConfigMap", f"{size} bytes", remedy)
    if request.processes > request.cpu:
        value, remedy = f"{request.processes} processes, {request.cpu} CPUs", f"--cpu {request.processes}"
        raise Refusal("each process needs a core of its own", value, f"{remedy}, or a smaller --nproc")
    low, high = request.elastic or OFF
    if (low, high) != OFF and not low <= request.workers <= high:
        fact = "--workers is not between the fewest and the most pods of --elastic"
        raise Refusal(fact, f"{request.workers}, {low}:{high}", f"--elastic {request.workers}:{request.workers}")
    return request
