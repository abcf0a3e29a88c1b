"""Plan -> Lock: every file that goes in, by sha256, resolved by uv as of a day."""

from __future__ import annotations

import datetime
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from images.host import process
from images.host.errors import UserFault
from images.host.pip_config import Sources
from images.host.store import Store
from images.lock import uv_errors, wheelhouse
from images.lock.files import TORCH_INDEX, gone
from images.lock.lockfile import Lock
from images.lock.wheel_tags import choose
from images.plan.catalog import SourceOnly
from images.plan.planner import FAMILY, Plan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def make(plan: Plan, sources: Sources, store: Store, environ: Mapping[str, str]) -> Lock:
    """Resolve a plan, or take the resolution of the same question from the store.

    Raises WorldFault when an index cannot be reached, UserFault when nothing fits or the result would be for a GPU.
    """
    sources = _with_wheelhouse(sources, plan.wheelhouse)
    question = [_question(plan), asdict(sources), _listing(sources.links)]
    packages = store.cached("locks", question, lambda: _resolve(plan, sources, store.root, environ)).value
    if plan.wheelhouse:
        pins = [(str(package["name"]), str(package["version"])) for package in packages]
        wheelhouse.refuse(Path(plan.wheelhouse), pins, plan.python, plan.base.glibc)
    artifacts = tuple(choose(package, plan.python, plan.base.glibc, plan.wheelhouse) for package in packages)
    dated = {file["sha256"] for package in packages for file in package["files"] if file["dated"]}
    return Lock(
        torch=_version(packages, "torch"),
        transformers=_version(packages, "transformers"),
        python=plan.python,
        artifacts=artifacts,
        undated=tuple(artifact.name for artifact in artifacts if artifact.sha256 not in dated),
    )


def locate(lock: Lock, plan: Plan, sources: Sources, store: Store, environ: Mapping[str, str]) -> Lock:
    """Find where the files of a lock can be fetched; those that the store has need no place.

    Raises WorldFault that names what no source has any more, and where it normally comes from.
    """
    missing = [a for a in lock.artifacts if not a.url and store.blob(a.sha256, a.filename) is None]
    if not missing:
        return lock
    pins = tuple(f"{a.name}=={a.version}" for a in missing)
    sources = _with_wheelhouse(sources, plan.wheelhouse)
    told, packages = _search(plan, sources, store.root, environ, pins, "--no-deps")
    if packages is None:
        raise uv_errors.fault(told, plan, sources, store.root)
    places = {file["sha256"]: file["url"] for package in packages for file in package["files"]}
    if lost := [a.filename for a in missing if a.sha256 not in places]:
        raise gone(lost)
    return replace(lock, artifacts=tuple(replace(a, url=places.get(a.sha256, a.url)) for a in lock.artifacts))


def _question(plan: Plan) -> list[Any]:
    source_only = [asdict(row) for row in plan.source_only]
    days = [plan.as_of, plan.family_as_of]
    return [plan.requirements, *days, plan.base.python, plan.base.glibc, source_only]


def _with_wheelhouse(sources: Sources, wheelhouse: str | None) -> Sources:
    if wheelhouse is None:
        return sources
    folder = Path(wheelhouse).absolute()
    if not folder.is_dir():
        raise UserFault("no such folder", wheelhouse, "--wheelhouse with a folder of wheels")
    return Sources(**{**asdict(sources), "links": (str(folder), *sources.links)})


def _listing(links: Iterable[str]) -> list[Any]:
    """Folders have no dates: what lies in them is part of the question."""
    folders = [Path(link.removeprefix("file://")) for link in links]
    return [sorted((f.name, f.stat().st_size) for f in d.iterdir() if f.is_file()) for d in folders if d.is_dir()]


