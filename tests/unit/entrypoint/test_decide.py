"""Trainings that would run, and be wrong without a word: each is found, or set right, before it starts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from entrypoint import run
from entrypoint.decide import check_places, warn_early
from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.machine.limits import DEFAULT_SHM, Limits
from entrypoint.situation import Situation
from entrypoint.tasks.arguments import Program
from entrypoint.tasks.job import Job
from entrypoint.world.model import MPI, World
from tests.support.launchers import left_by
from tests.support.machines import Box, look_at, pod
from tests.support.starts import CCL, GLOO, find_situation, make_facts, make_plan

HOST = Box(2, 60, 2)
POD = {"RANK": "0", "WORLD_SIZE": "1"}
JOB = Job("script", "train.py", [])


Decide = Callable[..., tuple[dict[str, str], list[str]]]


@pytest.fixture
def decided() -> Decide:
    """Give the environment and the command of a training in a pod of 32 processors, on a host of 240."""

    def decide(environ: dict[str, str], stack: Stack = GLOO, job: Job = JOB) -> tuple[dict[str, str], list[str]]:
        found = make_plan(job, make_facts(environ, stack, machine=look_at(HOST, pod(32))))
        return found.prepared.environ, found.argv

    return decide


def place(job: Job, world: World = World("alone", "")) -> Situation:  # noqa: B008
    """Return a job in a world."""
    return Situation(job, world, None, {}, "ranks", job.trains, ())


def given(**values: object) -> Program:
    """Return a program with these arguments."""
    return Program([], [], values)


# Left over: accelerate reads RANK before PMI_RANK (accelerate/utils/environment.py); Slurm's names it does not know.
@pytest.mark.parametrize(
    ("left", "more", "rank", "size"),
    [
        (("intel-mpi-1",), {}, "1", "2"),
        (("intel-mpi-1",), POD, "1", "2"),
        (("pytorchjob-master", "open-mpi-0"), {}, "0", "2"),
        (("slurm-step",), {}, "3", "4"),
        (("slurm-step", "slurm-pmix"), POD, "3", "4"),
    ],
)
def test_ranks_do_not_train_each_alone(
    decided: Decide, left: tuple[str, ...], more: dict[str, str], rank: str, size: str
) -> None:
    environ, argv = decided({**left_by(*left), **more, "MASTER_ADDR": "node0"})
    assert (environ["RANK"], environ["WORLD_SIZE"], environ["MULTINODE_WORLD_SIZE"]) == (rank, size, size)
    assert argv == ["python3", "train.py"]


@pytest.mark.parametrize(
    ("left", "more"),
    [
        (("pytorchjob-workers",), {}),
        (("slurm-batch",), {}),
        (("prterun-0",), {}),
        ((), {"PMI_ID": "0", "PMI_PORT": "node0:39063"}),
        ((), {"RANK": "1"}),
        ((), {"WORLD_SIZE": "2"}),
        ((), {"PET_RDZV_ENDPOINT": "pod0:29400"}),
        ((), {"PET_MASTER_ADDR": "pod0", "PET_MASTER_PORT": "29400"}),
    ],
)
def test_no_world_of_one_where_there_are_signs_of_more(
    decided: Decide, left: tuple[str, ...], more: dict[str, str]
) -> None:
    with pytest.raises(Refusal):
        decided({**left_by(*left), **more})


@pytest.mark.parametrize("name", ["pytorchjob-master", "pytorchjob-elastic"])
def test_auto_does_not_count_the_cores_of_the_host(decided: Decide, name: str) -> None:
    environ, argv = decided(left_by(name))
    assert argv[argv.index("--nproc_per_node") + 1] == "1"
    assert environ["OMP_NUM_THREADS"] == "32"


@pytest.mark.parametrize("count", ["", "1", "4"])
def test_ccl_is_not_replaced_by_gloo(decided: Decide, count: str) -> None:
    """Accelerate takes gloo in silence unless CCL_WORKER_COUNT is above 0 (accelerate/state.py)."""
    environ, _ = decided({**left_by("pytorchjob-elastic"), "CCL_WORKER_COUNT": count}, CCL)
    assert environ["CCL_WORKER_COUNT"] == (count or "1")


def test_ccl_without_a_worker_is_refused(decided: Decide) -> None:
    with pytest.raises(Refusal, match="worker"):
        decided({**left_by("pytorchjob-elastic"), "CCL_WORKER_COUNT": "0"}, CCL)


@pytest.mark.parametrize(
    ("kind", "name", "rank", "local_rank", "is_refused"),
    [
        ("task", "qa", 0, 0, True),
        ("task", "qa", 1, 1, False),
        ("task", "qa", 2, 0, True),
        ("task", "qa-no-trainer", 2, 0, True),
        ("script", "train.py", 0, 0, True),
        ("script", "train.py", 2, 0, False),
        ("smoke", "smoke", 2, 0, False),
    ],
)
def test_one_rank_of_each_node_looks_whether_results_can_be_written(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, rank: int, local_rank: int, is_refused: bool
) -> None:
    world = World(MPI, "", nodes=(2, 2), local_size=2, rank=rank, local_rank=local_rank, size=4)
    here, made = place(Job(kind, name, []), world), given(output_dir="/nowhere/qa", do_train=True)
    monkeypatch.setattr("entrypoint.decide.can_write", lambda _: True)
    assert bool(check_places(here, made, {}, make_facts({}))) is (rank == 0)

    monkeypatch.setattr("entrypoint.decide.can_write", lambda _: False)
    with pytest.raises(Refusal, match="/nowhere/qa") if is_refused else contextlib.nullcontext():
        check_places(here, made, {}, make_facts({}))


@pytest.mark.parametrize(
    ("arguments", "environ", "mounts", "writable", "said"),
    [
        ({"output_dir": "/out"}, {}, ["/out"], True, "results go to /out"),
        ({"save_dir": "/out"}, {}, [], True, "nothing is mounted at /out"),
        ({}, {"MULTINODE_OUTPUT": "/out"}, [], True, "nothing is mounted at /out"),
        ({}, {"MULTINODE_OUTPUT": "/out"}, [], False, None),
        ({}, {}, [], True, "nothing is mounted at /workspace/output"),
        ({}, {}, [], False, "nothing is mounted at /workspace/output"),  # it may write elsewhere
        ({}, {}, ["/workspace/output"], True, ""),
        ({}, {}, ["/workspace"], False, None),
    ],
)
def test_where_a_script_writes_is_looked_at(
    arguments: dict[str, str], environ: dict[str, str], mounts: list[str], writable: bool, said: str | None
) -> None:
    facts = make_facts({}, mounts=tuple(mounts))
    with (
        mock.patch("entrypoint.decide.can_write", lambda _: writable),
        pytest.raises(Refusal) if said is None else contextlib.nullcontext(),
    ):
        notes = check_places(place(JOB), given(**arguments), environ, facts)
        assert [note for note in notes if said and said in note] == notes


@pytest.mark.parametrize(("kind", "is_warned"), [("script", True), ("smoke", False), ("plain", False)])
def test_a_script_whose_workers_nobody_knows_is_warned_of_a_small_shared_memory(kind: str, is_warned: bool) -> None:
    small = Limits(DEFAULT_SHM, 64 << 30, frozenset({"avx512_bf16"}))
    notes = warn_early(place(Job(kind, "x", [])), given(), make_facts({}, limits=small))
    assert ["/dev/shm" in note for note in notes] == [True] * is_warned


@pytest.mark.parametrize(
    ("kind", "name", "refused"),
    [
        ("smoke", "smoke", True),
        ("task", "qa", True),
        ("task", "qa-no-trainer", False),
        ("script", "train.py", False),
        ("plain", "ls", False),
    ],
)
def test_only_what_is_the_trainer_s_is_refused_for_half_precision(kind: str, name: str, refused: bool) -> None:
    """A script of the user's may have a flag of this name that its own code reads."""
    old = make_facts({}, GLOO._replace(transformers="4.40.2"))
    with pytest.raises(Refusal, match="refuses half precision") if refused else contextlib.nullcontext():
        warn_early(place(Job(kind, name, [])), given(fp16=True), old)


