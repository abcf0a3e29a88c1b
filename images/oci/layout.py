"""Images read from files: an OCI layout in a directory or a tar, and what `docker save` writes since Docker 1.10."""

from __future__ import annotations

import hashlib
import posixpath
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from images.foreign import documents, tars
from images.host.download import Advance
from images.host.errors import UserFault, WorldFault
from images.host.store import CHUNK, Store
from images.oci import manifest
from images.oci.compression import most_unpacked
from images.oci.manifest import LIMIT, NAME, SUBJECT, TAG, Descriptor, Manifest, digest_of, encode, read
from images.oci.reference import Archive, Directory

AGAIN = "copy or save the image again: the file is damaged"
REMEDY = "oci:DIRECTORY with index.json in it, or archive:FILE from docker save"

Open = Callable[[str], IO[bytes]]  # a file of the layout by its path; KeyError or OSError when it is not there


class Layout:
    """An OCI layout: index.json, and blobs by their digests (OCI image specification 1.1, "Image Layout")."""

    def __init__(self, name: str, tag: str | None, open_: Open, store: Store) -> None:
        self._name, self._tag, self._open, self._store = name, tag, open_, store

    def manifest(self, digest: str | None) -> bytes:
        """Read a manifest by digest, or for None the part of the index that the tag means."""
        if digest is not None:
            return self._bytes(_place(digest))
        index = read(self._bytes("index.json"), self._name)
        entries = _entries(index)
        names = [_names(entry) for entry in entries]
        listed = _listed([name for name, _ in names])
        if self._tag is None and len(set(names)) > 1 and len({entry.get("digest") for entry in entries}) > 1:
            raise UserFault("there are several images", f"{self._name} ({listed})", "oci:DIRECTORY:TAG")
        meant = [entry for entry, known in zip(entries, names, strict=True) if self._tag is None or self._tag in known]
        if not meant:
            raise UserFault("there is no such image", f"{self._name} (it has {listed or 'none'})", REMEDY)
        return encode({**index, "manifests": meant})

    def config(self, found: Manifest, advance: Advance) -> Path:
        """Copy the configuration into the store, unless it is there undamaged."""
        return self._blob(found.config, advance)

    def layers(self, found: Manifest, advance: Advance) -> list[Path]:
        """Copy the layers into the store, but for those that are there undamaged."""
        return [self._blob(layer, advance) for layer in found.layers]

    def _blob(self, part: Descriptor, advance: Advance) -> Path:
        return _into_store(self._store, part, lambda: self._file(_place(part.digest)), self._name, advance)

    def _file(self, path: str) -> IO[bytes]:
        try:
            return self._open(path)
        except (KeyError, OSError) as error:
            raise UserFault("the image is not whole", f"{self._name} (no {path})", REMEDY) from error

    def _bytes(self, path: str) -> bytes:
        with self._file(path) as file:
            return b"".join(_chunks(file, self._name, LIMIT))


class Saved:
    """What `docker save` writes: manifest.json, a configuration, and layers as tars (Docker image specification 1.2).

    It has no digests of layers: they get those of the tars as they are.
    """

    def __init__(self, name: str, open_: Open, store: Store) -> None:
        self._name, self._open, self._store = name, open_, store
        self._paths: dict[str, str] = {}

    def manifest(self, digest: str | None) -> bytes:
        """Write the manifest that the archive would have in a registry."""
        image = self._image()
        with self._file(image["Config"]) as file:
            config = b"".join(_chunks(file, self._name, LIMIT))
        self._paths[digest_of(config)] = image["Config"]
        return manifest.write(config, [(*self._measured(path), "none") for path in image["Layers"]])

    def config(self, found: Manifest, advance: Advance) -> Path:
        """Copy the configuration into the store, unless it is there undamaged."""
        return self._blob(found.config, advance)

    def layers(self, found: Manifest, advance: Advance) -> list[Path]:
        """Copy the layers into the store, but for those that are there undamaged."""
        return [self._blob(layer, advance) for layer in found.layers]

    def _blob(self, part: Descriptor, advance: Advance) -> Path:
        return _into_store(self._store, part, lambda: self._file(self._paths[part.digest]), self._name, advance)

    def _image(self) -> Mapping[str, Any]:
        try:
            with self._open("manifest.json") as file:
                images = documents.parse(b"".join(_chunks(file, self._name, LIMIT)))
        except (KeyError, ValueError) as error:
            remedy = f"{REMEDY}; what Docker before 1.10 saved must be loaded and saved again"
            raise UserFault("that is no archive of an image", self._name, remedy) from error
        if not isinstance(images, list) or not images or not all(map(_is_image, images)):
            raise UserFault("the list of images in the archive is damaged", self._name, "docker save it again")
        if len(images) > 1:
            tags = [tag for image in images for tag in image.get("RepoTags") or ["without a tag"]]
            raise UserFault("there are several images", f"{self._name} ({_listed(tags)})", "docker save one image")
        found: Mapping[str, Any] = images[0]
        return found

    def _measured(self, path: str) -> tuple[str, int]:
        hashed, size = hashlib.sha256(), 0
        with self._file(path) as file:
            for chunk in _chunks(file, self._name):
                hashed.update(chunk)
                size += len(chunk)
        self._paths[f"sha256:{hashed.hexdigest()}"] = path
        return hashed.hexdigest(), size

    def _file(self, path: str) -> IO[bytes]:
        try:
            return self._open(path)
        except KeyError as error:
            raise UserFault("the image is not whole", f"{self._name} (no {path})", "docker save it again") from error


