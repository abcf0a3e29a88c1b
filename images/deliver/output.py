"""What the user means by a path for an image, and how the image gets there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from images.host.errors import UserFault
from images.host.files import replacing, require_writable
from images.oci.image import Image
from images.oci.writing.archive import write_archive
from images.oci.writing.layout_writer import write_layout
from images.store.store import Store


@dataclass(frozen=True)
class Target:
    """Where an image is written to: a path without links, and whether it becomes a layout or an archive there."""

    path: Path
    is_layout: bool


def parse_target(text: str) -> Target:
    """Return what the user means by a path: a layout where it ends in `/` or is a directory, an archive elsewhere.

    Raises UserFault for what is there and is no archive and no layout (a device, a pipe, a directory of other things),
    and where nothing can be written: the lock goes beside it.
    """
    given, path = Path(text), Path(os.path.realpath(text))
    is_layout = text.endswith("/") or path.is_dir()
    if given.exists() and not (given.is_dir() if is_layout else given.is_file()):
        kind = "directory" if is_layout else "file"
        raise UserFault(f"what is there is not a {kind}", text, "--output with a path that is new, or an archive")
    if not path.parent.is_dir():
        raise UserFault("no such directory", path.parent, "--output with a path in a directory that exists")
    require_writable(path.parent)
    if path.is_dir():
        require_writable(path)
        if any(path.iterdir()) and not (path / "oci-layout").is_file():
            remedy = "--output with one that is new, empty or a layout"
            raise UserFault("that directory has other things in it", text, remedy)
    return Target(path, is_layout)


def save_images(place: Target, images: Sequence[Image], store: Store, compression: str) -> None:
    """Write an image to its place; what is there already stays as it was until the new one is whole.

    A layout takes one for each of several platforms.
    """
    if place.is_layout:
        write_layout(place.path, images, store, compression)
    else:
        with replacing(place.path) as aside:
            write_archive(aside, images[0], store)
