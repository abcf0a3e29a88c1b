"""The lock as a file: a pylock.toml (PEP 751), with what pip does not know in a table of its own."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import is_dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import tomli_w
from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock, PylockUnsupportedVersionError
from packaging.pylock import PylockValidationError as InvalidPylock
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import TypeAdapter, ValidationError

from images.content import Content, option_key, require_written
from images.foreign import documents
from images.foreign.documents import parse_toml
from images.host.errors import UserFault
from images.lock import uv
from images.lock.lock import Artifact, Lock
from images.oci import compression, reference
from images.oci.layer_writer import EPOCH
from images.plan import requirements, user_files
from images.plan.plan import REQUESTED, Pins, Request, is_named
from images.platforms import PLATFORMS, TWIN, Platform
from images.store import fingerprint
from images.store.store import FileName, Sha256

NAME = "pylock.toml"  # PEP 751: this name, or pylock.NAME.toml with no dot in NAME
FORMAT = 1  # of the table [tool.multinode]
# Keys of the table that do not say what they are; all others are the names of fields, with hyphens.
KEYS = {"bindings_index": "index"}
NAMES = {key: name for name, key in KEYS.items()}
# What the user may ask for again beside a lock, if it is what the lock says: fields that both have and compare as text.
ASKED = tuple(one.name for one in REQUESTED if one.name in {pin.name for pin in fields_of(Pins)} - {"as_of"})
DAMAGED = "make a new lock: build.py lock"
NEWER = f"the release of multinode that wrote it, or {DAMAGED}"


@functools.lru_cache(maxsize=4)
def format_lock(lock: Lock, *, with_origin: bool = False) -> str:
    """Return a lock as a pylock.toml, written in one way only.

    It holds no place on any machine: the paths in it are those of a bundle. The one beside an image says where its
    files came from, too: their addresses, by which any installer has them, without logins, which indexes were asked,
    and which packages came from undated places. Inside the image, that would make equal images differ.
    """
    return tomli_w.dumps(lock_fields(lock, with_origin=with_origin))


def lock_fields(lock: Lock, *, with_origin: bool = False) -> dict[str, Any]:
    """Return what `format_lock` writes, as TOML has it."""
    table = _kebab(lock)
    del table["artifacts"], table["platform"]
    if not with_origin:
        del table["undated"], table["indexes"]
    written = Pylock(
        lock_version=Version("1.0"),
        requires_python=SpecifierSet(f"=={lock.python}.*"),
        created_by="multinode",
        packages=[_package(artifact, public_url(artifact.url) if with_origin else "") for artifact in lock.artifacts],
        tool={"multinode": {"format": FORMAT, "machine": lock.platform.machine, **table, "tools": tools(lock)}},
    )
    return dict(written.to_dict())


def without_addresses(lock: Lock) -> Lock:
    """Return a lock whose files lie beside it, as in a bundle."""
    return replace(lock, artifacts=tuple(replace(artifact, url="") for artifact in lock.artifacts))


def public_url(url: str) -> str:
    """Return an address without what may be a login or a signature; empty for a place of one machine."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, netloc, parts.path, "", "")) if parts.scheme in ("http", "https") else ""


def bundle_path(filename: str) -> str:
    """Return where a file of a lock lies in a bundle, relative to the lock."""
    directories = {".deb": "debs", ".whl": "wheels", ".gz": "sources", ".zip": "sources"}
    return f"{directories.get(PurePosixPath(filename).suffix, 'archives')}/{filename}"


