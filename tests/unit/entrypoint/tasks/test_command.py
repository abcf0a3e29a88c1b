"""Commands for jobs in worlds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine import network
from entrypoint.machine.image import Stack
from entrypoint.settings import Setting
from entrypoint.tasks import command as module
from entrypoint.tasks.arguments import read_given
from entrypoint.tasks.command import clean, command, expand_home, find_torchrun, meet_here, read_program
from entrypoint.tasks.job import Job
from entrypoint.world.model import World
from images.plan import catalog

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/w", "")
SMOKE = Job("smoke", "smoke", ["--bf16"])
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
    words = read_program(SMOKE, NEW, "/opt/multinode", many=False).words
    assert command(SMOKE, world, words, environ, NEW.torch) == [*start, "/opt/multinode/smoke.py", "--bf16"]


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
        argv = command(SMOKE, world, ["smoke.py"], environ, str(torch))
        options = [word for word in argv[: argv.index("smoke.py")] if word.startswith("-")]
        assert options
        assert not [option for option in options if "-" in option[2:]], torch


def test_a_plain_command_stays_as_it_is() -> None:
    job = Job("plain", "torchrun", ["--nproc-per-node", "2", "x.py"])
    words = read_program(job, NEW, "/", many=True).words
    assert (
        command(job, World("torchrun", "", (2, 2), local_size=2), words, {}, NEW.torch)
        == words
        == [job.name, *job.words]
    )


@pytest.mark.parametrize(
    ("name", "words", "path"),
    [
        ("clm", ["--output_dir", "~/run"], "/home/me/run"),
        ("clm", ["--output_dir=~/run"], "/home/me/run"),
        ("clm", ["--output-dir", "~", "--seed", "1"], "/home/me"),
        ("clm", ["--output_di", "~/a", "--output_dir", "~/b"], "/home/me/b"),
        ("clm", ["--output_dir", "~root/run"], "/root/run"),
        ("qa-no-trainer", ["--output_dir", "~/run"], "/home/me/run"),
        ("clm", ["--output_dir", "/a~"], "/a~"),
    ],
)
def test_results_go_to_the_home_that_the_script_will_have(name: str, words: list[str], path: str) -> None:
    program = expand_home(name, read_program(Job("task", name, words), NEW, "/", many=False), "/home/me")
    assert program.given["output_dir"] == path
    assert read_given(program.words[1:], lambda _: None, strict=True)["output_dir"] == path
    assert not any(word.startswith("~") or "=~" in word for word in program.words)


@pytest.mark.parametrize("words", [["--output_dir="], ["--output_dir", ""], ["--output_dir", "/a", "--output_dir", ""]])
def test_results_go_to_a_directory_with_a_name(words: list[str]) -> None:
    program = read_program(Job("task", "clm", words), NEW, "/", many=False)
    with pytest.raises(Refusal, match="the directory for results has no name: output_dir ''"):
        expand_home("clm", program, "/home/me")


def test_a_file_of_arguments_gets_the_home_too(tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text('{"output_dir": "~/run", "seed": 1}')
    program = expand_home("qa", read_program(Job("task", "qa", [str(file)]), NEW, "/", many=False), "/home/me")
    (text,) = program.files.values()
    assert json.loads(text) == program.given == {"output_dir": "/home/me/run", "seed": 1}
    assert program.words[1:] == [*program.files]


def test_generation_runs_once() -> None:
    job = Job("task", "generation", [])
    assert not job.trains
    words = read_program(job, NEW, "/", many=True).words
    assert command(job, World("alone", "", local_size=2), words, {}, NEW.torch)[0] == "python3"


def test_a_script_without_the_trainer_is_told_by_the_environment() -> None:
    job = Job("task", "qa-no-trainer", ["--bf16"])
    assert job.trains
    program = read_program(job, NEW, "/", many=True)
    assert program.typed == (Setting("ACCELERATE_MIXED_PRECISION", "bf16", "a flag that was typed"),)
    assert [(each.name, each.value) for each in program.defaults] == [("ACCELERATE_USE_CPU", "1")]


def test_what_went_into_the_environment_is_still_known() -> None:
    assert read_program(Job("task", "qa-no-trainer", ["--bf16"]), NEW, "/", many=True).given["bf16"] is True


@pytest.mark.parametrize(
    ("words", "many", "expected"),
    [
        (["--no_cuda", "--bf16"], False, ["--use_cpu", "--bf16"]),
        (["--ddp_backend", "gloo"], False, []),
        (["--ddp_backend", "ccl"], True, ["--ddp_backend", "gloo"]),
        (["--world_size", "2", "x"], True, ["--world_size", "2", "x"]),
    ],
)
def test_smoke_takes_the_flags_of_any_release(words: list[str], many: bool, expected: list[str]) -> None:
    program = read_program(Job("smoke", "smoke", words), NEW, "/opt/multinode", many=many)
    assert program.words == ["/opt/multinode/smoke.py", *expected]
    assert len(program.notes) == (words != expected)


@pytest.mark.parametrize(("kind", "name", "count"), [("script", "x.py", 1), ("task", "qa", 0), ("plain", "bash", 0)])
def test_a_script_of_one_s_own_counts_its_ranks_on_a_cpu(kind: str, name: str, count: int) -> None:
    assert len(read_program(Job(kind, name, []), NEW, "/", many=True).defaults) == count


def test_a_worker_of_an_mpijob_does_not_train() -> None:
    with pytest.raises(Refusal, match="MPIJob"):
        command(SMOKE, World("mpijob-worker", ""), [], {}, NEW.torch)


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
