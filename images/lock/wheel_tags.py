"""Which of the files of a release an interpreter takes (PEP 425, PEP 600)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A wheel, or the source archive of a project that has none; `url` may be a path."""

    name: str
    version: str
    filename: str
    url: str
    sha256: str


def choose(package: Mapping[str, Any], python: str, glibc: str, folder: str | None = None) -> Artifact:
    """Choose the file that fits a Python best, as an installer would; packages are as pylock.toml has them.

    One in `folder`, the user's own wheels, wins over others of the same release, if it fits at all.
    """
    ranked = tags(python, glibc)
    mine = f"{Path(folder).absolute().as_uri()}/" if folder else None

    def order(file: Mapping[str, Any]) -> tuple[bool, bool, int]:
        rank = _rank(filename(file["url"]), ranked)
        return rank > len(ranked), not (mine and file["url"].startswith(mine)), rank

    file = min(package["files"], key=order)
    return Artifact(
        name=canonicalize_name(package["name"]),
        version=package["version"],
        filename=filename(file["url"]),
        url=file["url"],
        sha256=file["sha256"],
    )


def filename(url: str) -> str:
    return Path(unquote(urlsplit(url).path)).name


def tags(python: str, glibc: str) -> list[Tag]:
    """List what the base can run, best first (PEP 425, PEP 600)."""
    major, minor = map(int, python.split("."))
    newest = int(glibc.split(".")[1])
    legacy = {17: "manylinux2014_x86_64", 12: "manylinux2010_x86_64", 5: "manylinux1_x86_64"}
    platforms = []
    for release in range(newest, 4, -1):
        platforms += [f"manylinux_2_{release}_x86_64"] + ([legacy[release]] if release in legacy else [])
    platforms.append("linux_x86_64")
    return [
        *cpython_tags((major, minor), platforms=platforms),
        *compatible_tags((major, minor), interpreter=f"cp{major}{minor}", platforms=platforms),
    ]


def _rank(filename: str, ranked: Sequence[Tag]) -> int:
    try:
        offered = parse_wheel_filename(filename)[3]
    except InvalidWheelFilename:
        return len(ranked)
    return next((position for position, tag in enumerate(ranked) if tag in offered), len(ranked) + 1)
