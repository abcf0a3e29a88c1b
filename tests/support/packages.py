"""Debian packages of a few files, written here, and an archive of some of them that a key of ours has signed."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path

import pysequoia

from images.debian.deb import Deb
from images.store.blobs import sha256
from images.store.store import Store
from tests.support.stand_in import Files, layer

# With an epoch, a tilde and a plus, which are written in other ways in the name of a file.
VERSION = "1:2.0~rc1+deb12u1-3"
PARTS = ("", "-updates", "-security")


def archived(members: Sequence[tuple[str, bytes]]) -> bytes:
    """Return an archive of ar."""
    out = b"!<arch>\n"
    for name, data in members:
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return out


def package(
    name: str, files: bytes | Files = b"", scripts: Mapping[str, str] | None = None, version: str = "1", **fields: str
) -> bytes:
    """Return a package; `files` may be a tar, and `fields` are further ones of its control file, with _ for -."""
    about = {"Package": name, "Version": version, "Architecture": "amd64", "Maintainer": "a@b.c", "Description": "one"}
    about |= {key.replace("_", "-"): value for key, value in fields.items()}
    text = "".join(f"{key}: {value}\n" for key, value in about.items())
    control: Files = {f"./{key}": value.encode() for key, value in {"control": text, **(scripts or {})}.items()}
    data = files if files and isinstance(files, bytes) else layer(files or {})
    members = (("control.tar.xz", layer(control)), ("data.tar.xz", data))
    packed = [(called, lzma.compress(content, preset=0)) for called, content in members]
    return archived([("debian-binary", b"2.0\n"), *packed])


def make(store: Store, place: Path, name: str, files: Mapping[str, bytes | str]) -> Deb:
    """Make a package of files, and of links where the content is text, and keep it in a store."""
    place.mkdir(exist_ok=True)
    path = place / f"{name}.deb"
    path.write_bytes(package(name, {f"./{inner}": content for inner, content in files.items()}))
    digest = sha256(path)
    return Deb(name, "1", "amd64", store.keep(path, digest, path.name).name, digest)


WRITTEN = "Date: Thu, 01 Jan 2026 00:00:00 UTC\n"


class Archive:
    """An archive in a directory: mirrors of a suite, its updates and its security updates, by the address `uri`."""

    def __init__(self, place: Path, suite: str = "bookworm") -> None:
        self.place, self.suite, self._key = place, suite, pysequoia.Tsk.generate("Archive <archive@example.org>")
        self.uri = place.as_uri()

    @property
    def keyring(self) -> bytes:
        """Return the key that it is signed with."""
        return bytes(self._key.extract_certificate())

    def write(
        self, packages: Mapping[str, Sequence[tuple[str, bytes]]], release: str = f"Acquire-By-Hash: no\n{WRITTEN}"
    ) -> None:
        """Write the packages of each part, as paragraph of the index without its file, and file; and sign them."""
        for part in PARTS:
            root = self.place.with_name(f"{self.place.name}-security") if part == "-security" else self.place
            index = "\n".join(self._pool(root, text, content) for text, content in packages.get(part, ()))
            self._sign(root / f"dists/{self.suite}{part}", f"Codename: {self.suite}{part}\n{release}", index.encode())

    def _pool(self, root: Path, text: str, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        path = root / f"pool/{digest[:16]}.deb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return f"{text}Filename: {path.relative_to(root)}\nSize: {len(content)}\nSHA256: {digest}\n"

    def _sign(self, place: Path, release: str, index: bytes) -> None:
        directory = place / "main/binary-amd64"
        directory.mkdir(parents=True, exist_ok=True)
        packed = lzma.compress(index, preset=0)
        (directory / "Packages.xz").write_bytes(packed)
        rows = (("Packages", index), ("Packages.xz", packed))
        listed = "".join(
            f" {hashlib.sha256(data).hexdigest()} {len(data)} main/binary-amd64/{name}\n" for name, data in rows
        )
        text = f"{release}SHA256:\n{listed}".encode()
        signed = pysequoia.sign(self._key.signer(), text, mode=pysequoia.SignatureMode.CLEAR)
        (place / "InRelease").write_bytes(signed)


def row(name: str, version: str = VERSION, **fields: str) -> str:
    """Return a paragraph of an index, without what is said of the file."""
    about = {"Package": name, "Version": version, "Architecture": "amd64", **fields}
    return "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in about.items())


def simple(name: str, files: bytes | Files = b"", version: str = VERSION, **fields: str) -> tuple[str, bytes]:
    """Return a package as an archive takes it."""
    return row(name, version, **fields), package(name, files, None, version, **fields)
