"""The seconds from `docker run` until the first step of a training is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from benchmarks.host.commands import begin, call, end
from benchmarks.host.scratch import Scratch
from images.host.errors import WorldFault

DONE = "smoke: first step done"
MOST = 300.0  # seconds


def seconds(scratch: Scratch, image: str, entrypoint: str) -> float:
    """Start `smoke` and return when its first step was done; entrypoint: another than the image's, for its script."""
    name = f"{scratch.name}-{time.monotonic_ns()}"
    command = ["docker", "run", "--name", name, "--label", scratch.label, "--network", "none", "--shm-size", "1g"]
    command += ["--entrypoint", entrypoint, image, "/opt/multinode/smoke.py"] if entrypoint else [image, "smoke"]
    try:
        return _until_done([*command, "--bf16"])
    finally:
        call(["docker", "rm", "--force", "--volumes", name], seconds=60)


def _until_done(command: Sequence[str]) -> float:
    """Run a command until it says that the step is done."""
    began, lines = time.monotonic(), list[str]()
    child = begin(command)
    timer = threading.Timer(MOST, end, [child])
    timer.start()
    try:
        for line in child.stderr or ():
            lines.append(line)
            if DONE in line:
                return time.monotonic() - began
    finally:
        timer.cancel()
        end(child)
        for pipe in (child.stdout, child.stderr):
            if pipe:
                pipe.close()
    raise WorldFault("a training did not start", "".join(lines)[-500:], "run it by hand: docker run IMAGE smoke")
