"""What commands print for people and for Prometheus: pages of reports, costs, metrics, and the list of tasks."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from multinode_image.machine.image import Stack
from multinode_image.report.charts import FEW
from multinode_image.report.cost import CostOptions, write_costs
from multinode_image.report.metrics import write_metrics
from multinode_image.report.page import MOST, write_page
from multinode_image.report.trainings import Training
from multinode_image.results.states import SPEED, WAITING
from multinode_image.tasks.defaults import list_tasks

FACTS = {
    "script": "train.py", "model": "MiniLM", "weights": 22_713_216, "ranks": 2, "threads": "4", "batch": 64,
    "bf16": True, "torch": "2.13.0+cpu", "transformers": "5.23.0", "began": 1_790_000_000.0, "gradients": "bf16",
    "seconds": 20.0, "steps": 20, "waited": 5.0, "peak": 1.5 * 2**30,
}  # fmt: skip
SCRIPTS = ("question-answering/run_qa.py", "text-classification/run_glue.py", "vision/run_vit.py")


def train(directory: str, points: int, **facts: object) -> Training:
    """Return a training of so many logged rows whose loss falls, with a hole, and that was started twice."""
    losses = [(10 * row, math.nan if row == 3 else round(2 / row, 4)) for row in range(1, points + 1)]
    speeds = [(10 * row, math.inf if row == 2 else 60.0 + row) for row in range(1, 6)]
    curves = {
        "loss": losses, "eval_loss": losses[:4], "eval_f1": [(20, 61.5), (40, 88.25)], "grad_norm": losses[:2],
        "learning_rate": [(10, 2e-5), (40, 1e-5)], SPEED: speeds, WAITING: [(10, 12.5), (40, 25.0)],
    }  # fmt: skip
    starts: tuple[dict[str, object], ...] = ({"began": 1_789_999_000, "step": 0}, {"step": 10, **FACTS, **facts})
    return Training(directory, starts, curves, {"eval_f1": 88.25, "eval_accuracy": 0.662}, 10 * points, 100)


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
        "tasks.txt": list_every_task() + "\n",
    }


def list_every_task() -> str:
    """Return what `tasks` prints in an image with three scripts, of which one has no defaults."""
    with tempfile.TemporaryDirectory() as examples:
        for script in SCRIPTS:
            place = Path(examples, "examples/pytorch", script)
            place.parent.mkdir(parents=True)
            place.touch()
        stack = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", examples, "/usr/lib/python3")
        return list_tasks(stack).replace(examples, "EXAMPLES")
