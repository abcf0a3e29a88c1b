"""Commands for jobs in worlds."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine import network
from entrypoint.tasks import argv as module
from entrypoint.tasks.argv import clean, find_torchrun, make_argv, meet_here
from entrypoint.tasks.command import Command
from entrypoint.world.model import World
from images.plan import catalog

TORCH = "2.13.0+cpu"
SMOKE = Command("smoke", "smoke", ["--bf16"])
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


def test_a_plain_command_stays_as_it_is() -> None:
    job, words = Command("plain", "torchrun", ["--nproc-per-node", "2", "x.py"]), ["torchrun", "x.py"]
    assert make_argv(job, World("torchrun", "", (2, 2), local_size=2), words, {}, TORCH) == words


def test_what_trains_nothing_runs_once() -> None:
    job = Command("task", "generation", [])
    assert not job.trains
    assert make_argv(job, World("alone", "", local_size=2), ["x.py"], {}, TORCH) == ["python3", "x.py"]


def test_a_worker_of_an_mpijob_does_not_train() -> None:
    with pytest.raises(Refusal, match="MPIJob"):
        make_argv(SMOKE, World("mpijob-worker", ""), [], {}, TORCH)


def test_empty_pet_variables_are_removed() -> None:
    assert clean({"PET_STANDALONE": "", "PET_NNODES": "2", "A": ""}) == {"PET_NNODES": "2", "A": ""}


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/../front", "/{}", "{}/."])
def test_the_program_in_front_of_torchrun_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """It would find itself for ever, however PATH writes its directory."""
    for name in ("front", "behind"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "torchrun").touch(0o755)
    monkeypatch.setattr(module, "FRONT", str(tmp_path / "front"))
    front = form.format(tmp_path / "front")

    assert find_torchrun({"PATH": f"{front}:{tmp_path}/behind"}) == f"{tmp_path}/behind/torchrun"
    with pytest.raises(Refusal, match="pip install torch"):
        find_torchrun({"PATH": front})


@pytest.mark.parametrize(
    ("torch", "options"),
    [
        ("2.3.1+cpu", "--standalone"),
        ("2.4.1", "--rdzv_backend static --master_addr 127.0.0.1 --master_port 29502"),
        ("2.5.0+cpu", "--standalone"),
    ],
)
def test_ranks_of_one_node_meet_without_a_name(monkeypatch: pytest.MonkeyPatch, torch: str, options: str) -> None:
    monkeypatch.setattr(network, "is_free", lambda port: port > 29501)
    assert " ".join(meet_here(torch)) == options
