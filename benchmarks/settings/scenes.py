"""What a container that trains alone may use, and how its training is started: tuned, untuned, as the guide does it."""

from __future__ import annotations

import functools
import itertools
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures.measured import Figures
from benchmarks.host.containers import Setting, run
from benchmarks.host.scratch import Scratch

STEPS = Path(__file__).with_name("steps.py")
PLACE = "/benchmark/steps.py"
WARM = 2  # steps that reserve memory and choose kernels, and are not counted
MOST = 300.0  # seconds of a training


@dataclass(frozen=True)
class Scene:
    """A limit: its share of the machine's cores, by a quota of CPU time or by a set of cores.

    Without all_models only the large one is trained, in bfloat16.
    """

    name: str
    share: float = 1.0
    is_set: bool = False
    all_models: bool = True

    def limits(self, cores: int) -> tuple[str, ...]:
        """Return the options of `docker run` on a machine."""
        if self.is_set:
            return ("--cpuset-cpus", f"0-{self.size(cores) - 1}")
        return () if self.share == 1 else ("--cpus", f"{cores * self.share:g}")

    def size(self, cores: int) -> int:
        """Return how many cores a person would count: those of the limit, rounded up."""
        return max(1, math.ceil(cores * self.share))


SCENES: Sequence[Scene] = (
    Scene("unlimited"),
    Scene("half", 0.5),
    Scene("quarter", 0.25, all_models=False),
    Scene("three quarters", 0.75, all_models=False),
    Scene("half set", 0.5, is_set=True),
)
# What the guide's job sets in its containers; OMP_NUM_THREADS is the limit of the pod there.
GUIDE: Mapping[str, str] = {
    "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9:/usr/local/lib/libiomp5.so",
    "CCL_WORKER_COUNT": "1",
    "LOGLEVEL": "INFO",
}
MODES = ("tuned", "untuned", "guide")


def setting(scene: Scene, mode: str, cores: int) -> Setting:
    """Return what a container is given; untuned and the guide's run Python without the entrypoint."""
    environ = {**GUIDE, "OMP_NUM_THREADS": str(scene.size(cores))} if mode == "guide" else {}
    entrypoint = "" if mode == "tuned" else "python3"
    return Setting(scene.limits(cores), environ, {STEPS: PLACE}, entrypoint)


def measure(scratch: Scratch, figures: Figures, image: str, cores: int, runs: int) -> None:
    """Train in every scene and mode in turn; the large model once only in modes of which nothing is promised."""
    for number in scratch.rounds(runs):
        for scene, mode in itertools.product(SCENES, MODES):
            scratch.say(f"alone, {scene.name}, {mode}")
            given = setting(scene, mode, cores)
            for model in models(scene, mode, number):
                figures.add(f"{model} {scene.name} {mode}", MODELS[model](scratch, image, given))


def models(scene: Scene, mode: str, number: int) -> list[str]:
    """Return what a round trains in a scene: those of MODELS, the large ones again only where something is promised."""
    promised = mode != "untuned" or scene.name == "half"
    kept = ["distilbert", "float32"] if promised or not number else []
    return ["smoke", *kept] if scene.all_models else kept[:1]


def smoke(scratch: Scratch, image: str, given: Setting) -> float:
    """Return the seconds of the training loop of `smoke`."""
    script = "/opt/multinode/smoke.py" if given.entrypoint else "smoke"
    return passed(run(scratch, image, [script, "--bf16"], given, MOST))["seconds"]


def distilbert(scratch: Scratch, image: str, given: Setting, dtype: str = "bfloat16") -> float:
    """Return the seconds of a step, 8 x 128."""
    return step(run(scratch, image, [PLACE, "--steps", str(WARM + 3), "--dtype", dtype], given, MOST))


def passed(text: str) -> dict[str, float]:
    """Return the numbers in the line that `smoke` prints when all is well."""
    line = next(line for line in reversed(text.splitlines()) if line.startswith("smoke: passed:"))
    pairs = (word.partition("=") for word in line.split()[2:])
    return {name: float(value) for name, _, value in pairs if value.replace(".", "", 1).isdigit()}


def step(text: str) -> float:
    """Return the median seconds of a step in what steps.py printed, the first ones left out."""
    return statistics.median(answer(text)["steps"][WARM:])


def answer(text: str) -> dict[str, list[float]]:
    """Return the last line of steps.py."""
    seconds: dict[str, list[float]] = json.loads(text.strip().splitlines()[-1])
    return seconds


MODELS: Mapping[str, Callable[[Scratch, str, Setting], float]] = {
    "smoke": smoke,
    "distilbert": distilbert,
    "float32": functools.partial(distilbert, dtype="float32"),
}
