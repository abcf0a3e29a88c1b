"""What the user asked for, and whether it can be understood at all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from packaging.version import Version

from images.model import Request
from images.plan.catalog import Catalog
from images.plan.nearest import close_match, nearest_version

# Directories of the examples for images and speech, whose requirements no image has.
MEDIA = (
    "audio-classification", "contrastive-image-text", "image-classification", "image-pretraining",
    "instance-segmentation", "object-detection", "semantic-segmentation", "speech-pretraining", "speech-recognition",
)  # fmt: skip


class Problem(NamedTuple):
    """A value that cannot be used, in the three parts of a message.

    `corrected` is the request with the value that the remedy names, where that is a version or a day.
    """

    fact: str
    value: str
    remedy: str
    corrected: Request | None = None


def problems(request: Request, catalog: Catalog) -> list[Problem]:
    """Return every value that cannot be understood or does not exist; selection.day_problems has those of the day."""
    return [
        *_version("torch", request, catalog.default_torch, catalog.torch),
        *_version("transformers", request, catalog.default_transformers, catalog.transformers),
        *_constraints(request, catalog),
        *(problem for task in request.tasks for problem in _task(task, catalog)),
    ]


def _version(name: str, request: Request, default: Version, known: Collection[Version]) -> Iterable[Problem]:
    asked: str | None = getattr(request, name)
    if asked is None:
        return
    try:
        version = Version(asked)
    except ValueError:  # also of a number with more digits than Python reads
        fact, value, instead = f"that is not a version of {name}", repr(asked), default
    else:
        if version in known:
            return
        fact, value = f"no such release of {name} in images/versions.toml", asked
        instead = nearest_version(version, known)
    text = str(instead)
    corrected = replace(request, torch=text) if name == "torch" else replace(request, transformers=text)
    yield Problem(fact, value, f"--{name} {text}", corrected)


def _constraints(request: Request, catalog: Catalog) -> Iterable[Problem]:
    if request.python is not None and not re.fullmatch(r"3\.[0-9]{1,3}", request.python):
        remedy = f"--python {catalog.debian.python}"
        yield Problem("that is not a minor release of Python", repr(request.python), remedy)
    if request.base is not None and not request.base.strip():
        yield Problem("that is not a base", repr(request.base), "--base debian")
    elif request.base not in (None, "debian", "intel") and request.python is None:
        remedy = f"--base {request.base} --python {catalog.debian.python}"
        yield Problem("the Python of an image must be given", str(request.base), remedy)
    if request.backend not in (None, "ccl", "gloo"):
        yield Problem("no such backend on a CPU", repr(request.backend), "--backend gloo")


def _task(task: str, catalog: Catalog) -> Iterable[Problem]:
    if task in MEDIA:
        remedy = "pip install what `docker run IMAGE tasks` names for it, in an image FROM this one"
        yield Problem("the builder has the requirements of text tasks only", f"--tasks {task}", remedy)
    elif task not in catalog.tasks:
        guess = close_match(task, catalog.tasks.keys())
        remedy = f"--tasks {guess}" if guess else "--tasks with one or more of " + ", ".join(catalog.tasks)
        yield Problem("no directory of the examples for text has that name", repr(task), remedy)
