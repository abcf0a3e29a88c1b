"""What the pods run: the task and its arguments, as the entrypoint reads them, and whether their results are kept."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace

from entrypoint.errors import NOT_FOUND, Refusal
from entrypoint.machine.places import HUB_CACHES, OLD_CACHE
from entrypoint.tasks import job as jobs
from entrypoint.tasks.aliases import spell_out, split_flags
from entrypoint.tasks.arguments import find_output, is_argfile, read_given
from entrypoint.tasks.defaults import OUTPUT, OUTPUT_DIR
from entrypoint.tasks.prefetch import check_online
from entrypoint.tasks.table import OTHER, find_task
from manifests.fields import is_text, token_refusal
from manifests.request import DOWNLOADS, JOBS, MPI, MPIJOB, PREFETCH, Job

GUIDE = ("qa", "--bf16")  # what the Hugging Face guide trains
# Programs of the image that somebody may start in the place of a task.
PROGRAMS = ("torchrun", "python", "python3", "accelerate", "bash", "sh")
# Those that start a script themselves, beside Python.
STARTERS = ("torchrun", "accelerate")
# Only the image knows which of these it has, and each is a task there; the tasks for text are known here.
SCRIPTS = "/workspace/transformers/examples/pytorch/DIRECTORY/run_NAME.py"
# What a job has no use for: it lists, waits for others or starts them.
OTHERS = (jobs.WORKER, jobs.LAUNCH, jobs.LIST, jobs.SSH, jobs.USAGE)
# maxItems and maxLength of spec.trainer.args in the definition of TrainJob (v2.3.0).
MOST_WORDS, LONGEST_WORD = 128, 1 << 20
# Where the hub's libraries keep what they download (list_caches in entrypoint/machine/places.py).
CACHES = ("HF_HOME", "HF_DATASETS_CACHE", OLD_CACHE, *HUB_CACHES)
# Arguments of the examples and of the Trainer that are a token of the hub.
TOKENS = ("token", "hub_token", "use_auth_token", "push_to_hub_token")
FLAGS = ("", "True", "true", "False", "false")  # that a script of an older release took in the place of a token


def choose_words(kind: str, typed: Sequence[str]) -> tuple[str, ...]:
    """Return the task and its arguments: those that were typed, else the guide's."""
    words = tuple(typed[1:] if typed[:1] == ["--"] else typed)
    if words[:1] == (jobs.PREFETCH,):
        raise Refusal("a manifest names the command `prefetch` itself", " ".join(words), "the task alone: qa")
    return words or (GUIDE[:1] if kind == PREFETCH else GUIDE)


def finish_task(job: Job) -> Job:
    """Return the job with a directory for its results, where its task has one and its arguments name none.

    Raise Refusal for a task that the entrypoint would refuse, or whose results would be lost with the pod.
    """
    for word in job.words:
        if not is_text(word) or len(word) > LONGEST_WORD:
            raise Refusal("an argument is no text that a container can be given", repr(word[:40]), "a shorter one")
    check_task(job)
    job = replace(job, words=(*job.words, *write_output(job)))
    if len(job.words) > MOST_WORDS:
        fact = f"a job takes at most {MOST_WORDS} arguments"
        raise Refusal(fact, len(job.words), "a file of arguments on the claim: qa args.json")
    check_output(job)
    return job


def check_task(job: Job) -> None:
    """Raise Refusal for a task that the entrypoint would refuse, and for one that tells a secret."""
    if job.words[0].startswith("-"):
        fact = "an option of manifest.py is unknown, or comes after the task"
        raise Refusal(fact, job.words[0], f"--help shows the options of {job.kind}; those of the task come after it")
    read = read_task(job.words)
    if read.kind in OTHERS or (job.kind == PREFETCH and read.kind != jobs.TASK):
        wanted = "fetched" if job.kind == PREFETCH else "trained in the pods of a job"
        raise Refusal(f"this is nothing that can be {wanted}", job.words[0], "a task, such as qa, glue or mlm")
    if job.kind == PREFETCH:
        check_online(job.pod.environ)
        check_downloads(job)
    check_launcher(job)
    check_token(job)


