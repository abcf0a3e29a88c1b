"""Our build by itself: from nothing, with nothing to do, its short commands, and its memory."""

from __future__ import annotations

from benchmarks.build.ours import Ours
from benchmarks.figures.measured import Figures
from benchmarks.host.commands import build_py, call
from benchmarks.host.memory import peak_of
from benchmarks.host.workshop import Workshop

SHORT = {"help": ("--help",), "plan": ("plan",)}


def measure(workshop: Workshop, figures: Figures, ours: Ours, runs: int) -> None:
    """Build from an empty store, at most twice, then again and again with nothing to do."""
    tag = ("--tag", workshop.image("ours"))
    workshop.say("memory, from an empty store")
    figures.add("memory", peak_of(build_py(*ours.options, *tag), ours.environ), "bytes")
    for number in range(min(runs, 2)):
        workshop.say(f"from nothing, {number + 1} of {min(runs, 2)}")
        ours.forget_everything()
        call(["docker", "rmi", "--force", workshop.image("ours")])
        figures.add("from nothing", ours.timed(*ours.options, *tag))
    workshop.say("nothing to do, help, plan")
    for _ in range(2 * runs + 1):
        figures.add("nothing to do", ours.timed(*ours.options, *tag))
        for name, words in SHORT.items():
            figures.add(name, ours.timed(*words))