def in_directory(reference: Directory, store: Store) -> Layout:
    """Open an OCI layout in a directory.

    Raises UserFault when there is none.
    """
    root = Path(reference.path)
    if not (root / "index.json").is_file():
        raise UserFault("that is not an OCI layout", f"{reference} (no index.json)", REMEDY)

    def open_(path: str) -> IO[bytes]:
        if not (root / path).is_file():  # a pipe would be waited for, and a device read without end
            raise FileNotFoundError(path)
        return (root / path).open("rb")

    return Layout(str(reference), reference.tag, open_, store)


@contextmanager
def in_archive(reference: Archive, store: Store) -> Iterator[Layout | Saved]:
    """Open an archive; where it is both, the OCI layout counts, since its blobs have digests.

    Raises UserFault when it is not a tar that can be read, WorldFault when it is cut short.
    """
    name = str(reference)
    try:
        tar = tars.on_disk(Path(reference.path), "r")  # what goes wrong later is another matter
        members = _members(tar, most_unpacked(Path(reference.path).stat().st_size))
    except (tars.CutShort, EOFError) as error:  # EOFError: it is compressed
        raise WorldFault("the archive is cut short", name, AGAIN) from error
    except tars.CONTENT as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else "not a whole tar"
        raise UserFault("cannot read the archive", f"{name} ({said})", REMEDY) from error

    def open_(path: str) -> IO[bytes]:
        try:
            file = tar.extractfile(members[posixpath.normpath(path)])
        except RecursionError as error:  # it follows a link to itself
            raise KeyError(path) from error
        if file is None:
            raise KeyError(path)
        return file

    with tar:
        yield Layout(name, None, open_, store) if "index.json" in members else Saved(name, open_, store)


def _members(tar: tarfile.TarFile, most: int) -> dict[str, tarfile.TarInfo]:
    """List a tar, which may unpack to `most` bytes; closed again when it is damaged."""
    try:
        return tars.listed(tar, most)
    except BaseException:
        tar.close()
        raise


def _into_store(store: Store, part: Descriptor, open_: Callable[[], IO[bytes]], name: str, advance: Advance) -> Path:
    if found := store.whole(part.sha256, "blob"):
        return found
    hashed = hashlib.sha256()
    with store.aside() as path:
        with open_() as source, path.open("wb") as file:
            for chunk in _chunks(source, name, part.size):
                hashed.update(chunk)
                file.write(chunk)
                advance(len(chunk))
        if (got := hashed.hexdigest()) != part.sha256:
            raise WorldFault("a blob has another sha256 than its name", f"{name}: {got}, not {part.sha256}", AGAIN)
        return store.keep(path, got)


def _chunks(source: IO[bytes], name: str, most: int | None = None) -> Iterator[bytes]:
    """Yield the content of a file.

    Raises WorldFault where it cannot be read, or has more than `most` bytes.
    """
    size = 0
    try:
        while chunk := source.read(CHUNK):
            size += len(chunk)
            if most is not None and size > most:
                raise WorldFault("a file of the image is too long", f"{name} (more than {most} bytes)", AGAIN)
            yield chunk
    except tars.CONTENT as error:
        raise WorldFault("a file of the image cannot be read", f"{name} ({error})", AGAIN) from error


def _place(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _entries(index: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of an index that are images: containerd puts signatures beside what they sign."""
    found = index.get("manifests")
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return [entry for entry in entries if SUBJECT not in _annotations(entry)]


def _annotations(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = entry.get("annotations")
    return found if isinstance(found, dict) else {}


def _names(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of an entry of an index, and its tag alone."""
    annotations = _annotations(entry)
    tag = str(annotations.get(TAG, ""))
    return str(annotations.get(NAME, tag)), tag


def _is_image(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("Config"), str)
        and isinstance(entry.get("Layers"), list)
        and all(isinstance(path, str) for path in entry["Layers"])
    )


def _listed(tags: list[str]) -> str:
    return ", ".join(dict.fromkeys(tag or "without a tag" for tag in tags))