def check_launcher(job: Job) -> None:
    """Raise Refusal for a program that would train by itself in the small pod of a launcher, beside idle workers."""
    program = posixpath.basename(job.words[0])
    starts = job.words[0].endswith(".py") or not (program.startswith("python") or program in STARTERS)
    if starts or (job.kind != MPIJOB and job.policy != MPI):
        return
    script = next((word for word in job.words[1:] if word.endswith(".py")), "train.py")
    fact = "this program would train in the launcher alone, for mpirun starts ranks of tasks and scripts only"
    raise Refusal(fact, job.words[0], f"the script itself: {script}")


def check_downloads(job: Job) -> None:
    """Raise Refusal for downloads that would not be on the claim, for their pod is the only one that has them then."""
    environ = job.pod.environ
    places = {name: environ[name] for name in CACHES if name in environ}
    away = next((name for name, place in places.items() if not is_within(place, job.pod.mount)), None)
    if away:
        value = f"--env {away}={places[away]}, not in {job.pod.mount}"
        raise Refusal("downloads would not be on the claim, and be lost with the pod", value, f"leave {away} out")


def check_token(job: Job) -> None:
    """Raise Refusal for a token among the arguments: whoever may read the job would have it."""
    given = read_given(list(job.words[1:]), lambda _: None, strict=False)
    found = [name for name in TOKENS if isinstance(given.get(name), str) and given[name] not in FLAGS]
    if found:
        raise token_refusal(f"--{found[0]}")


def read_task(words: Sequence[str]) -> jobs.Job:
    """Return the command as the entrypoint reads it; a program is known by its path, or one of a few names."""
    if words[0].endswith(".py"):
        return jobs.Job(jobs.SCRIPT, words[0], list(words[1:]))
    try:
        return jobs.read_job(list(words), {}, lambda name, _: name if "/" in name or name in PROGRAMS else None)
    except Refusal as refusal:
        if refusal.code != NOT_FOUND:
            raise
        remedy = f"{refusal.remedy}; a script of the image for images or speech by its path: {SCRIPTS}"
        raise Refusal(refusal.fact, refusal.value, remedy, refusal.code) from None


def write_output(job: Job) -> list[str]:
    """Return the argument that gives results a directory of the job's name: two jobs of one task share the claim.

    Empty for what has no such argument, for one that is there (argparse takes its beginning for the whole), and for a
    runtime, whose jobs have names of their own.
    """
    read = read_task(job.words)
    if read.kind != jobs.TASK or job.kind not in JOBS or is_argfile(read.words) or find_task(read.name).kind == OTHER:
        return []
    given = read_given(read.words, lambda _: None, strict=False)
    if any(name and OUTPUT_DIR.startswith(name) for name in given):
        return []
    return [f"--{OUTPUT_DIR}", f"{job.pod.mount}/{job.name}"]


def is_within(path: str, directory: str) -> bool:
    """Return whether a path leads to a directory or into it, with `..` and `//` resolved; a relative one does not."""
    resolved = "/" + posixpath.normpath(path).lstrip("/")
    return path.startswith("/") and f"{resolved}/".startswith(f"{directory}/")


def check_output(job: Job) -> None:
    """Raise Refusal for a task whose results do not go to the claim; the root of the container is read-only."""
    read = read_task(job.words)
    if read.kind != jobs.TASK or job.kind == PREFETCH or is_argfile(read.words):
        return
    flags = [flag._replace(name=spell_out(flag.name)) for flag in split_flags(read.words)]
    words = [word for flag in flags for word in flag.words()]
    output = find_output(read_given(words, lambda _: None, strict=False)) or f"{OUTPUT}/{read.name}"
    remedy = f"--{OUTPUT_DIR} {job.pod.mount}/{read.name}"
    if is_within(output, f"{job.pod.mount}/{DOWNLOADS}"):
        raise Refusal("downloads are in this directory of the claim", output, remedy)
    if not is_within(output, job.pod.mount):
        fact = "results would not be on the claim, and be lost with the pod"
        raise Refusal(fact, f"{output}, not in {job.pod.mount}", remedy)
