"""What `docker save` writes since Docker 1.10, as a registry would have it (Docker image specification 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from images.foreign import documents
from images.foreign.files import Files
from images.foreign.paths import below_root
from images.host.errors import Fault, UserFault, WorldFault
from images.oci import manifest
from images.oci.descriptors import digest_of
from images.oci.manifest import LIMIT, Manifest
from images.oci.reading.files import REMEDY, OnDisk, list_tags
from images.store.blobs import Blobs, copied

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
