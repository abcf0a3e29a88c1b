"""Real scripts of the examples: a task of the entrypoint, and the guide's command in its environment, in one image."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.figures import Figures
from benchmarks.host.containers import Ranks, Setting, limit, run, together
from benchmarks.host.scratch import Scratch
from images.host.errors import WorldFault

MOST = 600.0  # seconds of a training
# What the guide's job sets in its containers; OMP_NUM_THREADS is the limit of the pod there.
GUIDE: Mapping[str, str] = {
    "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9:/usr/local/lib/libiomp5.so",
    "CCL_WORKER_COUNT": "1",
    "LOGLEVEL": "INFO",
}
DATA, OUTPUT = "/data", "/workspace/output/benchmark"
EXAMPLES = "/workspace/transformers/examples/pytorch"
ENTRYPOINT = "python3 -I -S /opt/multinode"
PLAIN = "--report_to none --disable_tqdm True"
SEEDS = ("1", "2", "3")
EPOCHS = (1, 2)  # alone, and in two containers: as many steps, so that the first and the checkpoint weigh the same


@dataclass(frozen=True)
class Script:
    """A task, its script, the guide's arguments, which are the task's defaults, and what tells how well it learned."""

    task: str
    file: str
    arguments: str
    result: str


QA = Script(
    "qa", "question-answering/run_qa.py",
    "--per_device_train_batch_size 12 --learning_rate 3e-5 --max_seq_length 384 --doc_stride 128", "eval_f1",
)  # fmt: skip
GLUE = Script(
    "glue", "text-classification/run_glue.py",
    "--per_device_train_batch_size 32 --learning_rate 2e-5 --max_seq_length 128", "eval_accuracy",
)  # fmt: skip
# A data set of drawn.py, with the script that reads it.
SPEEDS: Mapping[str, Script] = {"squad": QA, "mrpc": GLUE, "qqp": GLUE}
# What a small model learns: a train file, a script, and its arguments in place of those above.
LESSONS: Mapping[str, tuple[Script, str]] = {
    "questions": (
        QA,
        "--per_device_train_batch_size 12 --num_train_epochs 5 --learning_rate 5e-4 "
        "--max_seq_length 96 --doc_stride 32",
    ),
    "pairs": (GLUE, "--per_device_train_batch_size 32 --num_train_epochs 3 --learning_rate 1e-3 --max_seq_length 64"),
}
SIDES: Mapping[str, str] = {"guide": "", "padded": "--group_by_length False", "ours": ""}


@dataclass(frozen=True)
class Trainings:
    """An image, a directory with the data, words for all trainings, and how many cores the machine has.

    given: what all containers have besides.
    """

    scratch: Scratch
    image: str
    data: Path
    words: str
    cores: int
    given: Setting = field(default_factory=Setting)

    def run(self, side: str, command: str) -> str:
        """Run a command in a container of one side, and return what it printed."""
        return run(self.scratch, self.image, ["-c", command], self._setting(side, self.cores), MOST)

    def together(self, side: str, command: str, rate: str = "") -> str:
        """Run a command in two containers of a core each, with a rate of BUCKETS; return what rank 0 printed."""
        given = self._setting(side, 1)
        return together(self.scratch, self.image, ["-c", command], given, MOST, Ranks(prepare=limit(rate)))

    def train(self, side: str, script: Script, arguments: str) -> str:
        """Return the command line of a training."""
        if side == "guide":
            return f"torchrun {EXAMPLES}/{script.file} --use_cpu {self._complete(arguments)}"
        return f"{ENTRYPOINT} {script.task} {SIDES[side]} {self._complete(arguments)}"

    def _complete(self, arguments: str) -> str:
        return f"{arguments} {self.words} {PLAIN} --output_dir {OUTPUT}"

    def _setting(self, side: str, cores: int) -> Setting:
        guide = {**GUIDE, "OMP_NUM_THREADS": str(cores)} if side == "guide" else {}
        mounts = {self.data: DATA, **self.given.mounts}
        environ = {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", **guide, **self.given.environ}
        return replace(self.given, limits=("--workdir", DATA), environ=environ, mounts=mounts, entrypoint="sh")


def measure_speed(trainings: Trainings, figures: Figures, runs: int, speeds: Mapping[str, Script] = SPEEDS) -> None:
    """Train a model of DistilBERT's size, by both sides in turn, alone and in two containers."""
    for number, (data, script) in itertools.product(trainings.scratch.rounds(runs), speeds.items()):
        arguments = describe_speed(data, script)
        for side in SIDES:
            trainings.scratch.say(f"{data}, {side}, {number + 1} of {runs}")
            alone, in_two = (trainings.train(side, script, f"{arguments} {epochs}") for epochs in EPOCHS)
            _keep(figures, f"{data} {side} speed", trainings.run(side, alone))
            if data == "qqp" and side != "padded":
                _keep(figures, f"{data} {side} speed in two", trainings.together(side, in_two))


def describe_speed(data: str, script: Script) -> str:
    """Return the arguments of a training of the large model, up to the number of epochs."""
    files = f"--train_file {data}.json --validation_file {data}.json"  # without both, run_glue.py refuses
    return f"--model_name_or_path large --do_train {files} {script.arguments} --num_train_epochs"


def _keep(figures: Figures, name: str, text: str) -> None:
    figures.add(name, read(text, "train_samples_per_second"), "samples/s")


def compare_results(trainings: Trainings, figures: Figures) -> None:
    """Teach a small model by both sides with three seeds, and keep what it has learned.

    Ours trains and answers questions in two starts: only so is training grouped by length (docs/tasks.md).
    """
    for (data, (script, shape)), seed, side in itertools.product(LESSONS.items(), SEEDS, ("guide", "ours")):
        trainings.scratch.say(f"{data}, {side}, seed {seed}")
        files = f"--train_file {data}.json --validation_file {data}-test.json"
        same = f"{files} {shape} --seed {seed}"
        teach = trainings.train(side, script, f"--model_name_or_path small --do_train {same}")
        examine = trainings.train(side, script, f"--model_name_or_path {OUTPUT} --do_eval {same}")
        text = trainings.run(side, f"{teach} && {examine}")
        figures.add(f"{data} {side} result", read(text, script.result), "")
        figures.add(f"{data} {side} loss", read(text, "train_loss"), "")


def read(text: str, name: str) -> float:
    """Return a number that the Trainer printed at the end."""
    match = re.search(rf"^\s*{name}\s+=\s+([\d.]+)", text, re.MULTILINE)
    if match is None:
        raise WorldFault("a training did not say how it went", name, "run it by hand")
    return float(match[1])


def read_smoke(text: str) -> float:
    """Return the seconds of the loop in the line that `smoke` prints when all is well."""
    match = re.search(r"^smoke: passed:.* seconds=([\d.]+)", text, re.MULTILINE)
    if match is None:
        raise WorldFault("a training did not say how it went", "smoke: passed", "run it by hand")
    return float(match[1])