OLD = GLOO._replace(transformers="4.46.3")


@pytest.mark.parametrize(
    ("job", "stack", "environ", "value"),
    [
        (JOB, OLD, {}, "1"),
        (Job("plain", "torchrun", ["train.py"]), OLD, {}, "1"),
        (Job("plain", "ls", []), OLD, {}, None),
        (JOB, OLD, {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "0"}, "0"),
        (JOB, OLD, {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}, None),
        (JOB, GLOO, {}, None),
        (JOB, OLD._replace(torch="2.5.1"), {}, None),
    ],
)
def test_a_script_of_an_older_trainer_loads_its_own_checkpoints(
    decided: Decide, job: Job, stack: Stack, environ: dict[str, str], value: str | None
) -> None:
    found, _ = decided(environ, stack, job)
    assert found.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD") == value


MODULE = ["-m", "torch.distributed.run"]
NODES = ["--nnodes", "2", "--node-rank", "1", "--master-addr", "pod0", "train.py"]


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("torchrun", NODES, True),
        ("/usr/local/bin/torchrun", NODES, True),
        ("python3", [*MODULE, *NODES], True),
        ("python3", [*MODULE, "train.py"], False),
        ("torchrun", ["train.py"], False),
        ("python3", ["train.py"], False),
        ("ls", NODES, False),
    ],
)
def test_a_torchrun_of_several_nodes_trains_with_others_however_it_is_typed(
    name: str, words: list[str], expected: bool
) -> None:
    """It waits for the name of its master, and looks whether it can be reached."""
    assert find_situation(Job("plain", name, words), make_facts({})).meets_others is expected


@pytest.mark.parametrize(
    ("words", "seconds"),
    [(NODES, 900), (["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "pod0:29400", "train.py"], 60)],
)
def test_a_typed_torchrun_waits_as_long_for_a_name_as_for_its_rendezvous(
    words: list[str], seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr("entrypoint.rendezvous.wait.wait_for_name", lambda *args: waited.append(args[2]))
    facts = make_facts({})
    run.wait(find_situation(Job("plain", "torchrun", words), facts), facts)
    assert waited == [seconds]


def test_a_command_says_what_a_home_hides(tmp_path: Path) -> None:
    home, site = tmp_path / "home", tmp_path / "site"
    for place, version in ((home / f".local/lib/python{GLOO.python}/site-packages", "4"), (site, "5")):
        (place / f"transformers-{version}.dist-info").mkdir(parents=True)
    stack = GLOO._replace(site=str(site))

    found = make_plan(Job("plain", "bash", []), make_facts({"HOME": str(home)}, stack))

    assert any(note.startswith("transformers of") for note in found.notes)
