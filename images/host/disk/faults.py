"""What is said of a disk that is full, read-only, somebody else's or without programs."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from images.host.errors import WorldFault

MAKE_USABLE = "chmod or chown it, so that you may use it; or name another one"
ELSEWHERE = "set XDG_CACHE_HOME to a directory"
MAY_WRITE = f"{ELSEWHERE} that you may write to"
REMEDIES = dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), MAY_WRITE)
REMEDIES |= dict.fromkeys((errno.ENOSPC, errno.EDQUOT), f"make room there, or {ELSEWHERE} on a larger disk")


class Unwritable(WorldFault):
    """The disk of the store is full, or takes nothing: no other source of a file helps."""


def disk_fault(root: Path, error: OSError) -> Unwritable:
    """Return the fault of a store whose disk refuses; what in it is not permitted is named."""
    said, fact = os.strerror(error.errno or 0), "cannot write to the store"
    inside = [path for path in _named(error) if root.absolute() in path.parents]
    if inside and error.errno in (errno.EACCES, errno.EPERM):
        remedy = f"chmod or chown it, or the directory that it is in, so that you may use it; or {MAY_WRITE}"
        return Unwritable(fact, f"{inside[-1]} ({said})", remedy)
    return Unwritable(fact, f"{root} ({said})", REMEDIES.get(error.errno or 0, MAY_WRITE))


def number_in(said: str) -> int:
    """Return the number of the system's error that a program in Rust names, as in `(os error 28)`; 0 for none."""
    found = re.search(r"\(os error (\d+)\)", said)
    return int(found[1]) if found else 0


@contextmanager
def store_faults(root: Path) -> Iterator[None]:
    """Turn the errors of a full or read-only disk into faults of the store, but for those of files elsewhere."""
    try:
        yield
    except OSError as error:
        if error.errno not in REMEDIES or _is_elsewhere(error, root):
            raise
        raise disk_fault(root, error) from error


def require_programs(directory: Path, called: str, remedy: str) -> None:
    """Raise WorldFault where the disk of a directory is mounted noexec; `called` is what the message says of it."""
    if os.statvfs(directory).f_flag & os.ST_NOEXEC:
        raise WorldFault(f"programs cannot be started in {called}", f"{directory} (noexec)", remedy)


def is_read_from(root: Path, error: OSError) -> bool:
    """Return whether an error is of a file of the store alone; of a copy out of it, that is the first of two names."""
    names = _named(error)
    return len(names) == 1 and names[0].is_relative_to(root.absolute())


def _is_elsewhere(error: OSError, root: Path) -> bool:
    return bool(names := _named(error)) and not any(name.is_relative_to(root.absolute()) for name in names)


def _named(error: OSError) -> list[Path]:
    """Return the one or two paths that an error names."""
    names = (error.filename, error.filename2)
    return [Path(os.fsdecode(name)).absolute() for name in names if not isinstance(name, int | None)]
