"""Bring the Python and Debian packages of a lock into the store; its base and examples are the pipeline's part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from packaging.pylock import Pylock
from packaging.utils import canonicalize_name

from images.debian import packages as debian
from images.host.context import Context
from images.host.download import MOVED, fetch
from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store
from images.lock import resolve, source_only, uv
from images.model import BINDINGS, BLOB, EXAMPLES, Artifact, Deb, Lock, Wheel
from images.platforms import Platform
from images.wheels import wheelhouse
from images.wheels.content import content

# At once, at least: a download waits for a server more than it works. Where all is there, one thread is faster.
DOWNLOADS = 4


def packages(lock: Lock, context: Context) -> list[Wheel]:
    """Bring the packages of a lock into the store, source archives as wheels; return the Python packages in order.

    Raises WorldFault that names every file of the lock that is still missing, or a wheel that cannot be installed.
    """
    lost = missing(lock, context.store)
    if lost and context.wheelhouse:
        lost = _take(wheelhouse.require(context.wheelhouse), lost, lock, context)
    if lost and context.pip is None:
        raise files_missing(lost)
    places = {artifact.filename: artifact.url for artifact in lock.added}
    if unknown := [artifact for artifact in lock.added if artifact.filename in lost and not artifact.url]:
        places |= addresses(lock, unknown, context)
    for platform, part in lock.debs.items():
        _bring(lock.debian.suite, [deb for deb in part if deb.filename in lost], platform, context)
    at_once = max(DOWNLOADS, context.jobs) if lost else 1
    try:
        return _wheels(lock, places, at_once, context)
    except Fault as fault:
        return _wheels(lock, places | _renewed(fault, lock, context), at_once, context)


def _bring(suite: str, debs: Sequence[Deb], platform: Platform, context: Context) -> None:
    if debs:
        with context.progress.step("downloading Debian's packages"):
            debian.bring(suite, debs, platform, context)
        if gone := [deb.filename for deb in debian.missing(context.store, debs)]:
            raise files_missing(gone)


def _take(directory: Path, lost: Sequence[str], lock: Lock, context: Context) -> list[str]:
    """Copy files of a lock, also .debs, from the user's directory; return what it does not have."""
    files: list[Artifact | Deb] = [*lock.added, *(deb for part in lock.debs.values() for deb in part)]
    tasks, store, taken = [], context.store, set()
    for digest, name in {(file.sha256, file.filename): None for file in files if file.filename in lost}:
        path = directory / name
        if path.is_file() and store.sha256(path) == digest:
            tasks.append(partial(fetch, store, str(path), digest, name, context.sources, context.progress.advance))
            taken.add(name)
    if tasks:
        context.side_by_side("copying from the wheelhouse", tasks, context.jobs)
    return [name for name in lost if name not in taken]


def addresses(lock: Lock, artifacts: Sequence[Artifact], context: Context) -> dict[str, str]:
    """Return where files of a lock can be downloaded, as file name -> address.

    Raises WorldFault that names what no source has any more, and where it normally comes from.
    """
    pins, sources = resolve.asked(lock, context)
    found = uv.search(pins, sources, context, [f"{file.name}=={file.version}" for file in artifacts], "--no-deps")
    places = {file.filename: _listed(file, found) for file in artifacts}
    if lost := [name for name, place in places.items() if place is None]:
        raise files_missing(lost)
    return {name: place for name, place in places.items() if place}


def _renewed(fault: Fault, lock: Lock, context: Context) -> dict[str, str]:
    """Ask again where files are, of which a resolution was kept whose addresses may have changed since.

    Raises the fault where that cannot be its cause, or nothing better is to be said.
    """
    lost = missing(lock, context.store)
    listed = [artifact for artifact in lock.added if artifact.url and artifact.filename in lost]
    if fault.kind != MOVED or not listed:
        raise fault
    try:
        return addresses(lock, listed, context)
    except UserFault:
        raise fault from None


def _listed(file: Artifact, found: Pylock) -> str | None:
    """Return the address of a file among those that uv found.

    One whose index announces another hash is known by its name; its sha256 is checked when it is there.
    """
    files = [each for package in found.packages for each in (*(package.wheels or ()), package.sdist) if each]
    known = {each.hashes.get("sha256") or each.filename: resolve.address(each) for each in files}
    return known.get(file.sha256) or known.get(file.filename)


def missing(lock: Lock, store: Store) -> list[str]:
    """Return the file names of a lock that the store does not have whole."""
    every = [(digest, name, f"sha256:{digest}" if name == BLOB else name) for digest, name in lock.files()]
    return [called for digest, name, called in every if store.verified(digest, name) is None]


def files_missing(names: Sequence[str]) -> WorldFault:
    """Return the fault that names the files of a lock that cannot be had here, and where they normally come from."""
    kinds = [_kind(name) for name in names]
    value = ", ".join(f"{name} ({origin})" for name, (origin, _) in zip(names, kinds, strict=True))
    options = " and ".join(dict.fromkeys(option for _, option in kinds))
    remedy = f"{options}; or --offline BUNDLE with the bundle made from the lock"
    return WorldFault("files of the lock are missing", value, remedy)


def _kind(filename: str) -> tuple[str, str]:
    """Return where a file of a lock normally comes from, and the option by which the user gives it."""
    if filename.startswith("sha256:"):  # a part of a base has no other name
        return "the registry of the base", "--base oci:DIRECTORY or archive:FILE with that base"
    if filename == EXAMPLES:
        return "the archive of the transformers release on GitHub", "--examples PATH with a copy of that archive"
    indexes = {"torch": uv.TORCH_INDEX, BINDINGS: "Intel's wheel index"}
    index = indexes.get(canonicalize_name(filename.partition("-")[0]), "PyPI")
    origin = "Debian's mirror, or its snapshots" if filename.endswith(".deb") else index
    return origin, "--wheelhouse DIR with those very files in it"


def _wheels(lock: Lock, places: Mapping[str, str], at_once: int, context: Context) -> list[Wheel]:
    tasks = [partial(_wheel, artifact, places[artifact.filename], lock, context) for artifact in lock.added]
    return context.side_by_side("downloading", tasks, at_once)


def _wheel(artifact: Artifact, place: str, lock: Lock, context: Context) -> Wheel:
    store, name = context.store, artifact.filename
    digest = fetch(store, place, artifact.sha256, name, context.sources, context.progress.advance)
    path = store.place(digest, name)
    if not name.endswith(".whl"):
        row = next(row for row in lock.source_only if row.name == artifact.name)
        digest, name = source_only.to_wheel(store, path, digest, row)
        path = store.place(digest, name)
    content(store, digest, path)
    return Wheel(artifact.name, artifact.version, digest, path)
