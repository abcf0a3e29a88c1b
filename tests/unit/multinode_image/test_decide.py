"""Parts of a plan: directories for results, limits, and variables that keep a training from going wrong in silence."""

from __future__ import annotations

import contextlib
from pathlib import Path
from unittest import mock

import pytest

from multinode_image.decide import Plan, assemble, look_ahead, note_places
from multinode_image.errors import Refusal
from multinode_image.machine.identity import Identity
from multinode_image.machine.image import Stack
from multinode_image.settings import Setting, forget
from multinode_image.tasks.arguments import Program
from multinode_image.tasks.command import PLAIN, SCRIPT, SMOKE, TASK, Command, Kind
from multinode_image.world.model import MPI, World
from tests.support.harness import ROOT
from tests.support.machines import Box, look_at, pod
from tests.support.starts import GLOO, make_facts, make_plan, place

HOST = Box(2, 60, 2)
JOB = Command(SCRIPT, "train.py", [])
OLD = GLOO._replace(transformers="4.46.3")
NSS = "/usr/lib/libnss_wrapper.so"
TCMALLOC = Setting("LD_PRELOAD", "/a/libtcmalloc.so.4", "")
ALONE = World("alone", "")


def decided(environ: dict[str, str], stack: Stack = GLOO, job: Command = JOB) -> Plan:
    """Return the plan of a training in a pod of 32 processors, on a host of 240."""
    return make_plan(job, make_facts(environ, stack, machine=look_at(HOST, pod(32))))


def given(**values: object) -> Program:
    """Return a program with these arguments."""
    return Program([], [], values)


@pytest.mark.parametrize(
    ("kind", "name", "rank", "local_rank", "is_refused"),
    [
        (TASK, "qa", 0, 0, True),
        (TASK, "qa", 1, 1, False),
        (TASK, "qa", 2, 0, True),
        (TASK, "qa-no-trainer", 2, 0, True),
        (SCRIPT, "train.py", 0, 0, True),
        (SCRIPT, "train.py", 2, 0, False),
        (SMOKE, "smoke", 2, 0, False),
    ],
)
def test_one_rank_of_each_node_looks_whether_results_can_be_written(
    kind: Kind, name: str, rank: int, local_rank: int, is_refused: bool
) -> None:
    world = World(MPI, "", nodes=(2, 2), local_size=2, rank=rank, local_rank=local_rank, size=4)
    here, job = place(world, Command(kind, name, [])), given(output_dir="/nowhere/qa", do_train=True)
    with mock.patch("multinode_image.decide.can_write", lambda _: True):
        assert bool(note_places(here, job, {}, make_facts({}))) is (rank == 0)
    with (
        mock.patch("multinode_image.decide.can_write", lambda _: False),
        pytest.raises(Refusal) if is_refused else contextlib.nullcontext(),
    ):
        note_places(here, job, {}, make_facts({}))


@pytest.mark.parametrize(
    ("kind", "name", "local_rank", "told"),
    [(SMOKE, "smoke", 0, True), (SMOKE, "smoke", 1, False), (PLAIN, "cat", 0, False), (PLAIN, "cat", 1, False)],
)
def test_one_rank_of_each_node_that_trains_tells_what_is_closed_in_a_cache(
    tmp_path: Path, kind: Kind, name: str, local_rank: int, told: bool
) -> None:
    world = World(MPI, "", nodes=(2, 2), local_size=2, rank=2 + local_rank, local_rank=local_rank, size=4)
    with mock.patch("multinode_image.decide.find_closed", lambda *_: [str(tmp_path)]):
        notes = look_ahead(place(world, Command(kind, name, [])), make_facts({})).notes
    assert any(str(tmp_path) in note for note in notes) is told


