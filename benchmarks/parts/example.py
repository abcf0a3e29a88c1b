"""The part `example`: real scripts on one node and on two, with less of a network between them.

A small real model learns real text, both of docs/example.md, by the guide's command and by ours: what counts is the
accuracy after an epoch, and the time to an accuracy. What two nodes learn is compared by what they send.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.host.commands import call
from benchmarks.host.containers import Setting
from benchmarks.host.group import PROGRAMS
from benchmarks.host.scratch import Scratch
from benchmarks.parts.train import build, choose_words
from benchmarks.sides import drawn, scripts
from benchmarks.sides.scripts import EPOCHS, GLUE, LESSONS, SEEDS, Trainings

RUNS = 1
SIDES = ("guide", "ours")
RATES = ("", "1gbit")
# Some of the texts, so that the slowest training takes minutes, and the accuracy that is waited for.
TEXTS, OTHERS, GOAL = 3072, 1000, 0.5
# Texts between two looks at the texts that are not trained on.
EVERY = 1024
BATCH = 16
STAMPED = PROGRAMS / "stamped.py"
PLACE = "/benchmark/stamped.py"
ARGUMENTS = (
    f"--per_device_train_batch_size {BATCH} --per_device_eval_batch_size {BATCH} --learning_rate 2e-4 "
    f"--max_train_samples {TEXTS} --max_eval_samples {OTHERS} "
    "--warmup_steps 20 --max_seq_length 128 --num_train_epochs 1 --eval_strategy steps --save_strategy no"
)


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train on one node and on two, without a limit of the network and with one."""
    image, data = build(scratch, "example"), scratch.directory / "data"
    prepare(scratch, data)
    stamps = Setting(mounts={STAMPED: PLACE})
    trainings = Trainings(scratch, image, data, choose_words(), os.cpu_count() or 1, stamps)
    for _, side in itertools.product(scratch.rounds(runs), SIDES):
        scratch.say(f"{side}, one node")
        keep(figures, f"{side} one", trainings.run(side, command(trainings, side, nodes=1)))
        for rate in RATES:
            scratch.say(f"{side}, two nodes, {rate or 'no limit'}")
            with figures.optional(f"{side}, two nodes, {rate or 'no limit'}"):
                text = trainings.together(side, command(trainings, side, nodes=2), rate)
                keep(figures, f"{side} two {rate or 'unlimited'}", text)
    compare_sent(trainings, figures)
    measure_rates(trainings, figures)


def compare_sent(trainings: Trainings, figures: Figures) -> None:
    """Train on two nodes by three seeds, and keep what is learned where numbers are sent whole, and as usual."""
    script, shape = LESSONS["questions"]
    files = "--train_file questions.json --validation_file questions-test.json"
    questions = trainings.train("ours", script, f"--model_name_or_path small --do_train --do_eval {files} {shape}")
    for seed, sent in itertools.product(SEEDS, ("float32", "default")):
        trainings.scratch.say(f"two nodes, {sent} gradients, seed {seed}")
        environ = "" if sent == "default" else f"MULTINODE_GRADIENTS={sent} "
        text = trainings.together("ours", f"{environ}{command(trainings, 'ours', nodes=2)} --seed {seed}")
        figures.add(f"{sent} gradients accuracy", read(text)[-1][1], "")
        text = trainings.together("ours", f"{environ}{questions} --seed {seed}")
        figures.add(f"{sent} gradients F1", scripts.read(text, script.result), "")


def measure_rates(trainings: Trainings, figures: Figures) -> None:
    """Train a model of DistilBERT's size on two nodes with less of a network, forth and back."""
    arguments = f"{scripts.describe_speed('qqp', GLUE)} {EPOCHS[1]}"
    for rate in (*RATES, *reversed(RATES)):
        name = rate or "unlimited"
        trainings.scratch.say(f"qqp, two nodes, {name}")
        with figures.optional(f"qqp, two nodes, {name}"):
            text = trainings.together("ours", trainings.train("ours", GLUE, arguments), rate)
            figures.add(f"qqp {name}", scripts.read(text, "train_samples_per_second"), "samples/s")


def prepare(scratch: Scratch, data: Path) -> None:
    """Write the model and the text of docs/example.md as run_glue.py reads them, and drawn data beside them."""
    scratch.say("model and text")
    call([sys.executable, "-m", "scripts.example", str(data)])
    drawn.write_all(data)
    for part in ("train", "test"):
        rows = [json.loads(line) for line in (data / f"{part}.json").read_text().splitlines()]
        written = [json.dumps({"sentence": row["text"], "label": row["section"]}) for row in rows]
        (data / f"{part}.json").write_text("\n".join(written))


def command(trainings: Trainings, side: str, nodes: int) -> str:
    """Return the command line of a training that looks at the other texts as often as EVERY says."""
    files = "--train_file train.json --validation_file test.json --model_name_or_path model --do_train --do_eval"
    steps = EVERY // (BATCH * nodes)
    return f"python3 {PLACE} {trainings.train(side, GLUE, f'{files} {ARGUMENTS} --eval_steps {steps}')}"


def keep(figures: Figures, name: str, text: str) -> None:
    """Keep what a training printed: its last accuracy, its seconds, and those until GOAL (linear between two looks)."""
    seen = read(text)
    figures.add(f"{name} accuracy", seen[-1][1], "")
    figures.add(f"{name} seconds", seen[-1][0])
    reached = [
        one + (other - one) * (GOAL - low) / (high - low)
        for (one, low), (other, high) in itertools.pairwise(seen)
        if low < GOAL <= high
    ]
    if reached:
        figures.add(f"{name} to goal", reached[0])


def read(text: str) -> Sequence[tuple[float, float]]:
    """Return the seconds and the accuracy of each look, in lines such as `12.34 {'eval_accuracy': '0.5', ...}`."""
    rows = re.findall(r"^([\d.]+) \{.*'eval_accuracy': '?([\d.]+)", text, re.MULTILINE)
    return [(float(seconds), float(accuracy)) for seconds, accuracy in rows]
