"""The tree that several packages make, by dpkg's rules of unpacking, and as it will be in a layer."""

from __future__ import annotations

import errno
import io
import os
import posixpath
import re
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from images.debian import deb
from images.debian.deb import Package
from images.host.errors import WorldFault
from images.oci.layer_writer import LayerWriter

# In a merged /usr these are links to the directories of the same names in it (https://wiki.debian.org/UsrMerge).
MERGED = ("bin", "lib", "lib64", "sbin")
# Left out of every package, now and by every later apt-get in a derived image, as in Debian's own slim images.
DPKG_OPTIONS = (
    *(f"path-exclude=/usr/share/{name}/*" for name in ("man", "info", "locale")),
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/lib/python3*/EXTERNALLY-MANAGED",  # pip works in an image as anywhere else
)
# The same as a pattern. dpkg also keeps links to directories below what it has to include something of.
LEFT_OUT = re.compile(
    r"usr/share/(?:man|info|locale)/.|usr/share/doc/.*(?<!/copyright)$|usr/lib/python3[^/]*/EXTERNALLY-MANAGED$"
)
DOCUMENTS = re.compile(r"usr/share/doc/[^/]+$")
FILE, DIRECTORY, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE
HOPS = 200
LARGE = 1 << 15  # bytes of a file that is kept on disk: all of a base would take 100 MB of memory
LAST_GID = 99  # of the groups that are the same on every Debian system (Debian Policy 9.2.2)
REMEDY = "make a new lock (build.py lock); Debian's own packages go together"


@dataclass
class Entry:
    """What is at a path, of the user root; files that are one (hard links) have one entry.

    `read` returns the content of a file, `link` is the target of a symbolic link, and `owner` the package; it is empty
    for what an install script would create.
    """

    kind: bytes
    mode: int
    gid: int = 0
    read: Callable[[], bytes] = bytes
    link: str = ""
    owner: str = ""

    @property
    def data(self) -> bytes:
        """Return the content of a file."""
        return self.read()


class PackageTree:
    """Paths as they will be in the layer: no `./`, and /bin, /sbin, /lib, /lib64 below usr/."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {name: Entry(LINK, 0o777, link=f"usr/{name}") for name in MERGED}
        self._large: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # as long as the tree

    def __del__(self) -> None:
        self._large.close()

    def unpack(self, package: Package) -> list[str]:
        """Add the files of a package; return all of its paths as dpkg lists them, also those that are left out.

        Raises WorldFault for what no image can have, and what another package has.
        """
        listed = []
        for path, info, data in deb.read_entries(package):
            listed.append(f"/{path}" if path else "/.")
            place = merged_path(path)
            if not path or place in MERGED or _is_left_out(place, info):
                continue
            self._add(place, self._entry(place, info, data, package.name))
        return listed

    def text(self, path: str) -> str:
        """Return a file as text.

        Raises LookupError where there is none.
        """
        return self.entries[path].data.decode()

    def directory(self, path: str, mode: int = 0o755, gid: int = 0) -> None:
        """Make a directory where there is nothing."""
        self.entries.setdefault(path, Entry(DIRECTORY, mode, gid))

    def file(self, path: str, content: bytes | str, mode: int = 0o644, gid: int = 0) -> None:
        """Write a file, in place of what is there."""
        data = content.encode() if isinstance(content, str) else content
        self.entries[path] = Entry(FILE, mode, gid, self._keep(data))

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link, in place of what is there."""
        self.entries[path] = Entry(LINK, 0o777, link=target)

    def below(self, directory: str) -> list[str]:
        """Return the paths of the files below a directory, in order."""
        start = f"{directory}/"
        return sorted(path for path, entry in self.entries.items() if path.startswith(start) and entry.kind == FILE)

    def real(self, path: str) -> str:
        """Follow every link in a path within the tree.

        Raises WorldFault for links that form a circle.
        """
        done, left = "", path.strip("/").split("/")
        for _ in range(HOPS):
            if not left:
                return done
            head = posixpath.join(done, left.pop(0))
            entry = self.entries.get(head)
            if entry is None or entry.kind != LINK:
                done = head
                continue
            target = posixpath.normpath(posixpath.join("/", done, entry.link))
            done, left = "", [*filter(None, target.split("/")), *left]
        raise WorldFault("links of Debian's packages form a circle", f"/{path}", REMEDY)

    def complete(self) -> None:
        """Make the directories above what is there; of a merged /usr stay the links to what is.

        Raises WorldFault for what lies below something else: through a link it could be anywhere.
        """
        for name in MERGED:
            if not any(path.startswith(f"usr/{name}/") for path in self.entries):
                del self.entries[name]
        for path in list(self.entries):
            above = path
            while above := posixpath.dirname(above):
                self.directory(above)
                if self.entries[above].kind != DIRECTORY:
                    raise WorldFault("a Debian package has a file below what is no directory", f"/{path}", REMEDY)

    def write(self, layer: LayerWriter) -> None:
        """Write all of it: paths in order, of the names of one file the first before its hard links."""
        first: dict[int, str] = {}
        for path, entry in sorted(self.entries.items()):
            info = tarfile.TarInfo(path)
            info.type, info.linkname = entry.kind, entry.link
            info.mode, info.gid = entry.mode, entry.gid
            data = entry.data if entry.kind == FILE else b""
            if entry.kind == FILE and (known := first.setdefault(id(entry), path)) != path:
                info.type, info.linkname, data = tarfile.LNKTYPE, known, b""
            info.size = len(data)
            layer.copy(info, io.BytesIO(data))

    def _keep(self, data: bytes) -> Callable[[], bytes]:
        """Return what reads data again; short ones stay in memory."""
        if len(data) < LARGE:
            return lambda: data
        opened, start, size = self._large.fileno(), self._large.tell(), self._large.write(data)
        if size != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return lambda: os.pread(opened, size, start)

    def _entry(self, place: str, info: tarfile.TarInfo, data: bytes, owner: str) -> Entry:
        if info.uid or info.gid > LAST_GID:
            raise WorldFault("a file of a Debian package is not root's", f"{owner}: /{place}", REMEDY)
        if info.islnk():
            target = self.entries.get(merged_path(posixpath.normpath(info.linkname)))
            if target is None or target.kind != FILE or target.owner != owner:
                raise WorldFault("a hard link of a Debian package leads nowhere", f"{owner}: /{place}", REMEDY)
            return target
        kind = FILE if info.isreg() else info.type
        return Entry(
            kind, 0o777 if info.issym() else info.mode & 0o7777, info.gid, self._keep(data), info.linkname, owner
        )

    def _add(self, place: str, entry: Entry) -> None:
        """Put an entry at its place, where another package may have a directory too, or a link in place of one."""
        old = self.entries.get(place)
        if old is None or old.owner == entry.owner != "":
            self.entries[place] = entry
        elif entry.kind != DIRECTORY or old.kind not in (DIRECTORY, LINK):
            raise WorldFault("two Debian packages have one path", f"/{place} ({old.owner} and {entry.owner})", REMEDY)


def merged_path(path: str) -> str:
    """Return where a path of a package lies in a merged /usr."""
    first, slash, _ = path.partition("/")
    return f"usr/{path}" if slash and first in MERGED else path


def _is_left_out(place: str, info: tarfile.TarInfo) -> bool:
    return LEFT_OUT.match(place) is not None and not (info.issym() and DOCUMENTS.match(place))
