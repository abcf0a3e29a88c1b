"""What commands print for people and for Prometheus: reports, costs, metrics, all of tasks, and what ssh reads."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from unittest import mock

from multinode_image.machine.image import Stack
from multinode_image.mpi import sshd
from multinode_image.mpi.keys import Keys, write_client
from multinode_image.programs.smoke_checks import default_flags
from multinode_image.report.charts import FEW
from multinode_image.report.cost import CostOptions, write_costs
from multinode_image.report.metrics import write_metrics
from multinode_image.report.page import MOST, write_page
from multinode_image.report.trainings import Training, read_training
from multinode_image.tasks.aliases import ALIASES, split_flags, translate
from multinode_image.tasks.arguments import complete
from multinode_image.tasks.defaults import list_tasks
from multinode_image.tasks.prefetch import list_wanted
from multinode_image.tasks.table import DIRECTORY, TASKS, TRAINER, Task
from tests.golden.data import as_json
from tests.support.trainer_fields import HISTORY

FACTS = {
    "script": "train.py", "model": "MiniLM", "weights": 22_713_216, "ranks": 2, "threads": "4", "batch": 64,
    "bf16": True, "torch": "2.13.0+cpu", "transformers": "5.23.0", "began": 1_790_000_000.0, "gradients": "bf16",
    "seconds": 20.0, "steps": 20, "waited": 5.0, "peak": 1.5 * 2**30, "time": 1_790_000_100.5,
}  # fmt: skip
STACK = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "/usr/lib/python3")
# What is typed, beside which some defaults make no sense.
BESIDE = (
    "--dataset_name d", "--train_file a", "--validation_file a", "--test_file a", "--train_file a --validation_file b",
    "--do_train", "--do_eval", "--do_predict", "--do_predict False", "--max_steps 2", "--pad_to_max_length",
    "--pad_to_max_length False", "--group_by_length", "--train_sampling_strategy random", "--model_name_or_path m",
    "--model_name_or_path /m/t5-base/", "--model_type bert", "--config_name c", "--config_overrides n_layer=1",
    "--source_lang de", "--target_lang de",
)  # fmt: skip
SCRIPTS = Path(__file__).parents[1] / "data/scripts.txt"


def train(directory: str, points: int, **facts: object) -> Training:
    """Return a training as it is read of so many logged rows whose loss falls, with a hole; it was started twice."""
    losses = [(10 * row, math.nan if row == 3 else round(2 / row, 4)) for row in range(1, points + 1)]
    speeds = [(10 * row, math.inf if row == 2 else 60.0 + row) for row in range(1, 6)]
    curves = {
        "loss": losses, "eval_loss": losses[:4], "eval_f1": [(20, 61.5), (40, 88.25)], "grad_norm": losses[:2],
        "learning_rate": [(10, 2e-5), (40, 1e-5)], "samples_per_second": speeds, "waiting": [(10, 12.5), (40, 25.0)],
    }  # fmt: skip
    logged = [{"step": step, name: value} for name, rows in curves.items() for step, value in rows]
    starts = [{"began": 1_789_999_000, "step": 0}, {"step": 10, **FACTS, **facts}]
    state = {"log_history": logged, "global_step": 10 * points, "max_steps": 100, "multinode_starts": starts}
    with tempfile.TemporaryDirectory() as place:
        Path(place, "_multinode").mkdir()
        Path(place, "_multinode/trainer_state.json").write_text(json.dumps(state))
        Path(place, "all_results.json").write_text('{"eval_f1": 88.25, "eval_accuracy": 0.662}')
        return replace(read_training(place), directory=directory)


def produce() -> dict[str, str]:
    """Return the files by their names; the style of the page stands in the first of them alone."""
    one, other = train("/results/one", 900), train("/results/other", 4, batch=32, model="", bf16=False)
    curves = {f"eval_{number}": [(1, 1.0), (2, 2.0)] for number in range(MOST + 3)}
    many = Training("/r", (), curves, {}, 1, 0, ("a note",))
    return {
        "report.html": write_page([one], ["the newest 1 of 2 trainings"]),
        "reports.html": write_page([train("/results/one", FEW), other]).partition("</head>")[2],
        "many.html": write_page([many, one, other]).partition("</head>")[2].partition("<section>")[0],
        "costs.txt": write_costs(one, CostOptions(36, 119, 0.1)) + "\n",
        "metrics.txt": write_metrics(other),
        **list_every_task(),
        **configure_ssh(),
    }


def configure_ssh() -> dict[str, str]:
    """Return the configurations of both sides of ssh; PLACE is their directory."""
    with tempfile.TemporaryDirectory() as place:
        keys = Keys(place, "PLACE/id", "ssh-ed25519 AAAA me\n", "PLACE/authorized_keys")
        with (
            mock.patch.object(sshd, "find_keys", lambda *_: keys),
            mock.patch.object(sshd, "make_host_key", lambda *_: ["HostKey PLACE/host"]),
            mock.patch.object(sshd, "try_port", lambda _: None),
            mock.patch.object(sshd, "which", lambda *_: "sshd"),
        ):
            left = dict.fromkeys(("_", "OLDPWD", "PWD", "SHLVL", "TERM"), "of the shell")
            command, _ = sshd.prepare_server({"HF_TOKEN": "x", **left}, place)
        texts = {"sshd_config.txt": command[-1], "ssh_config.txt": write_client(keys, 2222)}
        return {name: Path(path).read_text().replace(place, "PLACE") for name, path in texts.items()}


def list_every_task() -> dict[str, str]:
    """Return what `tasks` prints in an image with all scripts, and of each task what it is told there."""
    rows = [line.split() for line in SCRIPTS.read_text().splitlines() if line[0] != "#"]
    with tempfile.TemporaryDirectory() as examples:
        for path in (Path(examples, DIRECTORY, place, f"run_{name}.py") for place, *names in rows for name in names):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        printed = list_tasks(STACK._replace(examples=examples)).replace(examples, "EXAMPLES")
    told = {task.name: describe_task(task) for task in TASKS.values()}
    return {"tasks.txt": printed + "\n", "tasks.json": as_json(told), "flags.json": as_json(list_translated())}


def describe_task(task: Task) -> dict[str, object]:
    """Return what `prefetch` brings, what a log says of defaults, and which of them go beside what is typed."""
    usual = complete(task, "", [], STACK, many=False)
    wanted = list_wanted(task, usual.arguments, None, '"nyu-mll/glue"', lambda _: False)
    gone = {line: list_gone(task, line.split(), usual.arguments) for line in BESIDE}
    return {
        "fetches": [" ".join(filter(None, row[:3])) for row in wanted],
        "notes": usual.notes,
        "without": {line: flags for line, flags in gone.items() if flags},
    }


def list_gone(task: Task, typed: list[str], usual: Iterable[str]) -> str:
    """Return the defaults that a task does not have beside what is typed."""
    left = complete(task, "", typed, STACK, many=False).arguments
    return " ".join(f"--{name}" for name in usual if name not in left)


def list_translated() -> dict[str, list[str]]:
    """Return what a log says of the flags of other releases, by the release of the image, and which `smoke` takes."""
    rows = ALIASES[TRAINER]
    old, new = [f"--{row.old}" for row in rows], [f"--{row.new}" for row in rows if row.new]
    typed = {"5.23.0": old, "4.46.0": old, "4.30.0": new}
    notes = {
        release: translate(split_flags(words), STACK._replace(transformers=release), rows).notes
        for release, words in typed.items()
    }
    ends = (min(HISTORY), max(HISTORY))
    return {**notes, **{f"smoke {end}": [" ".join(default_flags("/out", "gloo", HISTORY[end]))] for end in ends}}
