"""Whether an image is what its lock says: built again, and compared by content, configuration and manifest."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO

from images.base.overlay import EACH, LARGEST, too_many_files
from images.check.opened import Inside, entries
from images.foreign.sandbox import Sandbox
from images.host.store import CHUNK
from images.layers.entrypoint_layer import NAME
from images.model import Image, Layer, Lock
from images.oci import compression, manifest

ABSENT, TWICE = "absent", "there twice"
CACHE, RECORD = "__pycache__", ".dist-info/RECORD"
LISTED = re.compile(rb"/?__pycache__/[^/]+\.pyc,,\r?\n?$")  # how RECORD names bytecode


@dataclass(frozen=True)
class Difference:
    """The first thing that differs: the part of the image, the path in it, and what stands on either side.

    `part` is `layer NAME`, `configuration` or `manifest`.
    """

    part: str
    path: str
    image: str
    rebuilt: str

    @property
    def text(self) -> str:
        """Return it as one line."""
        place = f"{self.part}, {self.path}" if self.path else self.part
        return f"{place}: {self.image} in the image, {self.rebuilt} rebuilt"

    @property
    def remedy(self) -> str:
        """Return what to do about it; our own layer comes from the release of multinode that builds."""
        if self.part == f"layer {NAME}":
            return "build.py verify of the release of multinode that made the image; else find out who changed it"
        return "find out who changed it; build.py --lock builds what the lock says"


@dataclass(frozen=True)
class LeftOut:
    """What could not be compared, with the reason, and what makes it possible."""

    what: str
    remedy: str


def left_out(lock: Lock, found: Sandbox) -> tuple[LeftOut, ...]:
    """Return what is not compared: bytecode that we could not make."""
    if not lock.bytecode or not found.refusal:
        return ()
    return (LeftOut(f"bytecode (the base's Python runs in a sandbox only: {found.refusal})", found.remedy),)


def compare(inside: Inside, made: Image, own: Sequence[Path], first_uncompiled: int | None = None) -> Difference | None:
    """Return the first difference between an image and the one built from its lock; `own` are the layers of the latter.

    None means that every layer has the same content (it is hashed, the configuration is not believed), that the
    configurations are the same (user, environment, labels, history and all else), and that the manifest says nothing
    more than we write. From layer number `first_uncompiled` on `own` has no bytecode, and bytecode is not compared.
    """
    return (
        _layers(inside, made, own, first_uncompiled)
        or _configuration(inside, made, first_uncompiled)
        or _manifest(inside)
    )


def _layers(inside: Inside, made: Image, own: Sequence[Path], first_uncompiled: int | None) -> Difference | None:
    for number, (layer, theirs, mine) in enumerate(zip_longest(made.layers, inside.layers, own)):
        if theirs is None or layer is None:
            name = f"layer {layer.name}" if layer else "the layers above"
            return Difference(name, "", f"{len(inside.layers)} layers", f"{len(made.layers)} layers")
        if found := _layer(layer, theirs, mine, bytecode=first_uncompiled is None or number < first_uncompiled):
            return found
    return None


def _layer(layer: Layer, theirs: Path, mine: Path, *, bytecode: bool) -> Difference | None:
    """Return what differs in one layer; without `bytecode` that of either side is left out."""
    name, expected, digest = f"layer {layer.name}", layer.written.diff_id, _unpacked(theirs)
    if digest == expected:
        return None
    if not bytecode and (found := _unexplained(name, theirs, digest)):
        return found
    if found := _first(name, _listing(theirs, bytecode), _listing(mine, bytecode)):
        return found
    return Difference(name, "", f"sha256:{digest}", f"sha256:{expected}") if bytecode else None


def _unexplained(name: str, layer: Path, digest: str) -> Difference | None:
    """Refuse a layer with bytes that we would not write for its entries: another reader may see other entries in it."""
    hashed, size = hashlib.sha256(), 0
    for info, data in entries(layer):
        try:
            parts = [info.tobuf(tarfile.PAX_FORMAT)]
        except ValueError as error:
            return Difference(name, f"/{info.name}", f"a header that cannot be written ({error})", ABSENT)
        while True:
            for part in parts:
                hashed.update(part)
                size += len(part)
            if not data or not (chunk := data.read(CHUNK)):
                break
            parts = [chunk]
        hashed.update(bytes(-size % tarfile.BLOCKSIZE))
        size += -size % tarfile.BLOCKSIZE
    size += 2 * tarfile.BLOCKSIZE
    hashed.update(bytes(2 * tarfile.BLOCKSIZE + -size % tarfile.RECORDSIZE))
    return None if hashed.hexdigest() == digest else Difference(name, "", "bytes that are in no entry", ABSENT)


def _unpacked(layer: Path) -> str:
    """Return the sha256 of a layer, unpacked."""
    with compression.opened(layer) as plain:
        plain.rest()
        return plain.sha256


def _first(name: str, left: Mapping[str, str], right: Mapping[str, str]) -> Difference | None:
    """Find the first entry that differs, in the order of our layer, which is `right`."""
    for path in [*right, *(path for path in left if path not in right)]:
        if left.get(path) != right.get(path):
            return Difference(name, f"/{path}", left.get(path, ABSENT), right.get(path, ABSENT))
    order = next((pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]), None)
    return Difference(name, f"/{order[0]}", "another order of files", "the usual one") if order else None


def _listing(layer: Path, bytecode: bool) -> dict[str, str]:
    """Describe every entry of a layer, or all but bytecode: sha256 of the content, and what else decides the bytes.

    No layer that we write has a path twice: a hard link between the two would lead to the first.
    """
    found: dict[str, str] = {}
    size = 0
    for info, data in entries(layer):
        if bytecode or not _is_bytecode(info):
            found[info.name] = TWICE if info.name in found else _describe(info, data, bytecode)
            size += EACH + len(info.name) + len(found[info.name])
        if size > LARGEST:
            raise too_many_files()
    return found


def _is_bytecode(info: tarfile.TarInfo) -> bool:
    directory, _, name = info.name.rpartition("/")
    return name == CACHE if info.isdir() else name.endswith(".pyc") and directory.rpartition("/")[2] == CACHE


def _describe(info: tarfile.TarInfo, data: IO[bytes] | None, bytecode: bool) -> str:
    rest = " ".join(
        (f"mode {info.mode:o} owner {info.uid}:{info.gid} time {int(info.mtime)}", *sorted(info.pax_headers))
    )
    if data is None:
        return f"{_kind(info)} {info.linkname} {rest}".replace("  ", " ")
    hashed = hashlib.sha256()
    if not bytecode and info.name.endswith(RECORD):
        for line in iter(lambda: data.readline(CHUNK), b""):
            if not LISTED.search(line):
                hashed.update(line)
    while chunk := data.read(CHUNK):
        hashed.update(chunk)
    return f"sha256:{hashed.hexdigest()} {rest}"


def _kind(info: tarfile.TarInfo) -> str:
    kinds = ((info.isdir(), "directory"), (info.issym(), "link to"), (info.islnk(), "hard link to"))
    return next((kind for found, kind in kinds if found), "special file")


def _configuration(inside: Inside, made: Image, first_uncompiled: int | None) -> Difference | None:
    """Compare every value of the configurations; an engine may have written the same values in another order."""
    config = json.loads(made.config)
    if first_uncompiled is not None:  # without bytecode, our layers are others: the image's own are hashed
        config["rootfs"]["diff_ids"] = [f"sha256:{_unpacked(layer)}" for layer in inside.layers]
    theirs, mine = dict(_values(inside.config)), dict(_values(config))
    for path in [*mine, *(path for path in theirs if path not in mine)]:
        if theirs.get(path) != mine.get(path):
            return Difference("configuration", ".".join(path), theirs.get(path, ABSENT), mine.get(path, ABSENT))
    return None


def _values(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every value of a JSON text as (keys that lead to it, JSON); an empty object or list is a value."""
    if isinstance(value, Mapping) and value:
        for key, part in sorted(value.items()):
            yield from _values(part, (*path, str(key)))
    elif isinstance(value, list) and value:
        for number, part in enumerate(value):
            yield from _values(part, (*path, f"[{number}]"))
    else:
        yield path, json.dumps(value)


def _manifest(inside: Inside) -> Difference | None:
    """Refuse what we never write: annotations, addresses of layers, a subject; how layers are packed is free."""
    more = next(iter(manifest.unusual(inside.manifest)), None)
    return Difference("manifest", more, "present", ABSENT) if more else None
