"""Bring the Python and Debian packages of a lock into the store; a project without a wheel becomes one here."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from packaging.utils import canonicalize_name

from images.context import Context
from images.debian import packages as debian
from images.debian.deb import Deb
from images.foreign import tars
from images.host.background import background, side_by_side
from images.host.errors import Fault, UserFault, WorldFault
from images.lock import index_pages, resolve, wheelhouse
from images.lock.index_pages import Page
from images.lock.lock import BINDINGS, EXAMPLES, Artifact, Lock
from images.pip_config import Sources, check_addresses, directories, local_path
from images.plan.catalog import TORCH_INDEX
from images.plan.plan import SourceOnly
from images.plan.user_files import USER_FILE, WORKSPACE
from images.platforms import Platform
from images.store.blobs import BLOB, sha256
from images.store.download import MOVED, download_file
from images.store.store import Store
from images.wheels.archive import Wheel, write_record
from images.wheels.content import read_content

WHEEL = "Wheel-Version: 1.0\nGenerator: multinode\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
REMEDY = "--wheelhouse with a wheel of it, or the archive as its maker published it"


def to_wheel(store: Store, archive: Path, digest: str, row: SourceOnly) -> tuple[str, str]:
    """Return the sha256 and the file name of the wheel; build it if the store lacks it.

    Raises WorldFault when the archive cannot be read, or has no package of that name.
    """
    stem = f"{row.name.replace('-', '_')}-{row.version}"
    name = f"{stem}-py3-none-any.whl"

    def make() -> str:
        with store.temporary() as path:
            path.write_bytes(_pack_zip(_read_package(archive, row, stem), f"{stem}.dist-info"))
            packed = sha256(path)
            store.keep(path, packed, name)
        return packed

    inputs = [digest, row.name, row.version, row.requires]
    cached = store.cached("sdists", inputs, make, lambda known: store.blob(known, name) is not None)
    return str(cached.value), name


def _read_package(archive: Path, row: SourceOnly, stem: str) -> dict[str, bytes]:
    """Return the files of the wheel: those of the package, and its metadata."""
    package = row.name.replace("-", "_")
    try:
        files = tars.read_files(archive, lambda path: path == "PKG-INFO" or path.startswith(f"{package}/"))
        taken = {path: data for path, data, _ in files}
        about = taken.pop("PKG-INFO", b"").decode()
    except ValueError as error:
        raise WorldFault("cannot read a source archive", f"{archive.name} ({error})", REMEDY) from error
    if not about:
        raise WorldFault("a source archive has no metadata", f"{archive.name}: PKG-INFO", REMEDY)
    if f"{package}/__init__.py" not in taken:
        remedy = "take the row out of images/versions.toml, or give a wheel by --wheelhouse"
        raise WorldFault("a source archive has no package of its name", f"{archive.name}: {package}", remedy)
    return {**taken, **_read_metadata(about, row, stem)}


def _read_metadata(about: str, row: SourceOnly, stem: str) -> Mapping[str, bytes]:
    """Return the metadata of PKG-INFO, whose requirements may be missing, with those of the table."""
    head, _, body = about.partition("\n\n")
    lines = [line for line in head.splitlines() if not line.startswith(("Requires-Dist:", "Provides-Extra:"))]
    lines += [f"Requires-Dist: {requirement}" for requirement in row.requires]
    return {
        f"{stem}.dist-info/METADATA": ("\n".join(lines) + "\n\n" + body).encode(),
        f"{stem}.dist-info/WHEEL": WHEEL.encode(),
        f"{stem}.dist-info/top_level.txt": f"{row.name.replace('-', '_')}\n".encode(),
    }


def _pack_zip(files: Mapping[str, bytes], info: str) -> bytes:
    """Return a zip with fixed times and a RECORD."""
    listed = dict(sorted(files.items()))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {**listed, f"{info}/RECORD": write_record(listed, info).encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, date_time=(2024, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


# Bring the Python and Debian packages of a lock into the store; its base and examples are the pipeline's part.

# At once, at least: a download waits for a server more than it works. Where all is there, one thread is faster.
DOWNLOADS = 4


def collect_packages(lock: Lock, context: Context) -> list[Wheel]:
    """Bring the packages of a lock into the store, source archives as wheels; return the Python packages in order.

    Raises WorldFault that names every file of the lock that is still missing, or a wheel that cannot be installed.
    """
    lost = list_missing_files(lock, context.store)
    if lost and context.settings.wheelhouse:
        lost = _take(wheelhouse.require_directory(context.settings.wheelhouse), lost, lock, context)
    if lost and (context.pip is None or not {*lost}.isdisjoint(_name_user_files(lock).values())):
        raise files_missing(lost)
    places = {artifact.filename: artifact.url for artifact in lock.added}
    if unknown := [
        file for file in lock.added if file.filename in lost and not is_at_hand(file, lock, context.sources)
    ]:
        places |= find_addresses(lock, unknown, context)
    for platform, part in lock.debs.items():
        _bring(lock.debian.suite, [deb for deb in part if deb.filename in lost], platform, context)
    at_once = max(DOWNLOADS, context.settings.jobs) if lost else 1
    try:
        return _fetch_wheels(lock, places, at_once, context)
    except Fault as fault:
        return _fetch_wheels(lock, places | _renewed(fault, lock, context), at_once, context)


def _bring(suite: str, debs: Sequence[Deb], platform: Platform, context: Context) -> None:
    if debs:
        with context.progress.step("downloading Debian's packages"):
            debian.download_packages(suite, debs, platform, context)
        if gone := [deb.filename for deb in debian.list_missing_debs(context.store, debs)]:
            raise files_missing(gone)


def _take(directory: Path, lost: Sequence[str], lock: Lock, context: Context) -> list[str]:
    """Copy files of a lock, also .debs, from the user's directory; return what it does not have."""
    files: list[Artifact | Deb] = [*lock.added, *(deb for part in lock.debs.values() for deb in part)]
    tasks, store, taken = [], context.store, set()
    for digest, name in {(file.sha256, file.filename): None for file in files if file.filename in lost}:
        path = directory / name
        if path.is_file() and store.sha256(path) == digest:
            tasks.append(
                partial(download_file, store, str(path), digest, name, context.sources, context.progress.advance)
            )
            taken.add(name)
    if tasks:
        side_by_side(context.progress, "copying from the wheelhouse", tasks, context.settings.jobs)
    return [name for name in lost if name not in taken]


