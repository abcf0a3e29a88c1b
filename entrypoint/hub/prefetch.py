"""`prefetch TASK...`: the command that brings what a task needs into the cache."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from entrypoint.errors import WORLD, Refusal
from entrypoint.hub.script import Script, read_script
from entrypoint.hub.wanted import FILES, METRIC, NLTK, WEIGHTS, Wanted
from entrypoint.machine.files import can_write, read_text
from entrypoint.machine.identity import find_identity
from entrypoint.machine.image import REBUILD, find_version, list_packages, list_sites
from entrypoint.machine.places import is_mounted, list_caches, mount_points, settle_caches
from entrypoint.needs.copies import name_owners
from entrypoint.needs.data import check_data, find_switched_on
from entrypoint.needs.packages import ask_python, check_task_packages
from entrypoint.needs.script import read_source
from entrypoint.printing.streams import print_note
from entrypoint.settings import overlay
from entrypoint.tasks import job as jobs
from entrypoint.tasks.command import read_program
from entrypoint.tasks.task import place_script
from entrypoint.tasks.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from entrypoint.machine.image import Stack

# What each of the libraries calls it (huggingface_hub/constants.py, datasets/config.py, evaluate/config.py).
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE")
USAGE = "prefetch qa --model_name_or_path MODEL --dataset_name DATASET"


def read_task(words: list[str]) -> jobs.Job:
    """Return the task that is to be fetched for; raise Refusal for anything else."""
    name = words[0] if words else ""
    if name not in TASKS:
        remedy = jobs.suggest(name) if name else USAGE
        raise Refusal("prefetch takes a task and its arguments", name or "nothing", remedy)
    return jobs.Job(jobs.TASK, name, words[1:])


def check_online(environ: Mapping[str, str]) -> None:
    """Raise Refusal if a variable forbids to ask the hub."""
    off = find_switched_on(environ, OFFLINE)
    if off:
        raise Refusal("prefetch asks the hub, and may not", f"{off}={environ[off]}", f"unset {off} for prefetch alone")


def check_caches(caches: Mapping[str, str], writable: Callable[[str], bool], points: list[str]) -> list[str]:
    """Return a note if what is fetched will be lost with the container; raise Refusal where it cannot be written.

    A task would go on with another cache, but what is fetched into that one is of no use to later tasks.
    """
    for path in caches.values():
        if not writable(path):
            remedy = "mount a volume that this user may write: docker run -v cache:/workspace/.cache/huggingface"
            raise Refusal("the cache cannot be written", path, remedy)
    lost = [path for path in caches.values() if not is_mounted(os.path.realpath(path), points)]
    return [f"nothing is mounted at {' and '.join(lost)}: what is fetched is lost with the container"] if lost else []


def read_loaded(path: str, given: Mapping[str, object], stack: Stack) -> Script:
    """Return what the script of a task loads; raise Refusal if it is damaged, or loads nothing by a call known here."""
    source, _ = name_owners(read_source(path), stack, os.path.exists)
    try:
        script = read_script(source, given)
    except SyntaxError as error:
        raise Refusal("the script of the task is damaged", f"{path}: {error}", REBUILD, WORLD) from None
    for note in list_notes(script, os.path.basename(path)):
        print_note(note)
    if not script.wanted and not script.own:
        remedy = "run the task once where it reaches the hub: what it loads stays in the cache"
        raise Refusal("nothing is found that the script of the task fetches", path, remedy)
    return script


def list_notes(script: Script, name: str) -> list[str]:
    """Return a note for each line that loads what cannot be fetched before the script runs."""
    fact = "loads something that the arguments do not name: not fetched"
    return [f"line {line} of {name} {fact}" for line in script.lines]


def list_wanted(script: Script, exists: Callable[[str], bool], models: str | None = None) -> list[Wanted]:
    """List what a script fetches from the hub; a directory of the image or a volume is there already.

    models: where transformers keeps models, if huggingface_hub may not know that: TRANSFORMERS_CACHE is not its own.
    """
    wanted = [each for each in script.wanted if each.kind in (METRIC, NLTK) or not exists(each.name)]
    return [each._replace(cache=each.cache or models) if each.kind in (FILES, WEIGHTS) else each for each in wanted]


def make_plan(task: str, script: Script, caches: Mapping[str, str]) -> str:
    """Return what the command that fetches has to know, as JSON; whole: whether that is all that the task loads."""
    wanted = [each._asdict() for each in list_wanted(script, os.path.exists, caches.get("models"))]
    return json.dumps({"task": task, "wanted": wanted, "whole": not script.lines, "caches": [*caches.values()]})


def add_token(environ: Mapping[str, str], given: Mapping[str, object]) -> dict[str, str]:
    """Return the environment with the token that is among the arguments: on a command line everybody could read it."""
    token = given.get("token")
    return {**environ, "HF_TOKEN": token} if isinstance(token, str) and token else dict(environ)


def prepare_prefetch(
    words: list[str], environ: Mapping[str, str], stack: Stack, root: str
) -> tuple[jobs.Job, dict[str, str]]:
    """Return the job that fetches for a task, and its environment; raise Refusal if it cannot."""
    job = read_task(words)
    check_online(environ)
    points = mount_points(read_text("/proc/self/mountinfo"))
    settled = settle_caches({**environ, **find_identity(environ).variables}, stack.transformers)
    caches = list_caches(overlay(environ, settled), stack.transformers)
    for note in check_caches(caches, can_write, points):
        print_note(note)
    sites = list_sites(stack, environ)
    datasets = find_version(sites, "datasets")
    check_task_packages(job.name, stack, datasets, lambda: list_packages(sites), lambda: ask_python(environ))
    program = read_program(job, stack, root, many=False)
    check_data(job.name, program.given, datasets, overlay(environ, settled), os.path.exists)
    script = read_loaded(place_script(job.name, TASKS[job.name], stack), program.given, stack)
    words = [f"{root}/prefetch.py", make_plan(job.name, script, caches)]
    return jobs.Job(jobs.PLAIN, "python3", words), add_token(environ, program.given)
