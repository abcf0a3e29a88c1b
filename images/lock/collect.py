"""Bring every file of a lock into the store: the only caller of downloads once a lock is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from images.base import apt
from images.host.context import Context
from images.host.download import fetch
from images.host.store import Store
from images.lock import files, resolve, source_only
from images.lock.lockfile import Locked
from images.lock.wheel_tags import Artifact

DOWNLOADS = 4  # at once, at least: a download waits for a server more than it works


@dataclass(frozen=True)
class Wheel:
    """A wheel in the store: project, version, its sha256 and where it lies."""

    project: str
    version: str
    sha256: str
    path: Path


def everything(locked: Locked, context: Context) -> Locked:
    """Bring every file of a lock into the store, wheels included; return the lock with the places of its files.

    Raises WorldFault that names what is missing and cannot be had.
    """
    locked = locate(locked, context)
    wheels(locked, context)
    return locked


def locate(locked: Locked, context: Context) -> Locked:
    """Find where each missing wheel of a lock can be downloaded, and bring its Debian packages.

    Raises WorldFault that names what is missing and cannot be had.
    """
    lost = missing(locked, context.store)
    if not lost:
        return locked
    if context.pip is None:
        raise files.gone(lost)
    wanted = replace(locked.lock, artifacts=locked.added)
    found = resolve.locate(wanted, locked.plan, context.pip, context.store, context.environ)
    places = {artifact.filename: artifact for artifact in found.artifacts}
    artifacts = tuple(places.get(artifact.filename, artifact) for artifact in locked.lock.artifacts)
    locked = replace(locked, lock=replace(locked.lock, artifacts=artifacts))
    if any(name.endswith(".deb") for name in lost):
        with context.progress.step("downloading Debian's packages"):
            apt.resolve(context.store, locked.plan.debian, context.today, context.environ)
    located = {artifact.filename for artifact in locked.added}
    if never := [name for name in missing(locked, context.store) if name not in located]:
        raise files.gone(never)
    return locked


def missing(locked: Locked, store: Store) -> list[str]:
    """Return the file names of a lock that the store does not have."""
    every = [(digest, name, f"sha256:{digest}" if name == files.BLOB else name) for digest, name in files.every(locked)]
    return [called for digest, name, called in every if store.blob(digest, name) is None]


def wheels(locked: Locked, context: Context) -> list[Wheel]:
    """Bring the Python packages of a lock into the store, source archives as wheels."""
    tasks: list[Callable[[], Wheel]] = [lambda a=a: _wheel(a, locked, context) for a in locked.added]  # type: ignore[misc]
    return context.side_by_side("downloading", tasks, max(DOWNLOADS, context.jobs))


def _wheel(artifact: Artifact, locked: Locked, context: Context) -> Wheel:
    store, name = context.store, artifact.filename
    digest = fetch(store, artifact.url, artifact.sha256, name, context.certificate, context.progress.advance)
    path = _path(store, digest, name)
    if not name.endswith(".whl"):
        row = next(row for row in locked.plan.source_only if row.name == artifact.name)
        digest, name = source_only.to_wheel(store, path, digest, row)
    return Wheel(artifact.name, artifact.version, digest, _path(store, digest, name))


def _path(store: Store, digest: str, name: str) -> Path:
    return store.root / "blobs" / digest / name