def path_for(image: Path) -> Path:
    """Return where the lock of an archive or a layout lies: pylock.NAME.toml, in which NAME has no dot (PEP 751)."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", image.name)
    return image.with_name(f"pylock.{name}.toml")


def tools(content: Content) -> dict[str, Any]:
    """Return what shows in the bytes besides the files: releases and settings of what we build with."""
    return {**fingerprint.releases(), **compression.zstd_settings(content), "epoch": EPOCH}


def read_lock(content: str, where: str, request: Request) -> Lock:
    """Return the lock that was written as `content`, to make its image; `where` is what the user calls it.

    Raises UserFault as `parse_lock` does, and when it differs from what was asked for or from the tools here, naming
    every difference.
    """
    packages, table = _parse_tables(content, where)
    lock = _make_lock(packages, table, where)
    differences, others = list(_asked_otherwise(lock, request)), list(_other_tools(lock, table))
    if differences or others:
        steps = ["leave those options out"] if differences else []
        steps += ["pip install -e . (it installs the releases that build.py pins)"] if others else []
        remedy = ", ".join([*steps, "or make a new lock: build.py lock"])
        raise UserFault(f"{where} does not fit", "; ".join([*differences, *others]), remedy)
    _require_user_files(lock, request, where)
    return lock


def _require_user_files(lock: Lock, request: Request, where: str) -> None:
    """Raise UserFault if the request has other files of the user than the lock."""
    differences = user_files.list_differences(lock.user_files or (), request.user_files) if request.user_files else ()
    if text := "; ".join(differences):
        remedy = "--script and --workdir with the files that it was made of, or leave them out, or make a new lock"
        raise UserFault(f"{where} is for other files of your own", text, remedy)


def parse_lock(content: str, where: str) -> Lock:
    """Return the lock that was written as `content` by whichever tools, to look at what is in its image.

    Raises UserFault when it is no lock, is of another format or machine, or has keys that are unknown here.
    """
    return _make_lock(*_parse_tables(content, where), where)


def _make_lock(packages: Sequence[Package], table: Mapping[str, Any], where: str) -> Lock:
    platform = _require_platform_of_lock(table, where)
    try:
        artifacts = [_read_artifact(package) for package in packages]
        lock = _lock_types().validate_python({**_snake(table), "platform": platform, "artifacts": artifacts})
        require_written(lock, table)
        _require_sense(lock)
        _require_user_packages(lock)
        user_files.require_rows(lock.user_files or ())
    except ValidationError as error:
        first = error.errors()[0]
        value = f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UserFault("the lock is damaged", value, DAMAGED) from error
    except (ValueError, UserFault) as error:
        raise UserFault("the lock is damaged", f"{where}: {error.args[0]}", DAMAGED) from error
    if new := documents.list_unknown_keys(table, lock_fields(lock, with_origin=True)["tool"]["multinode"]):
        fact = "the lock has keys that this release of multinode does not know"
        raise UserFault(fact, f"{where}: {', '.join(new)}", NEWER)
    return lock


@functools.cache
def _lock_types() -> TypeAdapter[Lock]:
    return TypeAdapter(Lock)  # takes longer to make than a lock to be read


def _require_sense(lock: Lock) -> None:
    """Raise UserFault or ValueError for what has the right type and makes no sense: odd digests and file names."""
    for digest, name in replace(lock, base_image=None).files():
        Sha256(digest)  # refuses any other text
        FileName(name)
    parts = lock.base_image.manifest if lock.base_image else None
    digests = [parts.digest, parts.config.digest, *(layer.digest for layer in parts.layers)] if parts else []
    if odd := [digest for digest in digests if not reference.DIGEST.fullmatch(digest)]:
        raise ValueError(f"a base with the digest {odd[0]!r}")
    if lock.is_on_pulled == (lock.base == "debian"):
        raise ValueError(f"base {lock.base} with{'out' if parts is None else ''} the digests of an image")
    listed = {row.name for row in lock.source_only}
    archives = [one for one in lock.artifacts if not one.filename.endswith(".whl")]
    if unlisted := [one.filename for one in archives if one.name not in listed]:
        raise ValueError(f"{unlisted[0]}, which is no wheel, and no row of source-only for it")
    if absent := {"torch", "transformers"} - {artifact.name for artifact in lock.artifacts}:
        raise ValueError(f"no {' and no '.join(sorted(absent))} in it")
    if lock.twin is not None and (lock.platform == TWIN or lock.is_on_pulled):
        raise ValueError("a twin of a Python that needs none")
    if lock.odd_backend:
        raise ValueError(lock.odd_backend)
    for name, pinned in (("torch", lock.torch), ("transformers", lock.transformers)):
        if Version(lock.version(name)).public != Version(pinned).public:
            raise ValueError(f"{name} {pinned} with the file of {name} {lock.version(name)}")


def _require_user_packages(lock: Lock) -> None:
    """Raise ValueError where the user's own packages are no requirements, or one that is named is not in the lock."""
    packages, names = lock.user_packages, {artifact.name for artifact in lock.artifacts}
    for line in packages.requirements if packages else ():
        requirements.parse_line(line)
    for key, named in (("user-packages", packages.names if packages else ()), ("no-import", lock.no_import or ())):
        if absent := {*named} - names:
            raise ValueError(f"{key}: {', '.join(sorted(absent))}, which is not in it")


def _package(artifact: Artifact, url: str) -> Package:
    """Return how a lock names a package, by the address of its file or, without one, by its path in a bundle."""
    name, hashes = artifact.filename, {"sha256": artifact.sha256}
    version, path = Version(artifact.version), None if url else bundle_path(name)
    if name.endswith(".whl"):
        wheels = [PackageWheel(name=name, url=url or None, path=path, hashes=hashes)]
        return Package(name=artifact.name, version=version, wheels=wheels)  # type: ignore[arg-type]
    sdist = PackageSdist(name=name, url=url or None, path=path, hashes=hashes)
    return Package(name=artifact.name, version=version, sdist=sdist)  # type: ignore[arg-type]


def _read_artifact(package: Package) -> Artifact:
    files: list[PackageWheel | PackageSdist] = [*(package.wheels or ()), *([package.sdist] if package.sdist else [])]
    if len(files) != 1 or package.version is None:
        raise ValueError(f"{package.name} has not one version and one file")
    file = files[0]
    digest = file.hashes.get("sha256", "")
    version, filename, url = str(package.version), file.name or "", file.url or ""
    if url != public_url(url) or not url.isprintable() or " " in url:
        raise ValueError(f"{package.name} with the address {url!r}")
    return Artifact(name=package.name, version=version, filename=filename, url=url, sha256=digest)


