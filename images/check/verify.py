"""Whether an image, read from wherever it is, is what its lock says: built again and compared."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from images.base.overlay import LARGEST, PER_ENTRY, too_many_files
from images.base.pulled import fetch_image, open_source
from images.context import Access
from images.deliver import engine as engines
from images.deliver.transfer import Repository
from images.foreign.paths import below_root
from images.host import limits
from images.host.errors import Fault, UserFault, WorldFault
from images.layers.entrypoint_layer import MULTINODE, SBOM
from images.lock import lockfile
from images.oci import compression, manifest, reference
from images.oci.image import Image
from images.oci.indexes import find_manifests
from images.oci.manifest import Manifest, digest_of
from images.oci.reading import OnDisk
from images.oci.reference import ArchiveReference, LayoutReference, Reference, Remote
from images.platforms import Platform
from images.store.blobs import Readable, copied, read_chunks
from images.store.store import Store

LOCK, BILL = f"{MULTINODE}/{lockfile.NAME}", f"{MULTINODE}/{SBOM}"
REGISTRY = "docker://"  # as skopeo has it: a name in a registry, whatever an engine here calls so


@dataclass(frozen=True)
class Inside:
    """An opened image: its name, its manifest and configuration as they are, and its layers from the lowest.

    `where` says which of the places that may have an image of that name it was taken from; `remote` is its name in a
    registry, where that is the place. `digests` are those that the name leads to: of indexes, and of the only image.
    """

    name: str
    manifest: bytes
    raw_config: bytes
    layers: tuple[Path, ...]
    where: str = ""
    remote: Remote | None = None
    digests: tuple[str, ...] = ()

    @property
    def config(self) -> Mapping[str, Any]:
        """Return the configuration."""
        config: Mapping[str, Any] = json.loads(self.raw_config)
        return config

    @property
    def platform(self) -> str:
        """Return what it is for, as its configuration says."""
        return f"{self.config['os']}/{self.config['architecture']}"

    @property
    def id(self) -> str:
        """Return the digest of the configuration, by which podman and Docker's own store know the image."""
        return digest_of(self.raw_config)

    @property
    def digest(self) -> str:
        """Return the digest of the manifest that was read; for what `docker save` wrote, of the one it would have."""
        return digest_of(self.manifest)

    @property
    def indexes(self) -> list[str]:
        """Return the digests of the indexes that lead to the image."""
        return [digest for digest in self.digests if digest != self.digest]

    def file(self, path: str) -> bytes:
        """Read a file that build.py wrote, out of the highest layer that has it.

        Raises UserFault when it is not there: build.py did not make the image. Raises WorldFault for one that is longer
        than any real one.
        """
        for layer in reversed(self.layers):
            content: bytes | None = None
            for info, data in read_layer_entries(layer):
                if data and below_root(info.name) == path:
                    content = data.read(limits.INSIDE.most + 1)  # of two the later one counts
            if content is not None:
                return self._require_short(path, content)
        remedy = "an image that build.py made (for a derived one: its base)"
        raise UserFault("this image was not made here", f"{self.name} (no /{path})", remedy)

    def _require_short(self, path: str, data: bytes) -> bytes:
        if len(data) > (most := limits.INSIDE.most):
            value = f"{self.name}: /{path} (more than {most} bytes)"
            raise WorldFault("a file in the image is too long", value, "an image that build.py made")
        return data


def read_layer_entries(layer: Path) -> Iterator[tuple[tarfile.TarInfo, Readable | None]]:
    """Yield the entries of a layer with their data, which must be read before the next one.

    Raises WorldFault when it is not a whole tar.
    """
    with compression.open_layer_tar(layer) as (tar, _):
        for info in tar:
            yield info, tar if info.isreg() else None


