"""Layers -> the root file system that a container of them has, without unpacking it (OCI image specification 1.1)."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import IO

# Whiteouts: OCI image specification 1.1, "Image Layer Filesystem Changeset".
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
HOPS = 40  # links in one path before it counts as a circle: path_resolution(7)

# What to keep of a file, by its path and with its content at hand; None means nothing.
Keep = Callable[[str, IO[bytes]], "str | None"]


@dataclass
class Node:
    """A file, directory or link: `kind` is d, l, f, or o for all others; `layer` counts from 0 at the bottom."""

    kind: str
    layer: int
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    target: str = ""
    text: str | None = None
    children: dict[str, Node] = field(default_factory=dict)


class Tree:
    """A root file system of layers; every path in it is relative to the root, and the root is the empty path."""

    def __init__(self) -> None:
        self.root = Node("d", 0)

    def add(self, tar: tarfile.TarFile, layer: int, keep: Keep) -> None:
        """Add a layer above those that are there; within a layer, the order of whiteouts and files does not matter."""
        for info in tar:
            path = _clean(info.name)
            directory, name = posixpath.split(path)
            if name == OPAQUE:
                _drop_below(self._directory(directory, layer), layer)
            elif name.startswith(WHITEOUT):
                _drop(self._directory(directory, layer), name.removeprefix(WHITEOUT), layer)
            elif path:
                self._put(self._directory(directory, layer), name, self._node(tar, info, path, layer, keep))
            else:
                self.root.mode, self.root.uid, self.root.gid = info.mode, info.uid, info.gid
            vars(tar)["members"].clear()  # tarfile remembers every entry of a stream, which nobody asks for again

    def find(self, path: str, *, follow: bool = True) -> tuple[str, Node] | None:
        """Return what is at a path, through links, with the path as it is without links; None if nothing is there."""
        return self._find(path, follow=follow, hops=0)

    def text(self, path: str) -> str:
        """Return what was kept of a file; nothing, if it is not there."""
        found = self.find(path)
        return found[1].text or "" if found else ""

    def directory(self, path: str) -> str | None:
        """Return the path of a directory without links; None if there is none."""
        found = self.find(path)
        return found[0] if found and found[1].kind == "d" else None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory, in order; none, if it is not there."""
        found = self.find(path)
        return tuple(sorted(found[1].children)) if found else ()

    def walk(self) -> Iterator[tuple[str, Node]]:
        """Yield everything but the root, parents first, in order."""
        return _walk("", self.root)

    def _find(self, path: str, *, follow: bool, hops: int) -> tuple[str, Node] | None:
        node, place = self.root, ""
        parts = [part for part in path.split("/") if part]
        for depth, name in enumerate(parts):
            found = node.children.get(name)
            if found is None:
                return None
            last = depth == len(parts) - 1
            if found.kind == "l" and (follow or not last):
                rest = "/".join(parts[depth + 1 :])
                target = found.target if found.target.startswith("/") else f"{place}/{found.target}"
                onward = _clean(f"{target}/{rest}")
                return self._find(onward, follow=follow, hops=hops + 1) if hops < HOPS else None
            node, place = found, f"{place}/{name}".lstrip("/")
        return place, node

    def _directory(self, path: str, layer: int) -> Node:
        """Find the directory that an entry goes to, as engines do: through links; made where a layer left it out."""
        known = self.find(path)
        if known and known[1].kind == "d":
            return known[1]
        node = self.root
        for depth, name in enumerate(parts := [part for part in path.split("/") if part]):
            found = self.find("/".join(parts[: depth + 1]))
            if found and found[1].kind == "d":
                node = found[1]
            else:
                node.children[name] = node = Node("d", layer)
        return node

    def _node(self, tar: tarfile.TarFile, info: tarfile.TarInfo, path: str, layer: int, keep: Keep) -> Node:
        if info.islnk():
            target = self.find(_clean(info.linkname), follow=False)
            return replace(target[1], layer=layer) if target else Node("f", layer)
        kind = "d" if info.isdir() else "l" if info.issym() else "f" if info.isreg() else "o"
        node = Node(kind, layer, info.mode, info.uid, info.gid, info.linkname if kind == "l" else "")
        content = tar.extractfile(info) if kind == "f" else None
        node.text = keep(path, content) if content else None
        return node

    def _put(self, directory: Node, name: str, node: Node) -> None:
        old = directory.children.get(name)
        if old and old.kind == node.kind == "d":
            node.children = old.children
        directory.children[name] = node


def _drop(directory: Node, name: str, layer: int) -> None:
    """Hide what lower layers have at a name; what this layer put there stays."""
    node = directory.children.get(name)
    if node is None:
        return
    _drop_below(node, layer)
    if node.layer < layer and not node.children:
        del directory.children[name]


def _drop_below(directory: Node, layer: int) -> None:
    for name in list(directory.children):
        _drop(directory, name, layer)


def _walk(path: str, directory: Node) -> Iterator[tuple[str, Node]]:
    for name, node in sorted(directory.children.items()):
        place = f"{path}/{name}" if path else name
        yield place, node
        if node.kind == "d":
            yield from _walk(place, node)


def _clean(path: str) -> str:
    """Write a path as seen from the root, which `..` does not leave."""
    return posixpath.normpath(f"/{path}").lstrip("/")