def is_at_hand(file: Artifact, lock: Lock, sources: Sources) -> bool:
    """Return whether a file has an address of an index that is asked here, too: a mirror has it at another one."""
    asked = {*index_pages.list_addresses(sources), *(place.rstrip("/") for place in _usual(lock, sources) if place)}
    return bool(file.url) and sources.is_secure(file.url) and {*lock.indexes} <= asked


def _usual(lock: Lock, sources: Sources) -> tuple[str | None, ...]:
    """Return the indexes and the page of links that files of a lock come from wherever it was made."""
    return () if sources.no_index else (TORCH_INDEX, lock.bindings_index, lock.find_links)


def find_addresses(lock: Lock, artifacts: Sequence[Artifact], context: Context) -> dict[str, str]:
    """Return where files of a lock can be downloaded, as file name -> address, from each source separately.

    Raises WorldFault with the files that no source has any more, where they usually come from, and which source failed.
    """
    check_addresses("the lock's index", filter(None, (lock.bindings_index, lock.find_links)))  # whoever wrote it
    faults: dict[str, Fault] = {}
    sources = resolve.with_wheelhouse(context)
    sources.refuse_insecure()
    places = _places(lock, sources, context.store)

    def find(file: Artifact) -> str | None:
        for place, ask in places.items():
            try:
                address = None if place in faults else ask(file)
            except Fault as fault:
                faults.setdefault(place, fault)
                continue
            if address:
                return address
        return None

    with background(index_pages.AT_ONCE) as start:
        tasks = {file.filename: start(partial(find, file)) for file in artifacts}
        addresses = {name: address for name, task in tasks.items() if (address := task.result())}
    if lost := [name for name in tasks if name not in addresses]:
        raise files_missing(lost, next(iter(faults.values()), None), lock.indexes)
    return addresses


