"""What the user asked for, and whether it can be understood at all."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from packaging.version import Version

from images.plan.catalog import Catalog
from images.plan.compatibility import Constraints
from images.plan.nearest import close_match, nearest_version

DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Directories of the examples for images and speech, whose requirements no image has.
MEDIA = (
    "audio-classification", "contrastive-image-text", "image-classification", "image-pretraining",
    "instance-segmentation", "object-detection", "semantic-segmentation", "speech-pretraining", "speech-recognition",
)  # fmt: skip
# A fault in three parts: fact, value, remedy.
Problem = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None and () stand for the default."""

    torch: str | None = None
    transformers: str | None = None
    python: str | None = None
    base: str | None = None
    backend: str | None = None
    tasks: tuple[str, ...] = ()
    examples: str | None = None
    tag: str | None = None
    wheelhouse: str | None = None
    as_of: str | None = None
    trim: bool | None = None
    bytecode: bool | None = None

    @property
    def constraints(self) -> Constraints:
        """Return what was asked for beside the two versions."""
        return Constraints(python=self.python, base=self.base, backend=self.backend)


def problems(request: Request, catalog: Catalog, today: datetime.date) -> list[Problem]:
    """Return every value that cannot be understood or does not exist, such as a day after `today` (UTC)."""
    return [
        *_version("torch", request.torch, catalog.default_torch, catalog.torch),
        *_version("transformers", request.transformers, catalog.default_transformers, catalog.transformers),
        *_base(request, catalog),
        *_day(request.as_of, catalog, today),
        *(problem for task in request.tasks for problem in _task(task, catalog)),
    ]


def _version(name: str, asked: str | None, default: Version, known: Collection[Version]) -> Iterable[Problem]:
    if asked is None:
        return
    try:
        version = Version(asked)
    except ValueError:  # also of a number with more digits than Python reads
        yield f"that is not a version of {name}", repr(asked), f"--{name} {default}"
        return
    if version not in known:
        near = nearest_version(version, known)
        yield f"no such release of {name} in images/versions.toml", asked, f"--{name} {near}"


def _base(request: Request, catalog: Catalog) -> Iterable[Problem]:
    if request.python is not None and not re.fullmatch(r"3\.[0-9]{1,3}", request.python):
        yield "that is not a minor release of Python", repr(request.python), f"--python {catalog.debian.python}"
    if request.base is not None and not request.base.strip():
        yield "that is not a base", repr(request.base), "--base debian"
    elif request.base not in (None, "debian", "intel") and request.python is None:
        remedy = f"--base {request.base} --python {catalog.debian.python}"
        yield "the Python of an image must be given", str(request.base), remedy
    if request.backend not in (None, "ccl", "gloo"):
        yield "no such backend on a CPU", repr(request.backend), "--backend gloo"


def _day(text: str | None, catalog: Catalog, today: datetime.date) -> Iterable[Problem]:
    if text is None:
        return
    try:
        # Newer releases of Python read more forms than this one (datetime, "fromisoformat").
        day = datetime.date.fromisoformat(text) if DAY.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None:
        yield "that is not a date", repr(text), f"--as-of {catalog.torch[catalog.default_torch].released}"
    elif day > today:
        yield (
            "nothing can be known as of a day that has not come",
            f"{day} (today: {today}, UTC)",
            f"--as-of {today - datetime.timedelta(days=1)}",
        )


def _task(task: str, catalog: Catalog) -> Iterable[Problem]:
    if task in MEDIA:
        remedy = "pip install what `docker run IMAGE tasks` names for it, in an image FROM this one"
        yield "the builder has the requirements of text tasks only", f"--tasks {task}", remedy
    elif task not in catalog.tasks:
        guess = close_match(task, catalog.tasks.keys())
        remedy = f"--tasks {guess}" if guess else "--tasks with one or more of " + ", ".join(catalog.tasks)
        yield "no directory of the examples for text has that name", repr(task), remedy
