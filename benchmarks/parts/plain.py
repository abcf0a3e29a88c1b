"""The part `plain`: what the part `train` measures of speed, in float32 on a processor without units for bf16.

Where the processor has units, they are hidden. Beside that, a step on one core is compared with its products of
matrices alone, and texts of like length in a batch with texts in any order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.figures import Figures
from benchmarks.host.containers import CORES, Setting, run
from benchmarks.host.group import PLACE, PROGRAMS, WARM
from benchmarks.host.scratch import Scratch
from benchmarks.parts.example import prepare
from benchmarks.parts.train import build
from benchmarks.sides import hidden_units, scripts
from benchmarks.sides.scripts import GLUE, MOST, QA, Script, Trainings, measure_speed

RUNS = 1
SHARE = PROGRAMS / "share.py"
TURNS = ("--turns", str(WARM + 8))
RATES = ("step", "products")  # what share.py has seconds of
# A quarter of the steps of the part `train`, for each takes longer: as many batches as are put into an order of lengths
# at once (get_length_grouped_indices in transformers/trainer_pt_utils.py), so that the first ones are like all others.
SPEEDS: Mapping[str, Script] = {
    "squad": replace(QA, arguments=f"{QA.arguments} --max_steps 9"),
    "qqp": replace(GLUE, arguments=f"{GLUE.arguments} --max_steps 10"),
}
# The model and the texts of docs/example.md, likewise.
TEXTS = (
    "--model_name_or_path model --do_train --train_file train.json --validation_file test.json "
    "--per_device_train_batch_size 32 --learning_rate 2e-4 --max_seq_length 128 --max_steps 50"
)
# Forth and back: a machine that gets slower meanwhile favours neither.
ORDER = ("padded", "ours", "ours", "padded")


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Measure a step on one core, then train by the scripts."""
    image, data = build(scratch, "plain"), scratch.directory / "data"
    given = hidden_units.hide(scratch.directory)
    measure_share(scratch, figures, image, given)
    prepare(scratch, data)
    trainings = Trainings(scratch, image, data, "", os.cpu_count() or 1, given)
    compare_orders(trainings, figures, runs)
    measure_speed(trainings, figures, runs, SPEEDS)


def measure_share(scratch: Scratch, figures: Figures, image: str, given: Setting) -> None:
    """Keep how much a core computes in a second of a step, and of the products of matrices in it alone."""
    scratch.say("a step on one core")
    mounts = {**given.mounts, SHARE: PLACE}
    on_core = replace(given, limits=("--cpuset-cpus", CORES[0]), mounts=mounts)
    keep_share(figures, run(scratch, image, [PLACE, *TURNS], on_core, MOST))


def keep_share(figures: Figures, text: str) -> None:
    """Keep what share.py printed; the first turns reserve memory."""
    answer = json.loads(text.strip().splitlines()[-1])
    for name in RATES:
        for seconds in answer[name][WARM:]:
            figures.add(f"{name} rate", answer["operations"] / seconds / 1e9, "GFLOP/s")


def compare_orders(trainings: Trainings, figures: Figures, runs: int) -> None:
    """Train the small model of docs/example.md on its texts, in batches of any lengths and of like lengths."""
    for number in trainings.scratch.rounds(runs):
        for side in ORDER:
            trainings.scratch.say(f"texts, {side}, {number + 1} of {runs}")
            text = trainings.run(side, trainings.train(side, GLUE, TEXTS))
            figures.add(f"texts {side} speed", scripts.read(text, "train_samples_per_second"), "samples/s")
