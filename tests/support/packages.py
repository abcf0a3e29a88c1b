"""Debian packages of a few files, which dpkg-deb makes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from images.debs.apt import Deb
from images.host.store import Store, sha256
from tests.support.harness import call


def make(store: Store, place: Path, package: str, files: Mapping[str, bytes | str]) -> Deb:
    """Make a package of files, and of links where the content is text, and keep it in a store."""
    root = place / package
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {package}\nVersion: 1\nArchitecture: amd64\nMaintainer: a@b.c\nDescription: one\n"
    )
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(content) if isinstance(content, str) else path.write_bytes(content)
        if isinstance(content, bytes) and content.startswith(b"#!"):
            path.chmod(0o755)
    path = place / f"{package}.deb"
    assert call(["dpkg-deb", "--build", "--root-owner-group", str(root), str(path)]).code == 0
    digest = sha256(path)
    return Deb(package, "1", "amd64", store.keep(path, digest, path.name).name, digest)
