"""Images in files that others wrote, in a directory or a tar: an OCI layout, or what `docker save` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from images.foreign import documents
from images.foreign import files as foreign
from images.foreign.files import Files, open_tar
from images.foreign.paths import below_root
from images.host.errors import Fault, UserFault, WorldFault
from images.oci import indexes, manifest
from images.oci.indexes import SUBJECT
from images.oci.manifest import LIMIT, Descriptor, Manifest, digest_of, encode
from images.oci.reference import ArchiveReference, LayoutReference
from images.store.blobs import BLOB, Advance, Blobs, copied

REMEDY = "oci:DIRECTORY with index.json in it, or archive:FILE from docker save"


@dataclass(frozen=True)
class OnDisk:
    """An image on disk, whose parts are copied into the store, but for those that are there undamaged.

    `manifest` returns a manifest or an index by digest, or for None the one that is meant; `place` the path of a part;
    `check` raises a Fault where the files say of another image, too, that it is the one.
    """

    files: Files
    store: Blobs
    manifest: Callable[[str | None], bytes]
    place: Callable[[str], str]
    check: Callable[[Manifest], None] = lambda _: None

    def config(self, manifest: Manifest, advance: Advance) -> Path:
        """Copy the configuration of an image that `manifest` named."""
        self.check(manifest)
        return self._copy(manifest.config, advance)

    def layers(self, manifest: Manifest, advance: Advance) -> list[Path]:
        """Copy the layers of an image that `manifest` named."""
        return [self._copy(layer, advance) for layer in manifest.layers]

    def _copy(self, part: Descriptor, advance: Advance) -> Path:
        return self.files.keep(self.place(part.digest), (part.sha256, BLOB), self.store, part.size, advance)


def list_tags(tags: Iterable[str]) -> str:
    """Return the tags of images for a message."""
    return ", ".join(dict.fromkeys(tag or "without a tag" for tag in tags))


# What `docker save` writes since Docker 1.10, as a registry would have it (Docker image specification 1.2).

AGAIN = "docker save it again"
KEYS = ("Config", "RepoTags", "Layers", "Parent", "LayerSources")


def open_saved(files: Files, store: Blobs) -> OnDisk:
    """Read manifest.json, and return the image with the manifest that it would have in a registry.

    Its layers are tars without digests: they get those of the tars as they are. Raises UserFault where it is no image,
    or more than one, WorldFault where it has more layers than anybody can run, before one is read.
    """
    image = _image(files)
    manifest.refuse_more(len(image["Layers"]), files.name)
    config = files.read(image["Config"], LIMIT)
    measured = {path: copied(files.chunks(path)) for path in dict.fromkeys(image["Layers"])}
    paths = {f"sha256:{sha256}": path for path, (sha256, _) in measured.items()}
    paths[digest_of(config)] = image["Config"]
    written = manifest.write_manifest(config, [(*measured[path], "none") for path in image["Layers"]])
    return OnDisk(files, store, lambda _: written, paths.__getitem__)


def require_same(files: Files, stated: Manifest) -> None:
    """Raise WorldFault where manifest.json lists another image than index.json, or is missing beside `repositories`.

    Engines read the one list or the other, by their age.
    """
    image = _image(files)
    paths = [below_root(path) for path in (image["Config"], *image["Layers"])]
    if paths != [f"blobs/sha256/{part.sha256}" for part in (stated.config, *stated.layers)]:
        value = f"{files.name} (index.json: {stated.digest})"
        raise WorldFault("the archive has two lists of images, which differ: engines read either", value, AGAIN)


def _image(files: Files) -> Mapping[str, Any]:
    try:
        images = documents.parse_json(files.read("manifest.json", LIMIT))
    except (Fault, ValueError) as error:  # it is not there, or not JSON
        remedy = f"{REMEDY}; what Docker before 1.10 saved must be loaded and saved again"
        raise UserFault("that is no archive of an image", files.name, remedy) from error
    if (
        not isinstance(images, list)
        or not images
        or not all(map(_is_image, images))
        or documents.find_misspelled(images, KEYS)
    ):
        raise UserFault("the list of images in the archive is damaged", files.name, AGAIN)
    if len(images) > 1:
        tags = [tag for image in images for tag in image.get("RepoTags") or ["without a tag"]]
        raise UserFault("there are several images", f"{files.name} ({list_tags(tags)})", "docker save one image")
    entry: Mapping[str, Any] = images[0]
    return entry


def _is_image(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("Config"), str)
        and _is_list_of_text(entry.get("Layers"))
        and _is_list_of_text(entry.get("RepoTags") or [])
    )


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


# Images read from a directory or a tar: an OCI layout, or what `docker save` writes.

INDEX = "index.json"
SEVERAL = "oci:DIRECTORY:TAG, or a layout with only that image"


def open_layout(reference: LayoutReference, store: Blobs) -> OnDisk:
    """Open an OCI layout in a directory.

    Raises UserFault when there is none.
    """
    root = Path(reference.path)
    if not (root / INDEX).is_file():
        raise UserFault("that is not an OCI layout", f"{reference} (no {INDEX})", REMEDY)
    return _layout(foreign.open_directory(root, str(reference)), reference.tag, store)


def open_archive(reference: ArchiveReference, store: Blobs) -> OnDisk:
    """Open an archive; where it is both, the OCI layout counts, since its blobs have digests.

    Raises UserFault when it is not a tar that can be read, WorldFault when it is cut short.
    """
    files = open_tar(Path(reference.path), str(reference), REMEDY, plain=True)
    if not files.has(INDEX):
        return open_saved(files, store)
    agrees = any(map(files.has, ("manifest.json", "repositories")))
    check = partial(require_same, files) if agrees else lambda _: None
    return replace(_layout(files, None, store), check=check)


def _layout(files: Files, tag: str | None, store: Blobs) -> OnDisk:
    """Return what index.json describes, with blobs by their digests (OCI image specification 1.1, "Image Layout")."""
    return OnDisk(files, store, partial(_read_manifest, files, tag), _blob_path)


def _read_manifest(files: Files, tag: str | None, digest: str | None) -> bytes:
    """Read a manifest by digest, or for None the part of the index that the tag means."""
    if digest is not None:
        return files.read(_blob_path(digest), LIMIT)
    index = manifest.parse_document(files.read(INDEX, LIMIT), files.name)
    entries = [(entry, *indexes.entry_names(entry)) for entry in _entries(index)]
    meant = [(entry, name) for entry, name, its_tag in entries if tag in (None, its_tag)]
    if not meant:
        has = list_tags(name for _, name, _ in entries) or "none"
        raise UserFault("there is no such image", f"{files.name} (it has {has})", REMEDY)
    if len({name for _, name in meant}) > 1 and len({str(entry.get("digest")) for entry, _ in meant}) > 1:
        has = list_tags(name for _, name in meant)
        raise UserFault("there are several images", f"{files.name} ({has})", SEVERAL)
    return encode({**index, "manifests": [entry for entry, _ in meant]})


def _blob_path(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _entries(index: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of an index that are images; containerd puts signatures beside them, without names."""
    entries = indexes.entries_of(index)
    return [
        entry for entry in entries if SUBJECT not in indexes.annotations_of(entry) or any(indexes.entry_names(entry))
    ]
