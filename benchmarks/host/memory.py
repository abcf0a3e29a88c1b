"""The memory of a command and all that it starts, at its peak."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.host.commands import SLOW, begin, finish

PAUSE = 0.05  # seconds between two looks at /proc
PROC = Path("/proc")


def peak_of(command: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Run a command and return the most bytes that it and its children had at once.

    Pages that processes share are counted once (proc(5), Pss), those of mapped files too.
    """
    child, ended, most = begin(command, env), threading.Event(), [0]

    def watch() -> None:
        while not ended.is_set():
            most[0] = max(most[0], sum(proportional(pid) for pid in family(child.pid)))
            time.sleep(PAUSE)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        finish(child, command, SLOW)
    finally:
        ended.set()
        watcher.join()
    return most[0]


def family(pid: int, proc: Path = PROC) -> Iterator[int]:
    """Yield a process and those that it started, and so on.

    Left out is a child with the command line of its parent: until it begins its own program, the memory that it has is
    its parent's (vfork(2)), and Pss does not divide that.
    """
    yield pid
    with contextlib.suppress(OSError):
        for task in (proc / str(pid) / "task").iterdir():
            for child in (task / "children").read_text().split():
                if _command(int(child), proc) != _command(pid, proc):
                    yield from family(int(child), proc)


def _command(pid: int, proc: Path) -> bytes:
    with contextlib.suppress(OSError):
        return (proc / str(pid) / "cmdline").read_bytes()
    return b""


def proportional(pid: int) -> int:
    """Return the memory of a process in bytes, a shared page divided among those that share it; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return parse((PROC / str(pid) / "smaps_rollup").read_text())
    return 0


def parse(text: str) -> int:
    """Return the Pss, in bytes, of the text of smaps_rollup."""
    match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0
