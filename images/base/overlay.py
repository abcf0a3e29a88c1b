"""Layers -> the root file system that a container of them has, without unpacking it (OCI image specification 1.1)."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from images.foreign.paths import DEEPEST, HOPS, OPAQUE, WHITEOUT, below_root
from images.foreign.tars import Tar
from images.host.errors import WorldFault
from images.oci.manifest import DAMAGED
from images.store.blobs import Readable

# Bytes that a tree may take: its paths, what is kept of files, and so many for each. Large images have some hundred
# thousand files, whose paths and lists are some tens of megabytes.
LARGEST, PER_ENTRY = 512 << 20, 256
# Characters of the paths that lead through links, all together: real images have some megabytes, and 5 s is enough.
FOLLOWED = 64 << 20

# What to keep of a file, by its path and with its content at hand; None means nothing.
Keep = Callable[[str, Readable], "str | None"]


@dataclass(slots=True)
class Node:
    """A file, directory or link: `kind` is d, l, f, h for a hard link that is not resolved yet, or o for all others.

    `text` is the content of a file, where it was kept.
    """

    kind: str
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    target: str = ""
    text: str | None = None
    children: dict[str, Node] = field(default_factory=dict)


class OverlayTree:
    """A root file system of layers; every path in it is relative to the root, and the root is the empty path."""

    def __init__(self) -> None:
        self.root = Node("d")
        self._size = self._followed = 0

    def add(self, tar: Tar, keep: Keep) -> None:
        """Add a layer above those that are there: first all that it hides of them, then what it has, in its order."""
        hidden: list[tuple[str, str]] = []
        ahead: list[tuple[str, Node]] = []
        for info in tar:
            path = below_root(info.name)
            above, name = posixpath.split(path)
            if name.startswith(WHITEOUT):
                self._count(path)
                hidden.append((above, name))
            else:
                node = _node(tar, info, path, keep)
                self._count(path, node.text)
                ahead.append((path, node))
        for above, name in hidden:
            self._hide(above, name)
        for path, node in ahead:
            self._put(path, node)

    def find(self, path: str, *, follow: bool = True, hops: int = 0) -> tuple[str, Node] | None:
        """Return what is at a path, through links, with the path as it is without links; None if nothing is there.

        `hops` are the links that were followed to come here.
        """
        node, place = self.root, ""
        parts = [part for part in path.split("/") if part]
        for depth, name in enumerate(parts):
            child = node.children.get(name)
            if child is None:
                return None
            last = depth == len(parts) - 1
            if child.kind == "l" and (follow or not last):
                rest = "/".join(parts[depth + 1 :])
                target = child.target if child.target.startswith("/") else f"{place}/{child.target}"
                onward = below_root(f"{target}/{rest}")
                self._followed += PER_ENTRY + len(onward)
                if self._followed > FOLLOWED:
                    value = f"the paths through them have over {FOLLOWED} characters"
                    raise WorldFault("the image has too many links", value, DAMAGED)
                return self.find(onward, follow=follow, hops=hops + 1) if hops < HOPS else None
            node, place = child, f"{place}/{name}".lstrip("/")
        return place, node

    def text(self, path: str) -> str:
        """Return what was kept of a file; nothing, if it is not there."""
        entry = self.find(path)
        return entry[1].text or "" if entry else ""

    def directory(self, path: str) -> str | None:
        """Return the path of a directory without links; None if there is none."""
        entry = self.find(path)
        return entry[0] if entry and entry[1].kind == "d" else None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory, in order; none, if it is not there."""
        entry = self.find(path)
        return tuple(sorted(entry[1].children)) if entry else ()

    def walk(self) -> Iterator[tuple[str, Node]]:
        """Yield everything but the root, parents first, in order."""
        ahead = _list_below("", self.root)
        while ahead:
            path, node = ahead.pop()
            yield path, node
            if node.kind == "d":
                ahead += _list_below(path, node)

    def _hide(self, above: str, name: str) -> None:
        """Hide what lower layers have at a name in a directory, or in all of it."""
        entry = self.find(above)
        if entry and name == OPAQUE:
            entry[1].children.clear()
        elif entry:
            entry[1].children.pop(name.removeprefix(WHITEOUT), None)

    def _put(self, path: str, node: Node) -> None:
        """Put a node at its place; a directory keeps what is in it."""
        above, name = posixpath.split(path)
        if not path:
            self.root.mode, self.root.uid, self.root.gid = node.mode, node.uid, node.gid
            return
        place, directory = self._directory(above)
        if f"{place}/{name}".count("/") > DEEPEST:  # which links make of two that are not
            raise WorldFault(f"a path has more than {DEEPEST} directories", f"/{place[:80]}...", DAMAGED)
        if node.kind == "h":
            target = self.find(below_root(node.target), follow=False)
            is_file = target is not None and target[1].kind != "d"  # no file system has a hard link to a directory
            node = replace(target[1], children={}) if target and is_file else Node("f")
        old = directory.children.get(name)
        if old and old.kind == node.kind == "d":
            node.children = old.children
        directory.children[name] = node

    def _directory(self, path: str) -> tuple[str, Node]:
        """Return the directory of an entry: follow links as engines do, and create what a layer left out."""
        place, node = "", self.root
        for name in filter(None, path.split("/")):
            inner = f"{place}/{name}".lstrip("/")
            child = node.children.get(name)
            entry = self.find(inner) if child and child.kind == "l" else child and (inner, child)
            if not entry or entry[1].kind != "d":
                self._count(inner)
                entry = inner, Node("d")
                node.children[name] = entry[1]
            place, node = entry
        return place, node

    def _count(self, path: str, text: str | None = None) -> None:
        """Count what a node takes: nothing else keeps a layer of some kilobytes from having millions of long paths."""
        self._size += PER_ENTRY + len(path) + len(text or "")
        if self._size > LARGEST:
            raise too_many_files()


def _node(tar: Tar, info: tarfile.TarInfo, path: str, keep: Keep) -> Node:
    if info.islnk():
        return Node("h", target=info.linkname)
    kind = "d" if info.isdir() else "l" if info.issym() else "f" if info.isreg() else "o"
    text = keep(path, tar) if kind == "f" else None
    return Node(kind, info.mode, info.uid, info.gid, info.linkname if kind == "l" else "", text)


def too_many_files() -> WorldFault:
    """Return the fault of an image whose files would take more than LARGEST."""
    return WorldFault("the image has too many files", f"their paths and lists are over {LARGEST} bytes", DAMAGED)


def _list_below(path: str, directory: Node) -> list[tuple[str, Node]]:
    """List what is in a directory with its paths, the last first."""
    return [(f"{path}/{name}".lstrip("/"), node) for name, node in sorted(directory.children.items(), reverse=True)]
