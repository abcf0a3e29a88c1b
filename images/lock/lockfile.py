"""The lock as a file: everything that decides an image's bytes, written beside the image and inside it."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version as installed
from typing import Any

from images.base.apt import Choice, Deb
from images.host.errors import UserFault
from images.lock.wheel_tags import Artifact
from images.oci import reference
from images.oci.layer import EPOCH, ZSTD_LEVEL, ZSTD_WORKERS
from images.oci.manifest import Descriptor, Manifest
from images.plan.catalog import Catalog
from images.plan.planner import Plan, Request, resolve

FORMAT = 1
MACHINE = "x86_64"
# What the user may ask for again beside a lock, if it is what the lock says.
ASKED = ("torch", "transformers", "python", "base", "backend")


@dataclass(frozen=True, kw_only=True)
class Lock:
    """Everything that decides an image's Python side; equal artifacts make equal images.

    `undated` packages came from a place that does not say when: a folder, or an index without upload times.
    """

    torch: str
    transformers: str
    python: str
    artifacts: tuple[Artifact, ...]
    undated: tuple[str, ...] = ()


@dataclass(frozen=True)
class Archive:
    """The examples' archive: its file name in the store, and its sha256."""

    filename: str
    sha256: str


@dataclass(frozen=True)
class Standing:
    """Somebody else's base: its name in a registry (None: it came from disk), its manifest, and what is kept of it.

    `kept` are the planned packages that it has at the planned version, so that they are not added again.
    """

    reference: str | None
    manifest: Manifest
    kept: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Locked:
    """A plan and every file that it takes; without a `base` of others it is made from the `debs`."""

    plan: Plan
    lock: Lock
    debian: Choice
    examples: Archive | None
    base: Standing | None = None

    @property
    def added(self) -> tuple[Artifact, ...]:
        """What goes in: every artifact but those that the base has."""
        kept = self.base.kept if self.base else ()
        return tuple(artifact for artifact in self.lock.artifacts if artifact.name not in kept)

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
    plan, below = locked.plan, {"base": asdict(locked.base)} if locked.base else {}
    return {
        **below,
        "format": FORMAT,
        "machine": MACHINE,
        "plan": {
            "torch": str(plan.torch.version),
            "transformers": str(plan.transformers.version),
            "python": plan.python,
            "base": _base_name(locked),
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


def _base_name(locked: Locked) -> str:
    """Say what to ask for: a base from disk by its digest, since a lock holds no place."""
    if locked.base is None or locked.plan.base_name == "intel":
        return locked.plan.base_name
    return locked.base.reference or locked.base.manifest.digest


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
        asked = _named(request.base) if name == "base" else getattr(request, name)
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


def _on_disk(base: str | None) -> bool:
    return base is not None and not isinstance(reference.parse(base), reference.Remote)


def _named(base: str | None) -> str | None:
    """Write the base that was asked for as a lock does; one on disk is compared by its digest, later."""
    if base in (None, "debian", "intel"):
        return base
    return None if _on_disk(base) else str(reference.parse(str(base)))


def _standing(raw: Mapping[str, Any]) -> Standing:
    found = raw["manifest"]
    parts = [Descriptor(**row) for row in (found["config"], *found["layers"])]
    digests = [found["digest"], *(part.digest for part in parts)]
    if not all(reference.DIGEST.fullmatch(digest) for digest in digests):
        raise ValueError("a digest of the base")
    return Standing(raw["reference"], Manifest(found["digest"], parts[0], tuple(parts[1:])), tuple(raw["kept"]))


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
    if _on_disk(request.base):
        plan = replace(plan, base_reference=request.base)
    artifacts = tuple(Artifact(**row, url="") for row in raw["artifacts"])
    versions = {artifact.name: artifact.version for artifact in artifacts}
    lock = Lock(
        torch=versions["torch"], transformers=versions["transformers"], python=plan.python, artifacts=artifacts,
        undated=tuple(raw.get("undated", ())),
    )  # fmt: skip
    base = _standing(raw["base"]) if raw.get("base") else None
    if (base is None) != (planned["base"] == "debian"):
        raise ValueError("a base without its digests")
    debian = Choice(tuple(Deb(**row) for row in raw["debs"]), str(raw["sources.list"]))
    return Locked(plan=plan, lock=lock, debian=debian, examples=archive, base=base)
