"""Commands for jobs in worlds."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.tasks import command
from entrypoint.tasks.argv import make_argv
from entrypoint.tasks.command import PLAIN, TASK, Command
from entrypoint.world.model import World
from images.plan import catalog

TORCH = "2.13.0+cpu"
SMOKE = Command(command.SMOKE, "smoke", ["--bf16"])
STATIC = ["--nproc_per_node", "2", "--nnodes", "2", "--node_rank", "1", "--master_addr", "m", "--master_port", "1"]


@pytest.mark.parametrize(
    ("world", "environ", "start"),
    [
        (World("alone", "", local_size=1), {}, ["python3"]),
        (World("alone", "", local_size=2), {}, ["torchrun", "--standalone", "--nproc_per_node", "2"]),
        (World("mpi", "", local_size=1, rank=0, size=2), {}, ["python3"]),
        (World("slurm", "", local_size=1, rank=0, size=2), {}, ["python3"]),
        (World("torchrun-worker", "", local_size=2, rank=0, size=2), {}, ["python3"]),
        (World("torchrun", "", (1, 4), local_size=1), {"PET_RDZV_ENDPOINT": "a:1", "PET_RDZV_BACKEND": "c10d"},
         ["torchrun", "--nproc_per_node", "1"]),
        (World("torchrun", "", (1, 4), local_size=1), {"PET_RDZV_ENDPOINT": "a:1"},
         ["torchrun", "--nproc_per_node", "1", "--rdzv_backend", "c10d"]),
        (World("torchrun", "", (2, 2), 1, 2, master="m", port=1), {}, ["torchrun", *STATIC]),
    ],
)  # fmt: skip
def test_the_world_decides_between_python_and_torchrun(world: World, environ: dict[str, str], start: list[str]) -> None:
    words = ["/opt/multinode/smoke.py", "--bf16"]
    assert make_argv(SMOKE, world, words, environ, TORCH) == [*start, *words]


@pytest.mark.parametrize(
    "world",
    [
        World("alone", "", local_size=2),
        World("torchrun", "", (1, 4), local_size=1),
        World("torchrun", "", (2, 2), 1, 2, master="m", port=1),
    ],
)
def test_torchrun_gets_options_that_every_release_takes(world: World) -> None:
    """Before 2.0 it knows none with a dash inside its name."""
    environ = {"PET_RDZV_ENDPOINT": "a:1"} if world.node_rank is None else {}
    for torch in catalog.load().torch:
        argv = make_argv(SMOKE, world, ["smoke.py"], environ, str(torch))
        options = [word for word in argv[: argv.index("smoke.py")] if word.startswith("-")]
        assert options
        assert not [option for option in options if "-" in option[2:]], torch


@pytest.mark.parametrize(
    ("job", "start"),
    [(Command(PLAIN, "torchrun", ["x.py"]), []), (Command(TASK, "generation", []), ["python3"])],
)
def test_what_is_no_training_of_ours_starts_no_ranks(job: Command, start: list[str]) -> None:
    assert make_argv(job, World("alone", "", local_size=2), ["x.py"], {}, TORCH) == [*start, "x.py"]


def test_a_worker_of_an_mpijob_does_not_train() -> None:
    with pytest.raises(Refusal, match="MPIJob"):
        make_argv(SMOKE, World("mpijob-worker", ""), [], {}, TORCH)
