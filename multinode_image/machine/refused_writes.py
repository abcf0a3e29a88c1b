"""Why a file cannot be written to a disk that has room: a limit of its size, or a quota, which statvfs does not show.

Python and Rust say the number of the kernel's error. A stream of C++, by which torch writes, says nothing of it: so it
is asked of the kernel again, by a write beside the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import sys
from collections.abc import Iterator
from types import FrameType

from multinode_image.errors import EXIT_OUTSIDE, Refusal, list_causes

# How functions that write call their file, also torch.save and safetensors.
NAMES = ("f", "file", "filename", "path", "name")
PROBE = 1 << 20
LARGER = (
    "docker run --ulimit fsize=-1, ulimit -f unlimited, or the scheduler's limit (h_fsize, -l file); or smaller files"
)
QUOTA = "remove what is not needed there, or ask whoever runs that file system for more (quota -s shows what there is)"


def find_refused(error: BaseException) -> OSError | None:
    """Return what the kernel refuses to a program that could not write a file; None where it refuses nothing."""
    path = find_target(error)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    limit = sys.maxsize if limit == resource.RLIM_INFINITY else limit
    with contextlib.suppress(OSError):
        if limit < sys.maxsize and (not path or os.path.getsize(path) >= limit):
            return OSError(errno.EFBIG, os.strerror(errno.EFBIG), path or None)
    return try_beside(path, min(PROBE, limit)) if path else None


def try_beside(path: str, size: int = PROBE) -> OSError | None:
    """Return why so many bytes cannot be written beside a file; None where they can."""
    probe = f"{path}.{os.getpid()}.probe"
    try:
        with open(probe, "xb") as file:
            file.write(bytes(size))
            os.fsync(file.fileno())
    except OSError as error:
        return error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(probe)
    return None


def find_target(error: BaseException) -> str:
    """Return the file that was written, as a function on the way to the error names it; empty where none does."""
    for frame in list_innermost(error):
        for name in NAMES:
            path = frame.f_locals.get(name)
            if isinstance(path, (str, os.PathLike)) and os.path.isfile(path):
                return os.path.abspath(os.fsdecode(path))
    return ""


def list_innermost(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of an error and of those that it came from, the innermost first."""
    for each in reversed(list_causes(error)):
        frames, trace = list[FrameType](), each.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        yield from reversed(frames)


def explain_refused(number: int, where: str, who: str) -> Refusal | None:
    """Return which limit has been reached, by the kernel's number; where: a path, or what was said."""
    if number == errno.EFBIG:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        of_process = "" if limit == resource.RLIM_INFINITY else f" of {limit:,} bytes for each process (ulimit -f)"
        return Refusal(f"{who} has reached the limit of a file's size{of_process}", where, LARGER, EXIT_OUTSIDE)
    if number == errno.EDQUOT:
        return Refusal(f"the disk quota of {who} is used up", where, QUOTA, EXIT_OUTSIDE)
    return None