def _places(lock: Lock, sources: Sources, store: Store) -> dict[str, Callable[[Artifact], str | None]]:
    """Return the sources of files of a lock, in order of preference, each with a function that returns an address."""
    usual = _usual(lock, sources)
    indexes = (*index_pages.list_indexes(sources), *filter(None, usual[:2]))
    links = (*sources.links, *filter(None, usual[2:]))

    def on_page(read: Callable[[str], Page | None], file: Artifact) -> str | None:
        page = read(file.name)
        return page.address(file) if page else None

    def in_directory(directory: Path, file: Artifact) -> str | None:
        path = directory / file.filename
        return str(path) if path.is_file() and store.sha256(path) == file.sha256 else None

    places: dict[str, Callable[[Artifact], str | None]] = {}
    for directory in directories(links):
        places[str(directory)] = partial(in_directory, directory)
    for index in indexes:
        places[index] = partial(on_page, partial(index_pages.read_page, index, sources=sources))
    for link in links:
        if local_path(link) is None:
            places[link] = partial(on_page, cache(lambda _, link=link: index_pages.read_links(link, sources)))
    return places


def _renewed(fault: Fault, lock: Lock, context: Context) -> dict[str, str]:
    """Look up again where files are: the addresses of a kept resolution may have changed since.

    Raises `fault` itself if that cannot be its cause.
    """
    lost = list_missing_files(lock, context.store)
    listed = [artifact for artifact in lock.added if artifact.url and artifact.filename in lost]
    if fault.kind != MOVED or not listed:
        raise fault
    try:
        return find_addresses(lock, listed, context)
    except UserFault:
        raise fault from None


def list_missing_files(lock: Lock, store: Store) -> list[str]:
    """Return the file names of a lock that the store does not have whole."""
    names = _name_user_files(lock)
    every = [(digest, name, _name_file(digest, name, names)) for digest, name in lock.files()]
    return [called for digest, name, called in every if store.verified(digest, name) is None]


def _name_user_files(lock: Lock) -> dict[str | None, str]:
    """Return the user's own files, as sha256 -> what messages call one of them."""
    return {one.sha256: f"/{WORKSPACE}/{one.path}" for one in lock.user_files or () if one.sha256 is not None}


def _name_file(digest: str, name: str, names: Mapping[str | None, str]) -> str:
    return {BLOB: f"sha256:{digest}", USER_FILE: names.get(digest, "")}.get(name, name)


def files_missing(names: Sequence[str], unasked: Fault | None = None, indexes: Sequence[str] = ()) -> WorldFault:
    """Return the fault that names the files of a lock that cannot be had here, and where they normally come from.

    `unasked` is that of a place that did not answer, which may have them; `indexes` are those of the lock.
    """
    kinds = [_kind(name) for name in names]
    value = ", ".join(f"{name} ({origin})" for name, (origin, _) in zip(names, kinds, strict=True))
    value += f"; the lock was made with {', '.join(indexes)}" if indexes else ""
    value += f"; {unasked.fact}: {unasked.value}" if unasked else ""
    options = " and ".join(dict.fromkeys(option for _, option in kinds))
    remedy = f"{options}; or --offline BUNDLE with the bundle made from the lock"
    return WorldFault("files of the lock are missing", value, remedy)


def _kind(filename: str) -> tuple[str, str]:
    """Return where a file of a lock normally comes from, and the option by which the user gives it."""
    if filename.startswith("sha256:"):  # a part of a base has no other name
        return "the registry of the base", "--base oci:DIRECTORY or archive:FILE with that base"
    if filename.startswith("/"):
        return "a file of your own", "--script FILE or --workdir DIR with it"
    if filename == EXAMPLES:
        return "the archive of the transformers release on GitHub", "--examples PATH with a copy of that archive"
    indexes = {"torch": TORCH_INDEX, BINDINGS: "Intel's wheel index"}
    index = indexes.get(canonicalize_name(filename.partition("-")[0]), "PyPI")
    origin = "Debian's mirror, or its snapshots" if filename.endswith(".deb") else index
    return origin, "--wheelhouse DIR with those very files in it"


def _fetch_wheels(lock: Lock, places: Mapping[str, str], at_once: int, context: Context) -> list[Wheel]:
    tasks = [partial(_wheel, artifact, places[artifact.filename], lock, context) for artifact in lock.added]
    return side_by_side(context.progress, "downloading", tasks, at_once)


def _wheel(artifact: Artifact, place: str, lock: Lock, context: Context) -> Wheel:
    store, name = context.store, artifact.filename
    digest = download_file(store, place, artifact.sha256, name, context.sources, context.progress.advance)
    path = store.place(digest, name)
    if not name.endswith(".whl"):
        row = next(row for row in lock.source_only if row.name == artifact.name)
        digest, name = to_wheel(store, path, digest, row)
        path = store.place(digest, name)
    read_content(store, digest, path)
    return Wheel(artifact.name, artifact.version, digest, path)
