"""Whether the script of a task can run in this image: it is there, finds its packages, and does not fail with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.errors import Refusal
from entrypoint.faults.scripts import FAIL_WITH_RANKS, find_flaws
from entrypoint.machine.files import read_file
from entrypoint.machine.image import find_version, list_packages, list_sites
from entrypoint.needs.packages import ask_python, check_task_packages
from entrypoint.numbers import is_true
from entrypoint.tasks.task import DIRECTORY, TRAINER, place_script
from entrypoint.tasks.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from entrypoint.machine.image import Stack
    from entrypoint.tasks.task import Task

# The flags by which the Trainer evaluates; either of the last two is enough (transformers/training_args.py).
EVALUATES = ("do_eval", "eval_strategy", "evaluation_strategy")


def check_image(name: str, stack: Stack, environ: Mapping[str, str]) -> str:
    """Return the source of a task's script; raise Refusal if that or a package it needs is not there, or they clash."""
    path = place_script(name, TASKS[name], stack)
    source = read_source(path)
    sites = list_sites(stack, environ)
    check_task_packages(
        name, stack, find_version(sites, "datasets"), lambda: list_packages(sites), lambda: ask_python(environ)
    )
    check_flaws(name, path, source, sites)
    return source


def read_source(path: str) -> str:
    """Return the source of a task's script; raise Refusal for one that the examples of the image do not have."""
    source = read_file(path)
    if source is None:
        above = path.partition(f"/{DIRECTORY}/")[0]
        remedy = f"mount examples with that script at {above}, or build the image with --examples and their directory"
        raise Refusal("the examples in this image do not have the script of the task", path, remedy)
    return source


def check_flaws(name: str, path: str, source: str, sites: Sequence[str]) -> None:
    """Raise Refusal for a task whose script fails with the packages of the image, after minutes of loading."""
    flaws = list(find_flaws(source, lambda package: find_version(sites, package)))
    if not flaws:
        return
    found = "; ".join(f"{flaw.text} with {package}" for flaw, package in flaws)
    instead = "; ".join(flaw.instead for flaw, _ in flaws)
    remedy = f"a copy of it with {instead}, mounted at {path}; or an image with another --transformers"
    raise Refusal(f"the script of {name} is known to fail in this image", found, remedy)


def check_evaluation(name: str, source: str, given: Mapping[str, object], ranks: int) -> None:
    """Raise Refusal for a task of several ranks that would train for an epoch, and then fail as they evaluate.

    Without the Trainer, a script always evaluates.
    """
    remedy = next((remedy for text, remedy in FAIL_WITH_RANKS.items() if text in source), None)
    flags = [f"--{each}" for each in EVALUATES if is_true(given.get(each))]
    if ranks < 2 or remedy is None or (TASKS[name].kind == TRAINER and not flags):
        return
    value = ", ".join([*flags, f"{ranks} ranks"])
    raise Refusal(
        f"the script of {name} cannot evaluate with several ranks",
        value,
        f"{remedy}; or a single rank: --nproc 1 on one node",
    )


def say_script(task: Task, stack: Stack, sites: Sequence[str]) -> str:
    """Return what is wrong with the script of a task; empty if nothing is, or if the image has no examples."""
    source = read_file(f"{stack.examples}/{DIRECTORY}/{task.script}")
    if source is None:
        return "lacks its script" if stack.examples else ""
    flaws = find_flaws(source, lambda package: find_version(sites, package))
    packages = ", ".join(package for _, package in flaws)
    return f"fails with {packages}" if packages else ""
