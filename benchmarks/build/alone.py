"""Our build by itself: from nothing, with nothing to do, its short commands, and its memory."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from benchmarks.figures.measured import Figures
from benchmarks.host.commands import build_py
from benchmarks.host.images import remove_image
from benchmarks.host.memory import peak_of
from benchmarks.host.scratch import Scratch
from benchmarks.sides.multinode import Multinode

SHORT = {"help": ("--help",), "plan": ("plan",)}
# Seconds for which ext4 without a journal gives out no inode of a deleted file (fs/ext4/ialloc.c, RECENTCY_MIN): for
# every new file it looks at each of them, which made builds a tenth slower. Nothing tells when that ends.
FORGOTTEN = 60


def measure(scratch: Scratch, figures: Figures, multinode: Multinode, runs: int) -> None:
    """Build from an empty store, at most twice, then again and again with nothing to do."""
    tag = ("--tag", scratch.image("ours"))
    scratch.say("memory, from an empty store")
    figures.add("memory", peak_of(build_py(*multinode.options, *tag), multinode.environ), "bytes")
    for number in range(min(runs, 2)):
        scratch.say(f"from nothing, {number + 1} of {min(runs, 2)}")
        multinode = replace(multinode, work=scratch.directory / f"nothing-{number}")
        multinode.work.mkdir()
        _remove_image(scratch.image("ours"))
        figures.add("from nothing", multinode.timed(*multinode.options, *tag))
    scratch.say("nothing to do, help, plan")
    for _ in range(2 * runs + 1):
        figures.add("nothing to do", multinode.timed(*multinode.options, *tag))
        for name, words in SHORT.items():
            figures.add(name, multinode.timed(*words))


def _remove_image(name: str) -> None:
    """Remove an image from the engine, and wait until its deleted files cost nothing any more."""
    remove_image(name)
    os.sync()
    time.sleep(FORGOTTEN)