@pytest.mark.parametrize(
    ("arguments", "environ", "mounts", "writable", "said"),
    [
        ({"output_dir": "/out"}, {}, ["/out"], True, "results go to /out"),
        *(
            ({name: "/out"}, {}, [], True, "nothing is mounted at /out")
            for name in ("out_dir", "save_dir", "results_dir")
        ),
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
        mock.patch("multinode_image.decide.can_write", lambda _: writable),
        pytest.raises(Refusal) if said is None else contextlib.nullcontext(),
    ):
        notes = note_places(place(ALONE, JOB), given(**arguments), environ, facts)
        assert [note for note in notes if said and said in note] == notes


@pytest.mark.parametrize(
    ("job", "stack", "environ", "value"),
    [
        (JOB, OLD, {}, "1"),
        (Command(PLAIN, "python3", ["train.py"]), OLD, {}, None),
        (Command(PLAIN, "ls", []), OLD, {}, None),
        (JOB, OLD, {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "0"}, "0"),
        (JOB, OLD, {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}, None),
        (JOB, GLOO, {}, None),
        (JOB, OLD._replace(torch="2.5.1"), {}, None),
    ],
)
def test_a_script_of_an_older_trainer_loads_its_own_checkpoints(
    job: Command, stack: Stack, environ: dict[str, str], value: str | None
) -> None:
    variables = decided(environ, stack, job).prepared.environ
    assert variables.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD") == value


@pytest.mark.parametrize(
    ("environ", "preload", "expected"),
    [
        ({}, None, "/a/libtcmalloc.so.4"),
        ({"LD_PRELOAD": "/mine.so"}, None, "/mine.so"),
        ({}, NSS, f"/a/libtcmalloc.so.4:{NSS}"),
        ({"LD_PRELOAD": "/mine.so"}, NSS, f"/mine.so:{NSS}"),
    ],
)
def test_preloads_are_the_same_for_an_entrypoint_and_one_below_it(
    environ: dict[str, str], preload: str | None, expected: str
) -> None:
    above = assemble(environ, Identity({}, preload, (), {}), [], [TCMALLOC]).environ
    assert above["LD_PRELOAD"] == expected

    # The name is known below, because nss_wrapper is loaded there.
    below = assemble(forget(above), Identity({}, None, (), {}), [], [TCMALLOC]).environ
    assert below["LD_PRELOAD"] == expected


@pytest.mark.parametrize(
    ("environ", "added", "kept"),
    [({}, "1", None), ({"ACCELERATE_USE_CPU": "1"}, None, None), ({"ACCELERATE_USE_CPU": "0"}, None, "0")],
)
def test_the_image_s_own_settings_are_not_called_the_user_s(
    environ: dict[str, str], added: str | None, kept: str | None
) -> None:
    prepared = make_plan(JOB, make_facts(environ), 1).prepared
    assert (prepared.added.get("ACCELERATE_USE_CPU"), prepared.kept.get("ACCELERATE_USE_CPU")) == (added, kept)


@pytest.mark.parametrize(
    ("job", "has_terminal", "yours", "pace"),
    [
        (Command(SMOKE, "smoke", []), False, {}, "30"),
        (Command(SMOKE, "smoke", []), True, {}, None),
        (Command(SMOKE, "smoke", []), False, {"TQDM_MININTERVAL": "5"}, "5"),
        (Command(PLAIN, "bash", []), False, {}, None),
    ],
)
def test_a_log_gets_whole_lines_of_progress(
    job: Command, has_terminal: bool, yours: dict[str, str], pace: str | None
) -> None:
    """What a terminal shows in one line, over and over, is nothing that a log shows before its end."""
    environ = make_plan(job, make_facts(yours, has_terminal=has_terminal)).prepared.environ

    assert environ.get("TQDM_MININTERVAL") == pace
    assert environ.get("TQDM_MAXINTERVAL") == (pace and "30") and environ.get("TQDM_POSITION") == (pace and "0")
    values = {"l_bar": " 42%|", "n_fmt": 16, "total_fmt": 38, "elapsed": "00:23", "remaining": "00:30"}
    line = environ.get("TQDM_BAR_FORMAT", "\n").format(**values, rate_fmt=" 1.38s/it", postfix=", loss 5.031")
    assert line.endswith("\n") and line.rstrip("\n") in (ROOT / "docs/tasks.md").read_text()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("MULTINODE_RESUM", "MULTINODE_RESUME"),
        ("MULTINODE_TIMOUT", "MULTINODE_TIMEOUT"),
        ("MULTINODE_WORLDSIZE", "MULTINODE_WORLD_SIZE"),
        ("MULTINODE_RESUME", None),
        ("MULTINODE_RUN", None),
        ("MULTINODE_MY_OWN", None),
    ],
)
def test_a_mistyped_variable_is_named(typed: str, meant: str | None) -> None:
    notes = make_plan(Command(SMOKE, "smoke", []), make_facts({typed: "x"})).notes

    assert any(typed in note and f"{meant} meant" in note for note in notes) is (meant is not None)
