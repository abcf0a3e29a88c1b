"""Layers -> the root file system that a container of them has, without unpacking it (OCI image specification 1.1)."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import IO

from images.foreign.paths import HOPS, OPAQUE, WHITEOUT
from images.foreign.tars import DEEPEST, below_root, entries
from images.host.errors import WorldFault
from images.oci.manifest import DAMAGED

# Bytes that a tree may take: its paths, what is kept of files, and so many for each. Large images have some hundred
# thousand files, whose paths and lists are some tens of megabytes.
LARGEST, EACH = 512 << 20, 256
# Characters of the paths that lead through links, all together: real images have some megabytes, and 5 s is enough.
FOLLOWED = 64 << 20

# What to keep of a file, by its path and with its content at hand; None means nothing.
Keep = Callable[[str, IO[bytes]], "str | None"]


@dataclass(slots=True)
class Node:
    """A file, directory or link: `kind` is d, l, f, or o for all others; `layer` counts from 0 at the bottom.

    `hidden` is the last layer that hid what lower layers have in a directory; -1 where none did.
    """

    kind: str
    layer: int
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    target: str = ""
    text: str | None = None
    children: dict[str, Node] = field(default_factory=dict)
    hidden: int = -1


class Tree:
    """A root file system of layers; every path in it is relative to the root, and the root is the empty path."""

    def __init__(self) -> None:
        self.root = Node("d", 0)
        self._size = self._followed = 0

    def add(self, tar: tarfile.TarFile, layer: int, keep: Keep) -> None:
        """Add a layer above those that are there; within a layer, the order of whiteouts and files does not matter."""
        for info in entries(tar):
            path = below_root(info.name)
            above, name = posixpath.split(path)
            place, directory = self._directory(above, layer)
            if name == OPAQUE:
                _drop_below(directory, layer)
            elif name.startswith(WHITEOUT):
                _drop(directory, name.removeprefix(WHITEOUT), layer)
            elif path:
                node = self._node(tar, info, path, layer, keep)
                self._put(directory, name, self._count(node, f"{place}/{name}"))
            else:
                self.root.mode, self.root.uid, self.root.gid = info.mode, info.uid, info.gid

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
        ahead = _below("", self.root)
        while ahead:
            path, node = ahead.pop()
            yield path, node
            if node.kind == "d":
                ahead += _below(path, node)

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
                onward = below_root(f"{target}/{rest}")
                self._followed += EACH + len(onward)
                if self._followed > FOLLOWED:
                    value = f"the paths through them have over {FOLLOWED} characters"
                    raise WorldFault("the image has too many links", value, DAMAGED)
                return self._find(onward, follow=follow, hops=hops + 1) if hops < HOPS else None
            node, place = found, f"{place}/{name}".lstrip("/")
        return place, node

    def _directory(self, path: str, layer: int) -> tuple[str, Node]:
        """Find the directory that an entry goes to, as engines do: through links; made where a layer left it out."""
        place, node = "", self.root
        for name in filter(None, path.split("/")):
            inner = f"{place}/{name}".lstrip("/")
            child = node.children.get(name)
            found = self.find(inner) if child and child.kind == "l" else child and (inner, child)
            if not found or found[1].kind != "d":
                found = inner, self._count(Node("d", layer), inner)
                node.children[name] = found[1]
            place, node = found
        return place, node

    def _count(self, node: Node, path: str) -> Node:
        """Count what a node takes: nothing else keeps a layer of some kilobytes from having millions of long paths."""
        self._size += EACH + len(path) + len(node.text or "")
        if path.count("/") > DEEPEST:  # which links make of two that are not
            raise WorldFault(f"a path has more than {DEEPEST} directories", f"/{path[:80]}...", DAMAGED)
        if self._size > LARGEST:
            raise too_many_files()
        return node

    def _node(self, tar: tarfile.TarFile, info: tarfile.TarInfo, path: str, layer: int, keep: Keep) -> Node:
        if info.islnk():
            target = self.find(below_root(info.linkname), follow=False)
            if target is None or target[1].kind == "d":  # no file system has a hard link to a directory
                return Node("f", layer)
            return replace(target[1], layer=layer, children={})
        kind = "d" if info.isdir() else "l" if info.issym() else "f" if info.isreg() else "o"
        node = Node(kind, layer, info.mode, info.uid, info.gid, info.linkname if kind == "l" else "")
        content = tar.extractfile(info) if kind == "f" else None
        node.text = keep(path, content) if content else None
        return node

    def _put(self, directory: Node, name: str, node: Node) -> None:
        old = directory.children.get(name)
        if old and old.kind == node.kind == "d":
            node.children, node.hidden = old.children, old.hidden
        directory.children[name] = node


def too_many_files() -> WorldFault:
    """Return the fault of an image whose files would take more than LARGEST."""
    return WorldFault("the image has too many files", f"their paths and lists are over {LARGEST} bytes", DAMAGED)


def _drop(directory: Node, name: str, layer: int) -> None:
    """Hide what lower layers have at a name; what this layer put there stays."""
    node = directory.children.get(name)
    if node is None:
        return
    _drop_below(node, layer)
    if node.layer < layer and not node.children:
        del directory.children[name]


def _drop_below(directory: Node, layer: int) -> None:
    """Hide what lower layers have in a directory, the deepest first: a directory goes when nothing is left in it."""
    if directory.hidden == layer:
        return
    directory.hidden = layer
    found = [(directory, name, node) for name, node in directory.children.items()]
    for _, _, node in found:
        found += [(node, name, child) for name, child in node.children.items()]  # which the loop goes on to
    for above, name, node in reversed(found):
        if node.layer < layer and not node.children:
            del above.children[name]


def _below(path: str, directory: Node) -> list[tuple[str, Node]]:
    """List what is in a directory with its paths, the last first."""
    return [(f"{path}/{name}".lstrip("/"), node) for name, node in sorted(directory.children.items(), reverse=True)]