def _resolve(plan: Plan, sources: Sources, root: Path, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Resolve, and refuse what is for a GPU."""
    told, packages = _search(plan, sources, root, environ, plan.requirements)
    if packages is None:
        raise uv_errors.fault(told, plan, sources, root)
    if found := _gpu(packages):
        remedy = "a source with torch's build for the CPU: --wheelhouse DIR, or " + TORCH_INDEX
        raise UserFault("the resolution has packages for a GPU", ", ".join(found), remedy)
    return packages


def _search(
    plan: Plan, sources: Sources, root: Path, environ: Mapping[str, str], wanted: Sequence[str], *options: str
) -> tuple[str, list[dict[str, Any]] | None]:
    """Ask the configured sources; ask PyTorch's and Intel's own places for what they do not have."""
    told, packages = _compile(plan, sources, root, environ, wanted, *options)
    while (wider := _wider(sources, told, packages, plan)) != sources:
        sources = wider
        told, packages = _compile(plan, sources, root, environ, wanted, *options)
    return told, packages


def _wider(sources: Sources, told: str, packages: list[dict[str, Any]] | None, plan: Plan) -> Sources:
    """Add the place of what was missed, unless it was asked already."""
    extra, links = sources.extra, sources.links
    if (_gpu(packages) if packages is not None else _misses(told, "torch")) and TORCH_INDEX not in extra:
        extra = (*extra, TORCH_INDEX)
    if packages is None and _misses(told, "oneccl-bind-pt"):
        extra = (*extra, *(place for place in (plan.index,) if place and place not in extra))
        links = (*links, *(place for place in (plan.find_links,) if place and place not in links))
    return Sources(**{**asdict(sources), "extra": extra, "links": links})


def _misses(told: str, name: str) -> bool:
    return f"no version of {name}==" in told or f"{name} was not found" in told or _without_wheels(told, name)


def _without_wheels(told: str, name: str) -> bool:
    return re.search(rf"\b{name}==[^,]* no wheels", told) is not None


def _compile(
    plan: Plan, sources: Sources, root: Path, environ: Mapping[str, str], wanted: Sequence[str], *more: str
) -> tuple[str, list[dict[str, Any]] | None]:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "uv.toml"
        config.write_text("".join(map(_metadata, plan.source_only)))
        command = [_uv(), "pip", "compile", "-", "--config-file", str(config), "--cache-dir", str(root / "uv")]
        command += ["--python", sys.executable]  # what uv finds by itself may not be ours to start
        command += [*_options(plan, wanted), *more, *sources.uv_options()]
        env = {**environ, **({"SSL_CERT_FILE": sources.certificate} if sources.certificate else {})}
        done = process.run(command, env, "pip install -e .", feed="\n".join(wanted))
    if done.code:
        return done.err, None
    parsed = tomllib.loads(done.out)
    return done.err, [_plain(package) for package in parsed["packages"]]


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def _options(plan: Plan, wanted: Sequence[str]) -> list[str]:
    glibc = plan.base.glibc.replace(".", "_")
    options = ["--format", "pylock.toml", "--no-header", "--no-progress", "--only-binary", ":all:"]
    options += ["--python-version", plan.base.python, "--python-platform", f"x86_64-manylinux_{glibc}"]
    options += ["--exclude-newer", _end_of(plan.as_of)]
    days = dict.fromkeys(FAMILY, _end_of(plan.family_as_of)) | dict.fromkeys(_pinned(wanted), "false")
    for name, day in sorted(days.items()):
        options += ["--exclude-newer-package", f"{name}={day}"]
    for row in plan.source_only:
        options += ["--no-binary", row.name]
    return options


def _pinned(wanted: Sequence[str]) -> list[str]:
    """List what is asked for by version: no day decides about it, and its index may not know the days."""
    asked = [Requirement(text) for text in wanted]
    return [canonicalize_name(each.name) for each in asked if str(each.specifier).startswith("==")]


def _end_of(day: datetime.date) -> str:
    return f"{day + datetime.timedelta(days=1)}T00:00:00Z"


def _metadata(row: SourceOnly) -> str:
    """State what a source archive would answer if it were run; TOML strings and lists are Python's here."""
    lines = [f'name = "{row.name}"', f'version = "{row.version}"', f"requires-dist = {list(row.requires)}"]
    return "\n".join(["[[dependency-metadata]]", *lines, ""])


def _plain(package: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the fields that are used, as JSON has them."""
    files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
    return {
        "name": package["name"],
        "version": package["version"],
        "files": [
            {"url": _place(file), "sha256": file["hashes"]["sha256"], "dated": "upload-time" in file} for file in files
        ],
    }


def _place(file: Mapping[str, Any]) -> str:
    return str(file.get("url") or file["path"])


def _version(packages: Sequence[Mapping[str, Any]], name: str) -> str:
    return next(str(package["version"]) for package in packages if package["name"] == name)


def _gpu(packages: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [f"{package['name']} {package['version']}" for package in packages]
    return [name for name in names if re.match(r"nvidia-|triton |cuda-|torch \S+\+(cu|rocm|xpu)", name)]