def _parse_tables(content: str, where: str) -> tuple[list[Package], Mapping[str, Any]]:
    remedy = "a pylock.toml that build.py wrote, or leave --lock out"
    try:
        raw = parse_toml(content)
        table = raw["tool"]["multinode"]
        written = table["format"]
        if documents.is_deep(raw):
            raise ValueError("it is nested too deep")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"no {error} in it" if isinstance(error, KeyError) else str(error)
        raise UserFault("that is not a lock of multinode", f"{where}: {reason}", remedy) from error
    if written != FORMAT:
        fact = f"the lock has another format than this release of multinode reads ({FORMAT})"
        raise UserFault(fact, f"{where}: {written}", NEWER)
    _require_platform_of_lock(table, where)
    try:
        pylock = Pylock.from_dict(raw)
    except (InvalidPylock, PylockUnsupportedVersionError, ValueError) as error:
        raise UserFault("the lock is damaged", f"{where}: {error}", DAMAGED) from error
    if unfit := uv.list_for_gpu(pylock):
        raise UserFault("the lock has packages for a GPU", f"{where}: {', '.join(unfit)}", DAMAGED)
    return list(pylock.packages), table


def _require_platform_of_lock(table: Mapping[str, Any], where: str) -> Platform:
    """Return what a lock is for; raise UserFault where no image can be."""
    if platform := next((one for one in PLATFORMS if one.machine == table.get("machine")), None):
        return platform
    fact = "the lock is for another kind of machine than images are made for"
    known = ", ".join(one.machine for one in PLATFORMS)
    raise UserFault(fact, f"{where}: {table.get('machine')} (known: {known})", "build.py lock")


def _asked_otherwise(lock: Lock, request: Request) -> Iterable[str]:
    if request.platform not in (None, lock.platform):
        yield f"--platform {request.platform}, but the lock is for {lock.platform.machine}"
    requested = {name: getattr(request, name) for name in ASKED}
    for name, value in {**requested, "base": _as_locked(request.base), **request.content}.items():
        key, there = option_key(name), getattr(lock, name)
        if isinstance(value, bool) and value is not there:
            yield f"--{'' if value else 'no-'}{key}, but the lock was made with --{'' if there else 'no-'}{key}"
        elif value not in (None, there) and not (name in ASKED and _same(str(value), there)):
            yield f"--{key} {_listed(value)}, but the lock has {_listed(there)}"
    if request.tasks:
        yield f"--tasks {','.join(request.tasks)}, but a lock has its packages already"
    if request.as_of and not request.as_of == str(lock.as_of) == str(lock.family_as_of):
        yield f"--as-of {request.as_of}, but the lock has {lock.as_of}"
    packages = lock.user_packages.requirements if lock.user_packages else ()
    if request.user_packages not in ((), packages):
        lines = "; ".join(request.user_packages)
        yield f"--requirements or --package: {lines}, but the lock has {'; '.join(packages) or 'none'}"
    if request.examples and (request.examples == "none") == bool(lock.examples):
        yield f"--examples {request.examples}, but the lock has {'some' if lock.examples else 'none'}"


def _other_tools(lock: Lock, table: Mapping[str, Any]) -> Iterable[str]:
    there = stated if isinstance(stated := table.get("tools"), dict) else {}
    for name, value in tools(lock).items():
        if there.get(name) != value:
            yield f"{name} {value} here, {there.get(name)} in the lock"


def _listed(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str("none" if value is None else value)


def _same(requested: str, locked: object) -> bool:
    """Return whether a value in other words is the lock's: 2.13 is as good as 2.13.0 (PyPA, "Version specifiers")."""
    try:
        return Version(requested) == Version(str(locked))
    except ValueError:  # no version, or a number of thousands of digits
        return False


def is_base_on_disk(base: str | None) -> bool:
    """Return whether a base is a layout or an archive, and no name in a registry."""
    return not is_named(base) and not isinstance(reference.parse_reference(str(base)), reference.Remote)


def _as_locked(base: str | None) -> str | None:
    """Return the base of a request as a lock writes it; a base on disk is compared by its digest, later."""
    if is_named(base):
        return base
    return None if is_base_on_disk(base) else str(reference.parse_reference(str(base)))


def _kebab(value: Any) -> Any:
    """Return a part of a lock as TOML has it: a table where it is a dataclass, hyphens in names, and no None."""
    if is_dataclass(value):
        parts = ((field.name, getattr(value, field.name)) for field in fields_of(value))
        return {KEYS.get(name, name.replace("_", "-")): _kebab(part) for name, part in parts if part is not None}
    return [_kebab(part) for part in value] if isinstance(value, tuple) else value


def _snake(value: Any) -> Any:
    if isinstance(value, dict):
        return {NAMES.get(name, name.replace("-", "_")): _snake(part) for name, part in value.items()}
    return [_snake(part) for part in value] if isinstance(value, list) else value
