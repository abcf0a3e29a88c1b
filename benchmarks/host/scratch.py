"""Where a benchmark works: a directory, and containers, networks, images and build records that all go at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from benchmarks.host.commands import environment

LATE = 1200.0  # seconds after which no further run begins
PATIENCE = 60.0  # seconds in which the records of builds have to go


@dataclass(frozen=True)
class Scratch:
    """A directory of its own, a name for images, a label for containers and networks, and when it was opened."""

    directory: Path
    name: str
    began: float

    @property
    def label(self) -> str:
        """Return the label that everything in the engine has."""
        return f"multinode.benchmark={self.name}"

    def image(self, tag: str) -> str:
        """Return the name of an image."""
        return f"{self.name}:{tag}"

    def rounds(self, runs: int) -> Iterator[int]:
        """Yield the numbers of runs; none begins after LATE, so that a slow machine ends in time with fewer."""
        for number in range(runs):
            if number and time.monotonic() - self.began > LATE:
                self.say(f"no time for more than {number} of {runs} runs")
                return
            yield number

    def say(self, what: str) -> None:
        """Print a line of progress on stderr, with the minutes since the beginning."""
        print(f"{(time.monotonic() - self.began) / 60:5.1f} min  {what}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def opened() -> Iterator[Scratch]:
    """Yield a scratch directory with its names; whatever happens, and also after ^C or SIGTERM, nothing of it stays."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    records = _build_records()
    try:
        with tempfile.TemporaryDirectory(prefix="multinode-benchmark-", ignore_cleanup_errors=True) as directory:
            Path(directory).chmod(0o755)
            scratch = Scratch(Path(directory), f"multinode-benchmark-{os.getpid()}", time.monotonic())
            try:
                yield scratch
            finally:
                with _without_interrupts():
                    clean(scratch, records)
    finally:
        signal.signal(signal.SIGTERM, before)


def clean(scratch: Scratch, records: frozenset[str]) -> None:
    """Remove from the engine what this scratch made; records: those of builds that were there before."""
    mine = ["--filter", f"label={scratch.label}"]
    _remove(["rm", "--force", "--volumes"], _quiet(["ps", "--all", "--quiet", *mine]))
    _remove(["network", "rm"], _quiet(["network", "ls", "--quiet", *mine]))
    _remove(["rmi", "--force"], _quiet(["images", "--format", "{{.Repository}}:{{.Tag}}", scratch.name]))
    _remove(["rmi", "--force"], _quiet(["images", "--quiet", *mine]))  # those that lost their name to a later build
    _forget_builds(records, time.monotonic() + PATIENCE)


def _forget_builds(records: frozenset[str], deadline: float) -> None:
    """Remove all records of builds but these; the engine keeps one that another needs, or whose build is ending."""
    while True:
        for record in sorted(_build_records() - records):
            _quiet(["builder", "prune", "--force", "--all", "--filter", f"id={record}"])
        if not _build_records() - records or time.monotonic() > deadline:
            return
        time.sleep(0.5)


def _build_records() -> frozenset[str]:
    """Return the ids of what BuildKit keeps of builds; none where the engine does not say."""
    text = "".join(_quiet(["system", "df", "--verbose", "--format", "{{json .BuildCache}}"])) or "[]"
    try:
        return frozenset(record["ID"] for record in json.loads(text) or ())
    except (ValueError, KeyError, TypeError):
        return frozenset()


def _remove(command: Sequence[str], names: Sequence[str]) -> None:
    if names:
        _quiet([*command, *names])


def _quiet(words: Sequence[str]) -> list[str]:
    """Run the Docker client for what may fail, as what is removed may be gone; return the lines that it prints."""
    variables = environment({"DOCKER_BUILDKIT": "0"})  # with 1, a client without buildx prunes nothing
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(["docker", *words], env=variables, capture_output=True, text=True, timeout=120)
        return done.stdout.splitlines()
    return []


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let no second ^C leave half of it behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
