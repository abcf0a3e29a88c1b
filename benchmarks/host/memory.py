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


def family(pid: int) -> Iterator[int]:
    """Yield a process and those that it started, and so on."""
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for each in (task / "children").read_text().split():
                yield from family(int(each))


def proportional(pid: int) -> int:
    """Return the memory of a process in bytes, a shared page divided among those that share it; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return parse(Path(f"/proc/{pid}/smaps_rollup").read_text())
    return 0


def parse(text: str) -> int:
    """Return the Pss, in bytes, of the text of smaps_rollup."""
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
