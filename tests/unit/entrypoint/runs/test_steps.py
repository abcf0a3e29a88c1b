"""How many steps a run has that goes on with another number of ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entrypoint.runs.steps import count_ranks, keep_steps
from entrypoint.tasks.arguments import Program
from tests.support.runs import checkpoint

ONE = ["rng_state.pth"]


def leave(directory: Path, files: list[str], *, total: object = 32) -> str:
    """Leave a checkpoint with these random states; return its path."""
    place = checkpoint(directory, 20, state={"global_step": 20, "max_steps": total, "num_train_epochs": 2})
    for name in files:
        (place / name).touch()
    return str(place)


def ranked(count: int) -> list[str]:
    return [f"rng_state_{rank}.pth" for rank in range(count)]


@pytest.mark.parametrize(("before", "now"), [(1, 2), (2, 1), (4, 3)])
def test_another_number_of_ranks_keeps_the_steps_of_the_run(tmp_path: Path, before: int, now: int) -> None:
    place = leave(tmp_path, ONE if before == 1 else ranked(before))

    program, note = keep_steps("qa", Program(["run_qa.py"], [], {}), str(tmp_path), "checkpoint-20", now)

    assert program.words == ["run_qa.py", "--max_steps", "32"]
    of, each = ("1 rank" if count == 1 else f"{count} ranks" for count in (before, now))
    assert note.startswith(f"checkpoint-20 has the states of {of}, not of {now}: the training keeps its 32 steps")
    assert f"the examples of {each};" in note
    assert note.endswith(f"--max_steps N --resume_from_checkpoint {place}")


@pytest.mark.parametrize(("files", "now"), [(ONE, 1), (ranked(2), 2), ([], 2)])
def test_the_steps_are_kept_after_an_earlier_change_too(tmp_path: Path, files: list[str], now: int) -> None:
    """A run of 1 rank that went on with 2 is started again with 2: its total is still that of the first start."""
    leave(tmp_path, files)
    program, note = keep_steps("qa", Program(["run_qa.py"], [], {}), str(tmp_path), "checkpoint-20", now)
    assert program.words == ["run_qa.py", "--max_steps", "32"] and note == ""


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [("max_steps", "40", False), ("max_steps", 40, False), ("max_steps", "0", False),
     ("max_steps", "-1", True), ("max_steps", -1, True), ("max_steps", None, True), ("max_seq_length", "40", True)],
)  # fmt: skip
def test_who_says_how_many_steps_there_are_gets_them(tmp_path: Path, name: str, value: object, kept: bool) -> None:
    leave(tmp_path, ONE)
    typed = Program(["run_qa.py", f"--{name}", str(value)], [], {name: value})
    program, note = keep_steps("qa", typed, str(tmp_path), "checkpoint-20", 2)
    assert (program != typed) is kept is bool(note)
    assert program.given.get("max_steps") == (32 if kept else value if name == "max_steps" else None)


@pytest.mark.parametrize("total", [None, 0, -1, "32"])
def test_a_state_without_a_number_of_steps_changes_nothing(tmp_path: Path, total: object) -> None:
    leave(tmp_path, ONE, total=total)
    typed = Program(["run_qa.py"], [], {})
    assert keep_steps("qa", typed, str(tmp_path), "checkpoint-20", 2) == (typed, "")


def test_a_file_of_arguments_gets_a_number(tmp_path: Path) -> None:
    leave(tmp_path, ONE)
    typed = Program(["run_qa.py", "args.json"], [], {"seed": 1})
    program, _ = keep_steps("qa", typed, str(tmp_path), "checkpoint-20", 2)
    assert [json.loads(text) for text in program.files.values()] == [{"seed": 1, "max_steps": 32}]


@pytest.mark.parametrize(
    ("files", "count"),
    [
        (ONE, 1),
        (ranked(2), 2),
        (ranked(1), None),  # the other ranks have left theirs in directories of their own
        (["rng_state_1.pth"], None),
        ([*ONE, *ranked(2)], None),
        ([], None),
    ],
)
def test_the_random_states_say_how_many_ranks_left_them(tmp_path: Path, files: list[str], count: int | None) -> None:
    assert count_ranks(leave(tmp_path, files)) == count
