"""The Docker clients of this machine that drive BuildKit: the built-in one of Debian's Docker, and buildx."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.host.commands import call
from images.host.errors import UserFault, WorldFault


@dataclass(frozen=True)
class Client:
    """A client; suffix: what the names of its figures end in, empty for the first."""

    path: str
    title: str
    suffix: str = ""


def find(environ: Mapping[str, str]) -> list[Client]:
    """Return the first client with BuildKit built in, and the first with buildx; at least one.

    Raises UserFault when there is none.
    """
    clients: dict[bool, Client] = {}
    for path in _candidates(environ):
        kind = _kind(path)
        if kind is not None and kind not in clients:
            suffix = " buildx" if kind and clients else ""
            clients[kind] = Client(path, f"{_version(path)}{', buildx' if kind else ''}", suffix)
    if not clients:
        raise UserFault("no Docker client here drives BuildKit", "docker build --secret", "apt-get install docker.io")
    return list(clients.values())


def _candidates(environ: Mapping[str, str]) -> list[str]:
    files = [Path(directory) / "docker" for directory in environ.get("PATH", "").split(os.pathsep) if directory]
    return [str(file) for file in files if os.access(file, os.X_OK)]


def _kind(path: str) -> bool | None:
    """Return whether a client has buildx (true), BuildKit built in (false), or neither."""
    if _said(path, "buildx", "version"):
        return True
    return False if "--secret" in _said(path, "build", "--help") else None


def _version(path: str) -> str:
    return _said(path, "--version").strip().partition(",")[0].removesuffix("+dfsg1")


def _said(path: str, *words: str) -> str:
    """Return what a client prints; nothing where it refuses."""
    try:
        return call([path, *words], seconds=30)
    except WorldFault:
        return ""
