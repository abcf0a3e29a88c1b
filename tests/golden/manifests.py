"""The manifests of all kinds with nearly all options: what is typed, and how their golden data are made.

One function writes the pods of all kinds, and one the fields of jobs, so all their options are in the golden data of
one kind alone: a new one changes one file. That the others have them, too, is in
tests/unit/manifests/test_definitions.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from manifests.kinds import KINDS
from manifests.options import JOBS, has_option
from tests.golden.data import as_json
from tests.support.manifests import write

USER = ("--uid", "123456")  # in all of them: the usual one is in docs/reference.md
OF_ALL = ("--pvc", "mine", "--mount", "/data", *USER)
OF_PODS = """
    --shm 1Gi --node-selector a=b --env A=b --env-secret WANDB_API_KEY=wandb:key --env-secret HF_TOKEN=hf
    --volume corpus/text:/corpus:ro --disk 20Gi --toleration dedicated=training:NoSchedule --toleration spot
    --node-affinity zone=a,b --service-account trainer --pull-secret registry --label team=nlp --annotation 'note=a b'
"""
EVERYTHING = (*OF_ALL, *shlex.split(OF_PODS))
# Options of pods that a TrainJob does not have.
PODS = ("--priority-class", "low", "--env-from", "wandb", "--env-from", "configmap/settings")  # fmt: skip
JOB = ("--namespace", "kubeflow", "--queue", "training", "--workers", "3")
ENDS = {"--deadline": "3600", "--ttl": "60"}  # what is typed for each row of options.JOB_ROWS


def list_ends(kind: str) -> tuple[str, ...]:
    """Return what is typed for the fields of jobs that a kind has."""
    return tuple(
        word for option, value in ENDS.items() if has_option(KINDS[kind], option, JOBS) for word in (option, value)
    )


TASK = ("qa", "--bf16", "--output_dir", "/data/qa")
RANKS, RESTARTS, SIZES = ("--nproc", "2"), ("--max-restarts", "3"), ("--cpu", "2", "--memory", "8Gi")


def whole(kind: str, *words: str, pods: Sequence[str] = PODS) -> tuple[str, ...]:
    """Return what is typed for a kind with all options of its own; pods: those of pods that not each kind has."""
    return (kind, *EVERYTHING, *pods, *JOB, *list_ends(kind), *words, *TASK)


FORMS = {
    "pytorchjob": ("pytorchjob",),
    "pytorchjob, all": whole("pytorchjob", "--elastic", "2:5", *RESTARTS),
    "pytorchjob, fixed": ("pytorchjob", *EVERYTHING, *JOB, "--elastic", "off", *RANKS, *TASK),
    "pytorchjob-fixed, all": ("pytorchjob", *USER, "--workers", "3", "--elastic", "off", *RANKS),
    "pytorchjob, waits": ("pytorchjob", "--workers", "4", "--elastic", "2:6"),
    "pytorchjob, one": ("pytorchjob", "--workers", "1", "--elastic", "off"),
    "script, all": ("pytorchjob", *USER, "--volume", "corpus:/corpus", "train.py", "--data", "/corpus"),
    "trainjob": ("trainjob",),
    "trainjob, all": whole("trainjob", *RANKS, "--runtime", "multinode", pods=()),
    "runtime": ("runtime",),
    "runtime, all": ("runtime", *EVERYTHING, *PODS, "--workers", "3", *RESTARTS, *TASK),
    "mpijob": ("mpijob",),
    "job": ("job",),
    "job, all": whole("job", *RANKS, *RESTARTS),
    "job-sweep, all": ("job", *USER, *JOB, "--env", "MULTINODE_APART=1", *RESTARTS, "glue", "--bf16"),
    "mpijob, all": whole("mpijob", *RANKS, *RESTARTS),
    "prefetch": ("prefetch",),
    "prefetch, all": ("prefetch", *EVERYTHING, *PODS, *list_ends("prefetch"), "--queue", "q", *SIZES, "qa"),
    "pvc": ("pvc",),
    "pvc-usual, all": ("pvc",),
    "pvc, all": ("pvc", "--namespace", "a", "--size", "1Ti", "--storage-class", "nfs"),
}


# The kind whose golden data have all options of pods.
WHOLE = "job"


def produce() -> dict[str, str]:
    """Make the text of each kind with all options of its own, and the notes of all forms: name of the file -> text."""
    forms = {name.removesuffix(", all"): words for name, words in FORMS.items() if name.endswith(", all")}
    texts = {f"{name}.yaml": write(*(words if name == WHOLE else shorten(words))).out for name, words in forms.items()}
    notes = {name: write(*words).err.splitlines() for name, words in FORMS.items()}
    return {**texts, "notes.json": as_json(notes)}


def shorten(words: tuple[str, ...]) -> list[str]:
    """Return what is typed for a kind without most options of pods and of jobs."""
    text = "\0".join(words).replace("\0".join(EVERYTHING), "\0".join(OF_ALL))
    for left_out in (PODS, list_ends(words[0])):
        text = text.replace("\0".join(["", *left_out]), "")
    return text.split("\0")