@contextmanager
def open_image(name: str, platform: Platform | None, store: Store, access: Access) -> Iterator[list[Inside]]:
    """Open an image by what the user calls it: a path, a name in an engine here, a name in a registry.

    Without a platform, every platform of the image is opened. A name is searched in this order; after `docker://` only
    in a registry. The layers are copied to a temporary place, which is removed afterwards.
    Raises UserFault when that is no name of an image, WorldFault when an engine here does not answer.
    """
    with store.temporary(directory=True) as place:
        named, where = _find(name, place / "image.tar", access)
        remote = named if isinstance(named, Remote) else None
        images = read_images(named, platform, Store(place), access)
        yield [replace(image, name=name, where=where, remote=remote) for image in images]


def read_images(named: Reference, platform: Platform | None, store: Store, access: Access) -> list[Inside]:
    """Fetch an image into the store, without a platform one for each that it is there for, and open each as it is.

    Raises UserFault where an engine might take another image for it, else as `fetch_image` does.
    """
    name = str(named)
    with open_source(named, store, access) as source:
        digests, manifests = find_manifests(source.manifest, name, platform)
        opened = [_open_one(source, manifest, name, its_platform) for its_platform, manifest in manifests]
    return [replace(image, digests=tuple(digests)) for image in opened]


def _open_one(source: OnDisk | Repository, manifest: Manifest, name: str, platform: Platform | None) -> Inside:
    image = fetch_image(source, manifest, name, platform, _nobody)
    config = source.config(manifest, _nobody).read_bytes()
    return Inside(name, source.manifest(manifest.digest), config, image.layers)


def _nobody(_: int) -> None:
    """Tell nobody how much has come."""


def _find(name: str, place: Path, access: Access) -> tuple[Reference, str]:
    """Return what to open, and what that is called; an engine writes out an image that it has."""
    if name.startswith(REGISTRY):
        named: Reference = reference.parse_remote(name.removeprefix(REGISTRY), f"{REGISTRY}HOST/NAME:TAG")
    else:
        named = _on_disk(name) or reference.parse_reference(name)  # what is no name in a registry is none in an engine
        if isinstance(named, Remote) and (engine := _engine_with(name, place, access)):
            return ArchiveReference(str(place)), f"in {engine}"
    if isinstance(named, Remote):
        return named, f"in the registry {named.host}"
    return named, "in a layout" if isinstance(named, LayoutReference) else "in an archive"


def _engine_with(name: str, place: Path, access: Access) -> str | None:
    """Have the first engine that has an image write it out; return what that is called, None where none has it."""
    faults, answered = list[Fault](), False
    for engine in engines.connect_all(access.environ):
        if isinstance(engine, Fault):
            faults.append(engine)
        elif engine.save(name, place):
            return engine.name
        else:
            answered = True
    if faults and not answered:  # one of them may have it: another image of that name is not taken for it
        search = engines.Search(None, faults)
        remedy = f"{search.remedy}; {REGISTRY}{name} is the one in the registry"
        raise WorldFault("whether an engine has the image cannot be known", f"{name} ({search.why})", remedy)
    return None


def _on_disk(name: str) -> Reference | None:
    path = Path(name)
    if path.is_dir():
        return LayoutReference(str(path))
    return ArchiveReference(str(path)) if path.is_file() else None


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
    return (
        _compare_layers(inside, rebuilt, paths) or _configuration(inside, rebuilt) or _check_manifest(inside, rebuilt)
    )


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
        size += PER_ENTRY + len(info.name) + len(lines[info.name])
        if size > LARGEST:
            raise too_many_files()
    return lines


def _describe(info: tarfile.TarInfo, data: Readable | None) -> str:
    if data is None:
        what = f"{KINDS.get(info.type, 'special file')} {info.linkname}".rstrip()
    else:
        what = f"sha256:{copied(read_chunks(data))[0]}"
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


def _check_manifest(inside: Inside, rebuilt: Image) -> Difference | None:
    """Refuse what we do not write: other annotations, addresses of layers, a subject; how layers are packed is free."""
    more = next(iter(manifest.list_unusual(inside.manifest, rebuilt.annotations)), None)
    return Difference("manifest", more, "present", ABSENT) if more else None
