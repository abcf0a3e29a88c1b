"""Whether an image is what its lock says: built again, and compared by content, configuration and manifest."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from images.base.overlay import EACH, LARGEST, too_many_files
from images.check.opened import Inside, read_layer_entries
from images.foreign.tars import Readable
from images.oci import compression, manifest
from images.oci.image import Image
from images.store.blobs import CHUNK, copied

REMEDY = "build.py verify of the release of multinode that made the image; else find out who changed it"
ABSENT, TWICE = "absent", "there twice"
KINDS = {tarfile.DIRTYPE: "directory", tarfile.SYMTYPE: "link to", tarfile.LNKTYPE: "hard link to"}

Key = TypeVar("Key")


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


def compare_images(inside: Inside, rebuilt: Image, paths: Sequence[Path]) -> Difference | None:
    """Return the first difference between an image and the one rebuilt from its lock, whose layers are at `paths`.

    None means that every layer has the same bytes (it is hashed, the configuration is not believed), that the
    configurations are the same (user, environment, labels, history and all else), and that the manifest says nothing
    more than we write.
    """
    return _compare_layers(inside, rebuilt, paths) or _configuration(inside, rebuilt) or _check_manifest(inside)


def _compare_layers(inside: Inside, rebuilt: Image, paths: Sequence[Path]) -> Difference | None:
    for layer, theirs, mine in zip_longest(rebuilt.layers, inside.layers, paths):
        if theirs is None or layer is None:
            name = f"layer {layer.name}" if layer else "the layers above"
            return Difference(name, "", f"{len(inside.layers)} layers", f"{len(rebuilt.layers)} layers")
        name, expected, digest = f"layer {layer.name}", layer.written.diff_id, _unpacked(theirs)
        if digest != expected:
            difference = _first(name, "/{}".format, _listing(theirs), _listing(mine))
            return difference or Difference(name, "", f"sha256:{digest}", f"sha256:{expected}")
    return None


def _unpacked(layer: Path) -> str:
    """Return the sha256 of a layer, unpacked."""
    with compression.open_layer(layer) as plain:
        plain.rest()
        return plain.sha256


def _first(
    part: str, show: Callable[[Key], str], left: Mapping[Key, str], right: Mapping[Key, str]
) -> Difference | None:
    """Find the first key with another value on either side, in the order of ours, which is `right`."""
    for key in (*right, *left):
        if left.get(key) != right.get(key):
            return Difference(part, show(key), left.get(key, ABSENT), right.get(key, ABSENT))
    return None


def _listing(layer: Path) -> dict[str, str]:
    """Describe every entry of a layer: sha256 of the content, and what else decides the bytes.

    No layer that we write has a path twice: a hard link between the two would lead to the first.
    """
    lines: dict[str, str] = {}
    size = 0
    for info, data in read_layer_entries(layer):
        lines[info.name] = TWICE if info.name in lines else _describe(info, data)
        size += EACH + len(info.name) + len(lines[info.name])
        if size > LARGEST:
            raise too_many_files()
    return lines


def _describe(info: tarfile.TarInfo, data: Readable | None) -> str:
    if data is None:
        what = f"{KINDS.get(info.type, 'special file')} {info.linkname}".rstrip()
    else:
        what = f"sha256:{copied(iter(partial(data.read, CHUNK), b''))[0]}"
    owner = f"mode {info.mode:o} owner {info.uid}:{info.gid} time {int(info.mtime)}"
    return " ".join((what, owner, *sorted(info.pax_headers)))


def _configuration(inside: Inside, rebuilt: Image) -> Difference | None:
    """Compare every value of the configurations; an engine may have written the same values in another order."""
    theirs, mine = dict(_values(inside.config)), dict(_values(json.loads(rebuilt.config)))
    return _first("configuration", ".".join, theirs, mine)


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


def _check_manifest(inside: Inside) -> Difference | None:
    """Refuse what we never write: annotations, addresses of layers, a subject; how layers are packed is free."""
    more = next(iter(manifest.list_unusual(inside.manifest)), None)
    return Difference("manifest", more, "present", ABSENT) if more else None
