"""Content-addressed store on disk: written aside, checked, moved into place, shared by builds that run at once."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from images.host import files
from images.host.errors import Damaged, UserFault, WorldFault, named, require_text
from images.host.files import home_of
from images.store import fingerprint
from images.store.blobs import BLOB, Cached, sha256

PARTS = ("blobs", "records", "trees", "aside")
DISTRUST = "get the lock, the bundle or the image again from somebody whom you trust: this one was changed or damaged"
UV = "uv"  # the directory of uv's own cache, which uv makes
OLD = 3600  # seconds: by then who makes a directory has locked it, or was killed
EARLIER = 1  # seconds since 1970: the time of every kept file, so that any later change shows in it
LONGEST = 255  # bytes: of a file name, on the file systems that people have (NAME_MAX)


class Sha256(str):
    """A sha256 as 64 hexadecimal digits; no other text can be one.

    Raises UserFault for any other value: such names come from locks, bundles and images that somebody else wrote.
    """

    def __new__(cls, text: object) -> Sha256:
        if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{64}", text):
            raise UserFault("that is not a sha256 (64 hexadecimal digits)", repr(text)[:120], DISTRUST)
        return super().__new__(cls, text)


class FileName(str):
    """The name of a file in one directory: no separator or control character, neither `.` nor `..`, not too long.

    Raises UserFault for any other value.
    """

    def __new__(cls, text: object) -> FileName:
        fits = isinstance(text, str) and re.fullmatch(r"[^/\x00-\x1f\x7f]+", text) and text not in (".", "..")
        if not fits or len(str(text).encode(errors="surrogatepass")) > LONGEST:
            raise UserFault("that is not the name of a file", repr(text)[:120], DISTRUST)
        return super().__new__(cls, str(text))


class Store:
    """Blobs by sha256, and small JSON records by the hash of their inputs.

    root/blobs/<sha256>/<name>   downloads and compressed layers
    root/records/<kind>/<key>    a line with the sha256 of the rest, and JSON; replaced in one step
    root/trees/<key>             the Python of a base, unpacked
    root/uv/                     uv's own cache
    root/aside/                  what is being written, each by who holds its lock; nothing here is ever read

    It is its owner's alone: a store, or a part of it, that another user owns or may write to, or that is a link, is
    refused, and a file of another user's counts as one that is not there.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()  # programs that run elsewhere are given files of it
        self._makers = [fingerprint.sources(), fingerprint.releases()]
        _require_private(root)
        with tempfile.TemporaryFile(dir=root / "aside"):
            pass  # a read-only disk is said now, not after the downloads
        try:
            tempfile.gettempdir()
        except FileNotFoundError:  # a container that is read-only, but for the store
            tempfile.tempdir = str(self.root / "aside")
        _remove_old(root / "aside")

    def place(self, digest: str, name: str = BLOB) -> Path:
        """Return where a blob of this sha256 and name lies, or would lie.

        Raises UserFault for what is no sha256 or no file name: nothing outside of the store is ever read, written or
        removed.
        """
        return self.root / "blobs" / Sha256(digest) / FileName(name)

    def blob(self, digest: str, name: str = BLOB, size: int | None = None) -> Path | None:
        """Return where a blob is, None where there is none; one of another size (bytes) is damaged, and removed."""
        path = self.place(digest, name)
        if (status := files.stat_user_file(path)) is None:
            return None
        if size is not None and status.st_size != size:
            self.drop(path)
            return None
        return path

    def has(self, digest: str, size: int | None = None) -> bool:
        """Return whether a blob is there, of this size if that is known; see `blob`."""
        return self.blob(digest, size=size) is not None

    def drop(self, path: Path) -> None:
        """Remove a damaged file of the store."""
        path.unlink(missing_ok=True)

    def verified(self, digest: str, name: str) -> Path | None:
        """Return where a blob is that has this sha256; a damaged one is removed, and None returned."""
        path = self.blob(digest, name)
        if path and self.sha256(path) != digest:
            self.drop(path)
            return None
        return path

    def whole(self, digest: str, name: str = BLOB) -> Path:
        """Return where a blob is that was there.

        Raises Damaged where it is gone, or had another sha256.
        """
        path = self.verified(digest, name)
        if path is None:
            raise Damaged(self.place(digest, name))
        return path

    def keep(self, aside: Path, digest: str, name: str = BLOB) -> Path:
        """Move a finished file to its place, in one step; it replaces one that is there, which may be damaged."""
        path = self.place(digest, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.chmod(0o644)  # a temporary file is its maker's alone; a store may be shared
        with aside.open("rb") as file:
            os.fsync(file.fileno())  # else a power cut leaves an empty file under a good name
        os.utime(aside, (EARLIER, EARLIER))
        aside.replace(path)
        self.sha256(path, digest)
        return path

    def sha256(self, path: Path, known: str | None = None) -> str:
        """Return the sha256 of a file, read or `known`; an unchanged file (path, size, times) is not read again."""
        stat = path.stat()
        # A program can set the time of a file's modification (st_mtime), but not that of its last change (st_ctime).
        seen = [str(path.absolute()), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
        return str(self.cached("hashes", seen, lambda: known or sha256(path)).value)

    def cached(
        self, kind: str, inputs: object, make: Callable[[], Any], usable: Callable[[Any], bool] = lambda _: True
    ) -> Cached:
        """Return the result of `make` for `inputs`, or that of an earlier build, if it is still `usable`.

        After a change of our sources, or of a package whose release affects the bytes, no earlier result is used.
        """
        if (known := self.known(kind, inputs, usable)) is not None:
            return Cached(known, True)
        value = json.loads(canonical(make()))
        self.write_record(kind, key_of([inputs, self._makers]), value)
        return Cached(value, False)

    def known(self, kind: str, inputs: object, usable: Callable[[Any], bool]) -> Any | None:
        """Return an earlier result of `cached` for `inputs`; None if there is none, or it is not `usable`."""
        record = self.record(kind, key_of([inputs, self._makers]))
        return record if record is not None and usable(record) else None

    def record_place(self, kind: str, key: str) -> Path:
        """Return where a record lies, or would lie."""
        return self.root / "records" / kind / key

    def record(self, kind: str, key: str) -> Any | None:
        """Return a record, or None where there is none, or a damaged one."""
        path = self.record_place(kind, key)
        if files.stat_user_file(path) is None:
            return None
        digest, _, text = path.read_bytes().partition(b"\n")
        return json.loads(text) if digest.decode(errors="replace") == hashlib.sha256(text).hexdigest() else None

    def write_record(self, kind: str, key: str, value: object) -> None:
        """Write a record in one step."""
        text = canonical(value)
        with self.temporary() as path:
            path.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
            path.chmod(0o644)
            place = self.record_place(kind, key)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)

    def tree(self, inputs: object) -> Path:
        """Return the place of what is unpacked out of `inputs`; as with `cached`, what makes it decides as well."""
        return self.root / "trees" / key_of([inputs, self._makers])

    @contextmanager
    def temporary(self, *, directory: bool = False) -> Iterator[Path]:
        """Yield a path to write to; whatever is still there at the end is removed."""
        with named(self.root):
            temporary = tempfile.TemporaryDirectory(prefix=".", dir=self.root / "aside", ignore_cleanup_errors=True)
            with temporary as aside, _locked(Path(aside)):
                path = Path(aside, "written")
                path.mkdir(mode=0o700) if directory else path.touch(mode=0o600)
                yield path


@contextmanager
def _locked(directory: Path) -> Iterator[bool]:
    """Hold the lock of a directory, which ends with this process; yield whether it could be had.

    Where a file system has no locks nobody has one, and nothing is removed.
    """
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _remove_old(aside: Path) -> None:
    """Remove what killed builds of this user have left, whatever the clock says of it; follow no link."""
    for left in aside.iterdir():
        with suppress(OSError):
            if not files.why_shared(left) and left.stat().st_mtime < time.time() - OLD:
                with _locked(left) as is_left:
                    if is_left:
                        shutil.rmtree(left)


def _require_private(root: Path) -> None:
    """Make the directories of a store; raise WorldFault for one that is there and is not this user's alone.

    Whoever can write to it decides what its records say of its files, and what is removed in it.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)  # it has private wheels, base images and addresses
    _refuse_shared(root, files.why_shared(root))
    for part in PARTS:
        (root / part).mkdir(mode=0o700, exist_ok=True)
    is_closed = not root.stat().st_mode & 0o077
    for part in (*PARTS, UV):
        if os.path.lexists(root / part):
            _refuse_shared(root / part, files.why_shared(root / part, is_closed=is_closed))


def _refuse_shared(place: Path, why: str | None) -> None:
    if why:
        remedy = "set XDG_CACHE_HOME to a directory of your own; or remove this one, with all that is in it"
        raise WorldFault("a directory of the store is not this user's alone", f"{place} ({why})", remedy)


def default_root(environ: Mapping[str, str]) -> Path:
    """Return the store's directory: $XDG_CACHE_HOME/multinode (XDG Base Directory Specification).

    A path that is not absolute is ignored, as the specification says. Raises UserFault where a path is not UTF-8, which
    other programs are given.
    """
    named = Path(environ.get("XDG_CACHE_HOME", ""))
    root = (named if named.is_absolute() else home_of(environ).absolute() / ".cache") / "multinode"
    for variable, path in {"XDG_CACHE_HOME": str(root), "TMPDIR": environ.get("TMPDIR", "")}.items():
        require_text(path, f"{variable} {path}")
    return root


def canonical(value: object) -> bytes:
    """Return JSON written in one way only, so that equal values have equal hashes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()


def key_of(value: object) -> str:
    """Return the key of the inputs of a record: a sha256 in hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()
