"""A place that is taken away, and what a rank says of its own."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.job import place
from multinode_image.hooks.job.place import Job, read_job
from multinode_image.hooks.job.spot import Spot, is_of_script, list_stacks, locate
from multinode_image.settings import SIZE
from tests.support.job_environ import PID, PLACE, RANK

PACKAGES = "/usr/lib/python3/site-packages"
C10D, GRAPH = f"{PACKAGES}/torch/distributed/distributed_c10d.py", f"{PACKAGES}/torch/autograd/graph.py"
WRAPPER = f"{PACKAGES}/torch/nn/parallel/distributed.py"
LOGGER = f"{PACKAGES}/torch/distributed/c10d_logger.py"
TRAINER = f"{PACKAGES}/transformers/trainer.py"
RUNPY = "<frozen runpy>"
OURS = str(Path(sys.modules[is_of_script.__module__].__file__ or "").with_name("gradients.py"))


def stack(*calls: tuple[str, int, str]) -> Any:
    """Make up frames, the outermost first."""
    frame = None
    for file, line, name in calls:
        frame = SimpleNamespace(f_back=frame, f_lineno=line, f_code=SimpleNamespace(co_filename=file, co_name=name))
    return frame


MAIN = ("/workspace/train.py", 31, "<module>")


@pytest.mark.parametrize(
    ("calls", "spot"),
    [
        pytest.param([MAIN], Spot("train.py:31", "", False), id="the script itself"),
        pytest.param(
            [MAIN, (LOGGER, 83, "wrapper"), (C10D, 4160, "barrier")], Spot("train.py:31", "barrier", True), id="barrier"
        ),
        pytest.param(
            [MAIN, (C10D, 1, "all_gather_object"), (LOGGER, 2, "wrapper"), (C10D, 3, "all_gather")],
            Spot("train.py:31", "all_gather_object", True),
            id="a collective that is made of others",
        ),
        pytest.param(
            [MAIN, (C10D, 7, "all_gather_object"), (f"{PACKAGES}/torch/serialization.py", 3, "load")],
            Spot("train.py:31", "load", False),
            id="work within a collective",
        ),
        pytest.param(
            [MAIN, (WRAPPER, 5, "forward"), (f"{PACKAGES}/torch/nn/linear.py", 3, "forward")],
            Spot("train.py:31", "forward", False),
            id="a model computes below its wrapper",
        ),
        pytest.param(
            [MAIN, (TRAINER, 9, "train"), (GRAPH, 800, "_engine_run_backward")],
            Spot("train.py:31", "backward", True),
            id="backward",
        ),
        pytest.param(
            [MAIN, (GRAPH, 800, "_engine_run_backward"), (OURS, 20, "exchange")],
            Spot("train.py:31", "backward", True),
            id="in our hook",
        ),
        pytest.param(
            [MAIN, ("/workspace/src/data.py", 17, "load"), (f"{PACKAGES}/datasets/arrow.py", 3, "map")],
            Spot("data.py:17", "map", False),
            id="the innermost file of the script's",
        ),
        pytest.param(
            [(RUNPY, 1, "_run"), (TRAINER, 9, "main"), (C10D, 3, "barrier")],
            Spot("<frozen runpy>:1", "barrier", True),
            id="no file of the user's",
        ),
    ],
)  # fmt: skip
def test_the_innermost_frame_says_what_a_rank_does(calls: list[tuple[str, int, str]], spot: Spot) -> None:
    assert locate(stack(*calls)) == spot


def test_a_thread_that_has_ended_is_nowhere() -> None:
    assert locate(None) == Spot("its end", "", False)


def test_stacks_have_the_script_first_and_not_the_thread_that_asks() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        done.wait(10)

    thread = threading.Thread(target=hold, name="loader")
    thread.start()
    held.wait(10)
    try:
        lines = [*list_stacks(0)]
        without = "\n".join(list_stacks(thread.ident or 0))
    finally:
        done.set()
        thread.join()

    assert lines[0].strip() == "MainThread, most recent call last:"
    assert any("in test_stacks_have_the_script_first" in line for line in lines)
    assert any(line.strip().startswith("loader,") for line in lines) and "loader" not in without


@pytest.fixture(autouse=True)
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Show no process."""
    monkeypatch.setattr(place, "PROC", tmp_path)
    return tmp_path


def test_what_a_script_sets_is_no_place_of_a_rank(proc: Path) -> None:
    (proc / PID).mkdir()
    (proc / PID / "environ").write_text("\0".join(f"{name}={value}" for name, value in RANK.items()) + "\0")

    job = read_job({**RANK, "MASTER_ADDR": "localhost", "MASTER_PORT": "12355", "RANK": "0"})

    assert job == Job(1, 2, "pod0", 29500, "0")


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        (RANK, Job(1, 2, "pod0", 29500, "0")),
        ({**RANK, "TORCHELASTIC_RESTART_COUNT": "3"}, Job(1, 2, "pod0", 29500, "3")),
        (PLACE, None),  # mpirun, srun
        ({**RANK, "TORCHELASTIC_USE_AGENT_STORE": "False"}, None),
        ({**RANK, "MASTER_PORT": "many"}, None),
        ({SIZE: "2", "MULTINODE_TRAINING": "1"}, None),  # no rank
        ({**RANK, "MULTINODE_TRAINING": "none"}, Job(1, 2, "pod0", 29500, "0")),
    ],
)
def test_the_place_of_a_rank_is_what_its_agent_told(environ: dict[str, str], job: Job | None) -> None:
    assert read_job(environ) == job
