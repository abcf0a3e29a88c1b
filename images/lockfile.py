"""The lock as a file: everything that decides an image's bytes, written beside the image and inside it."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version as installed
from typing import Any

from images.catalog import Catalog
from images.choose import Artifact
from images.debs import Choice, Deb
from images.errors import UserFault
from images.layer import EPOCH, ZSTD_LEVEL, ZSTD_WORKERS
from images.lock import Lock
from images.plan import Plan, Request, resolve

FORMAT = 1
MACHINE = "x86_64"
# What the user may ask for again beside a lock, if it is what the lock says.
ASKED = ("torch", "transformers", "python", "base", "backend")


@dataclass(frozen=True)
class Archive:
    """The examples' archive: its file name in the store, and its sha256."""

    filename: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Locked:
    """A plan and every file that it takes."""

    plan: Plan
    lock: Lock
    debian: Choice
    examples: Archive | None

    @property
    def debs(self) -> tuple[Deb, ...]:
        """The packages of the base."""
        return self.debian.debs


def text(locked: Locked, *, beside: bool = False) -> str:
    """Write a lock, in one way only; it holds no place on any machine or network.

    The one beside an image names the packages from undated places, too; inside, that would make equal images differ.
    """
    undated = {"undated": list(locked.lock.undated)} if beside else {}
    return json.dumps({**fields(locked), **undated}, indent=1, sort_keys=True) + "\n"


def fields(locked: Locked) -> dict[str, Any]:
    """Say what decides the bytes: the plan, the files by sha256, and the tools whose release shows in them."""
    plan = locked.plan
    return {
        "format": FORMAT,
        "machine": MACHINE,
        "plan": {
            "torch": str(plan.torch.version),
            "transformers": str(plan.transformers.version),
            "python": plan.python,
            "base": "debian",
            "backend": plan.backend,
            "as_of": plan.as_of.isoformat(),
            "family_as_of": plan.family_as_of.isoformat(),
            "trim": plan.trim,
            "bytecode": plan.bytecode,
        },
        "artifacts": [{k: v for k, v in asdict(a).items() if k != "url"} for a in locked.lock.artifacts],
        "debs": [asdict(deb) for deb in locked.debs],
        "sources.list": locked.debian.sources,
        "examples": asdict(locked.examples) if locked.examples else None,
        "tools": tools(),
    }


def tools() -> dict[str, Any]:
    """Name what shows in the bytes of a compressed layer."""
    return {
        "zstandard": installed("zstandard"),
        "zstd_level": ZSTD_LEVEL,
        "zstd_workers": ZSTD_WORKERS,
        "epoch": EPOCH,
    }


def read(content: str, where: str, request: Request, catalog: Catalog) -> Locked:
    """Read a lock back.

    Raises UserFault when it is no lock, is of another format or machine, or differs from what was asked for or from
    the tools here, naming every difference.
    """
    raw = _parse(content, where)
    drift = list(_drift(raw, request))
    if drift:
        remedy = "leave those options out, or make a new lock: build.py lock"
        raise UserFault(f"{where} does not fit", "; ".join(drift), remedy)
    try:
        return _locked(raw, request, catalog)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        remedy = "make a new lock: build.py lock"
        raise UserFault("the lock is damaged", f"{where}: {type(error).__name__}: {error}", remedy) from error


def _parse(content: str, where: str) -> dict[str, Any]:
    remedy = "a lock.json that build.py wrote, or leave --lock out"
    try:
        raw = json.loads(content)
    except ValueError as error:
        raise UserFault("that is not a lock", f"{where}: {error}", remedy) from error
    if not isinstance(raw, dict) or "format" not in raw:
        raise UserFault("that is not a lock", where, remedy)
    if raw["format"] != FORMAT:
        fact = f"the lock has another format than this release of multinode reads ({FORMAT})"
        remedy = "the release of multinode that wrote it, or make a new lock: build.py lock"
        raise UserFault(fact, f"{where}: {raw['format']}", remedy)
    if raw.get("machine") != MACHINE:
        fact = f"the lock is for another kind of machine than {MACHINE}"
        raise UserFault(fact, f"{where}: {raw.get('machine')} (here: {platform.machine()})", "build.py lock")
    return raw


def _drift(raw: Mapping[str, Any], request: Request) -> Iterable[str]:
    planned = raw.get("plan")
    planned = planned if isinstance(planned, dict) else {}
    for name in ASKED:
        asked = getattr(request, name)
        if asked is not None and asked != planned.get(name):
            yield f"--{name} {asked}, but the lock has {planned.get(name)}"
    if request.tasks:
        yield f"--tasks {','.join(request.tasks)}, but a lock has its packages already"
    if request.as_of:
        yield f"--as-of {request.as_of}, but the lock has {planned.get('as_of')}"
    there, here = raw.get("tools"), tools()
    there = there if isinstance(there, dict) else {}
    for name, value in here.items():
        if there.get(name) != value:
            yield f"{name} {value} here, {there.get(name)} in the lock"


def _locked(raw: Mapping[str, Any], request: Request, catalog: Catalog) -> Locked:
    planned = raw["plan"]
    asked = {name: planned[name] for name in (*ASKED, "trim", "bytecode")}
    archive = Archive(**raw["examples"]) if raw["examples"] else None
    examples = "none" if archive is None else f"sha256:{archive.sha256}"
    plan = resolve(Request(**asked, examples=examples, tag=request.tag, wheelhouse=request.wheelhouse), catalog)
    plan = replace(
        plan,
        as_of=datetime.date.fromisoformat(planned["as_of"]),
        family_as_of=datetime.date.fromisoformat(planned["family_as_of"]),
    )
    artifacts = tuple(Artifact(**row, url="") for row in raw["artifacts"])
    versions = {artifact.name: artifact.version for artifact in artifacts}
    lock = Lock(
        torch=versions["torch"], transformers=versions["transformers"], python=plan.python, artifacts=artifacts,
        undated=tuple(raw.get("undated", ())),
    )  # fmt: skip
    debian = Choice(tuple(Deb(**row) for row in raw["debs"]), str(raw["sources.list"]))
    return Locked(plan=plan, lock=lock, debian=debian, examples=archive)
