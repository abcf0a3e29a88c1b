"""The run of a task: its command line and its variables."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.runs.output import Run, leave_record
from entrypoint.runs.record import OWN, as_text, describe
from entrypoint.runs.task import prepare_run, resume, saves_ranks
from entrypoint.tasks.arguments import Program, complete
from entrypoint.tasks.job import Job
from entrypoint.tasks.table import ACCELERATE, OTHER, TRAINER, find_task
from entrypoint.world.model import ALONE, MPI, TORCHRUN, World
from tests.support.runs import archive, checkpoint

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")
ONE = World(ALONE, "", local_size=1)


def prepare(words: list[str], stack: Stack = NEW, name: str = "qa", world: World = ONE) -> tuple[Program, Run | None]:
    job = Job("task", name, words)
    program = complete(find_task(name), "run_it.py", words, stack, many=False)
    return prepare_run(job, program, world, {}, stack)


def leave(directory: Path, words: list[str]) -> str:
    """Leave a record and a checkpoint of a run with these arguments."""
    program, _ = prepare([*words, "--output_dir", str(directory)])
    (directory / OWN).mkdir()
    (directory / OWN / "run.json").write_text(as_text(describe("qa", program.given, str(directory))))
    return str(checkpoint(directory, 500))


def test_a_restarted_task_goes_on(tmp_path: Path) -> None:
    path = leave(tmp_path, ["--seed", "1"])
    program, run = prepare(["--seed", "1", "--output_dir", str(tmp_path)])
    assert run is not None and not run.anew
    assert program.words[-2:] == ["--resume_from_checkpoint", path]
    assert f"goes on from {path}" in program.notes


def test_it_keeps_the_steps_of_its_run(tmp_path: Path) -> None:
    path = Path(leave(tmp_path, []))
    (path / "trainer_state.json").write_text(json.dumps({"global_step": 500, "max_steps": 1000}))
    for rank in (0, 1):
        (path / f"rng_state_{rank}.pth").write_bytes(archive())
    program, _ = prepare(["--output_dir", str(tmp_path)])
    assert program.words[-4:] == ["--resume_from_checkpoint", str(path), "--max_steps", "1000"]
    assert "checkpoint-500 has the states of 2 ranks, not of 1: the training keeps its 1000 steps" in program.notes[-1]


@pytest.mark.parametrize(
    ("words", "transformers", "refused"),
    [
        (["--push_to_hub"], "4.31.0", True),
        (["--push_to_hub", "True", "--overwrite_output_dir"], "4.30.2", True),
        (["--push_to_hub", "False"], "4.31.0", False),
        (["--push_to_hub"], "4.32.0", False),
    ],
)
def test_a_release_that_empties_the_directory_does_not_push(
    tmp_path: Path, words: list[str], transformers: str, refused: bool
) -> None:
    words, stack = [*words, "--output_dir", str(tmp_path)], NEW._replace(transformers=transformers)
    if not refused:
        prepare(words, stack)
        return
    with pytest.raises(Refusal, match="empties the directory for results"):
        prepare(words, stack)


@pytest.mark.parametrize(
    ("words", "anew"),
    [
        (["--overwrite_output_dir"], True),
        (["--overwrite_output_dir", "y"], True),
        (["--overwrite_output", "t"], True),
        (["--overwrite_output_dir", "n", "--seed", "1"], None),
        (["--resume_from_checkpoint", "/mine"], True),
        (["--resume", "/mine"], True),
        (["--seed", "1"], None),
    ],
)
def test_who_wants_something_else_has_to_say_so(tmp_path: Path, words: list[str], anew: bool | None) -> None:
    leave(tmp_path, [])
    if anew is None:
        with pytest.raises(Refusal, match="holds another run"):
            prepare([*words, "--output_dir", str(tmp_path)])
        return
    program, run = prepare([*words, "--seed", "1", "--output_dir", str(tmp_path)])
    assert run is not None and run.anew is anew
    assert f"{tmp_path}/checkpoint-500" not in program.words


def begin(words: list[str], directory: Path) -> list[str]:
    """Start a task as its pod does, with a record of the run; return what it goes on from."""
    program, run = prepare([*words, "--output_dir", str(directory)])
    assert run is not None
    leave_record(run, replaces=True)
    place = program.words.index("--resume_from_checkpoint") if "--resume_from_checkpoint" in program.words else -2
    assert program.words.count("--resume_from_checkpoint") == (place >= 0)
    return program.words[place + 1 : place + 2] if place >= 0 else []


def test_a_pod_that_begins_at_a_checkpoint_of_the_user_goes_on_too(tmp_path: Path) -> None:
    leave(tmp_path, [])
    words = ["--seed", "1", "--resume_from_checkpoint", str(tmp_path / "checkpoint-500")]
    assert begin(words, tmp_path) == begin(words, tmp_path) == words[-1:]
    later = str(checkpoint(tmp_path, 1000))
    assert begin(words, tmp_path) == [later] == begin(words[:2], tmp_path)
    assert begin([*words, "--overwrite_output_dir"], tmp_path) == words[-1:] == begin(words, tmp_path)
    other = [*words[:3], "/another"]
    checkpoint(tmp_path, 1500)
    assert begin(other, tmp_path) == ["/another"]


@pytest.mark.parametrize(
    ("world", "anew", "resumes"),
    [
        (ONE, True, True),
        (World(TORCHRUN, "", (2, 2), 1, 1), True, True),
        (World(TORCHRUN, "", (1, 2), None, 1), True, False),  # nobody knows which node writes the record of that
    ],
)
def test_ranks_that_start_again_go_on_from_what_was_written_since(
    tmp_path: Path, world: World, anew: bool, resumes: bool
) -> None:
    _, run = prepare(["--output_dir", str(tmp_path), "--resume_from_checkpoint", "/mine"], world=world)
    assert run is not None and (run.anew, run.resumes) == (anew, resumes)


@pytest.mark.parametrize(
    ("transformers", "splits"), [("4.35.2", True), ("4.36.0", False), ("5.1.0", False), ("5.2.0", True)]
)
def test_a_smaller_batch_goes_on_where_the_trainer_takes_it(tmp_path: Path, transformers: str, splits: bool) -> None:
    leave(tmp_path, [])
    words = ["--per_device_train_batch_size", "6", "--gradient_accumulation_steps", "2", "--output_dir", str(tmp_path)]
    with nullcontext() if splits else pytest.raises(Refusal, match="holds another run"):
        prepare(words, NEW._replace(transformers=transformers))


@pytest.mark.parametrize(
    ("transformers", "torch", "overwrites", "loose"),
    [("5.0.0", "2.13.0", False, False), ("4.57.6", "2.13.0", True, False), ("4.46.3", "2.13.0", True, True),
     ("4.46.3", "2.4.0", True, False)],
)  # fmt: skip
def test_older_releases_are_told_to_go_on_in_their_own_words(
    tmp_path: Path, transformers: str, torch: str, overwrites: bool, loose: bool
) -> None:
    stack = NEW._replace(transformers=transformers, torch=torch)
    program, _ = prepare(["--output_dir", str(tmp_path)], stack)
    assert ("--overwrite_output_dir" in program.words) is overwrites
    assert ("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" in {each.name for each in program.defaults}) is loose


@pytest.mark.parametrize("value", [False, "false"])
def test_older_releases_are_told_so_whatever_a_file_says(tmp_path: Path, value: object) -> None:
    """Their own dump of arguments has false, with which they refuse the directory that we have made."""
    given = {"do_train": True, "use_cpu": True, "output_dir": str(tmp_path / "out"), "overwrite_output_dir": value}
    (tmp_path / "args.json").write_text(json.dumps(given))
    program, run = prepare([str(tmp_path / "args.json")], NEW._replace(transformers="4.57.6"))

    (file,) = program.words[1:]
    assert json.loads(program.files[file]) == {**given, "overwrite_output_dir": True}
    assert run is not None and not run.anew


@pytest.mark.parametrize("flag", [["--overwrite_output_dir", "False"], ["--overwrite_output_dir=no"]])
def test_older_releases_are_told_so_whatever_a_flag_says(tmp_path: Path, flag: list[str]) -> None:
    words = [*flag, "--output_dir", str(tmp_path)]
    program, run = prepare(words, NEW._replace(transformers="4.57.6"))

    assert program.words[program.words.index("--overwrite_output_dir") + 1] == "--output_dir"
    assert run is not None and not run.anew


@pytest.mark.parametrize(
    ("transformers", "torch", "goes_on"),
    [("4.52.4", "2.5.1", False), ("4.57.6", "2.4.0+cpu", False), ("4.51.3", "2.5.1", True), ("4.52.4", "2.6.0", True)],
)
def test_a_release_that_loads_no_checkpoint_begins_at_step_0(
    tmp_path: Path, transformers: str, torch: str, goes_on: bool
) -> None:
    path, stack = leave(tmp_path, []), NEW._replace(transformers=transformers, torch=torch)
    for world in (ONE, World(ALONE, "", local_size=2)):
        program, run = prepare(["--output_dir", str(tmp_path)], stack, world=world)
        assert run is not None and run.resumes is goes_on
        assert any("so each start of this run begins at step 0" in note for note in program.notes) is not goes_on
    assert (path in prepare(["--output_dir", str(tmp_path)], stack)[0].words) is goes_on
    typed, _ = prepare(["--output_dir", str(tmp_path), "--resume_from_checkpoint", path], stack)
    assert not any("begins at step 0" in note for note in typed.notes)


@pytest.mark.parametrize(
    "flag", [["--do_train", "y"], ["--do_train", "t"], ["--do_tr"], ["--do-t=True"], ["--do_train", "1"]]
)
def test_every_word_with_which_a_script_trains_makes_a_run(tmp_path: Path, flag: list[str]) -> None:
    program, run = prepare([*flag, "--output_dir", str(tmp_path)])
    assert run is not None and run.resumes and "do_train" in program.given


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("qa", ["--do_train", "False"]),
        ("qa", ["--do_train", "f"]),
        ("qa", ["--do_tr", "n"]),
        ("qa", ["--do_eval"]),
        ("glue", ["--do_eval", "--do_predict"]),
        ("qa", ["--output_dir", "s3://bucket"]),
        ("generation", []),
    ],
)
def test_what_trains_nothing_has_no_run(name: str, words: list[str]) -> None:
    _, run = prepare(words, name=name)
    assert run is None


def test_a_script_without_the_trainer_has_a_run_that_does_not_go_on(tmp_path: Path) -> None:
    program, run = prepare(["--output_dir", str(tmp_path)], name="qa-no-trainer")
    assert run is not None and not run.resumes and "--resume_from_checkpoint" not in program.words


@pytest.mark.parametrize("world", [World(ALONE, "", local_size=2), World(TORCHRUN, "", (2, 2), 0, 1)])
def test_ranks_of_torchrun_look_for_themselves(tmp_path: Path, world: World) -> None:
    path = leave(tmp_path, [])
    _, run = prepare(["--output_dir", str(tmp_path)])
    assert run is not None
    program = resume(run, Program(["run_qa.py"], [], {}), world, lambda _: True)
    assert program.words == ["run_qa.py"] and program.typed[0].value == str(tmp_path)
    assert [each.name for each in program.defaults] == ["PYTHON_EXEC"]
    ranks = World(MPI, "", (2, 2), None, 1, 1, 0, 2)  # each looks before it becomes the training
    program = resume(run, Program(["run_qa.py"], [], {}), ranks, lambda _: True)
    assert program.words == ["run_qa.py"] and program.typed[0].value == str(tmp_path) and program.defaults == ()
    alone = resume(run, Program(["run_qa.py"], [], {}), ONE, lambda _: True)
    assert alone.words == ["run_qa.py", "--resume_from_checkpoint", path]


@pytest.mark.parametrize("more", [{}, {"resume_from_checkpoint": None}])
def test_a_file_of_arguments_gets_it_too(tmp_path: Path, more: dict[str, None]) -> None:
    given: dict[str, object] = {"model_name_or_path": "m", "do_train": True, "use_cpu": True, **more}
    given["output_dir"] = str(tmp_path / "out")
    (tmp_path / "args.json").write_text(json.dumps(given))
    (tmp_path / "out" / OWN).mkdir(parents=True)
    record = describe("qa", given, str(tmp_path / "out"))
    (tmp_path / "out" / OWN / "run.json").write_text(as_text(record))
    path = str(checkpoint(tmp_path / "out", 500))

    program, run = prepare([str(tmp_path / "args.json")])

    (file,) = program.words[1:]
    assert json.loads(program.files[file]) == {**given, "resume_from_checkpoint": path}
    assert run is not None and not run.anew


@pytest.mark.parametrize(
    ("kind", "given", "is_there", "saves"),
    [
        (TRAINER, {"do_train": True}, True, True),
        (TRAINER, {"do_train": "True", "save_strategy": "epoch"}, True, True),
        (TRAINER, {"do_train": "y"}, True, True),
        (TRAINER, {"do_train": True, "save_strategy": "no"}, False, False),
        (TRAINER, {"do_train": True, "save_only_model": True}, False, False),
        (TRAINER, {"do_train": True, "save_only_model": "False"}, True, True),
        (TRAINER, {"do_eval": True}, False, False),
        (ACCELERATE, {}, True, False),
        (ACCELERATE, {}, False, True),
        (ACCELERATE, {"checkpointing_steps": "epoch"}, True, True),
        (OTHER, {"do_train": True}, False, False),
    ],
)
def test_who_writes_results_beside_rank_0(kind: str, given: dict[str, object], is_there: bool, saves: bool) -> None:
    assert saves_ranks(kind, given, is_there) is saves


@pytest.mark.parametrize(
    ("name", "transformers", "words"),
    [("qa-no-trainer", "4.46.3", []), ("glue-no-trainer", "4.31.0", ["--push_to_hub"])],
)
def test_scripts_without_trainer_keep_their_words_with_every_release(
    tmp_path: Path, name: str, transformers: str, words: list[str]
) -> None:
    program, _ = prepare([*words, "--output_dir", str(tmp_path)], NEW._replace(transformers=transformers), name=name)

    assert "--overwrite_output_dir" not in program.words
