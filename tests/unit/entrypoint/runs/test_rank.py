"""The command line of a rank, at every start."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.rendezvous import directory
from entrypoint.rendezvous.directory import Seat
from entrypoint.runs.rank import RESUME, add_resume, find_together
from entrypoint.runs.record import OWN, as_text, describe
from entrypoint.world.model import TORCHRUN_WORKER, World
from tests.support.runs import archive, checkpoint

WORLD = World(TORCHRUN_WORKER, "", rank=0, size=1)
WORDS = ["-u", "run_qa.py", "--seed", "1"]


def never(name: str, text: str) -> str:
    raise AssertionError(name)


def test_it_gets_the_last_checkpoint_of_that_moment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "run.json").write_text(as_text(describe("qa", {}, str(tmp_path))))
    environ = {RESUME: str(tmp_path)}
    assert add_resume(WORDS, environ, WORLD, never) == WORDS
    for step in (2, 4):
        path = str(checkpoint(tmp_path, step))
        assert add_resume(WORDS, environ, WORLD, never) == [*WORDS, "--resume_from_checkpoint", path]
        assert capsys.readouterr().err == f"multinode: goes on from {path}\n"
        add_resume(WORDS, environ, WORLD._replace(rank=1, size=2), never)
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("met", "note"), [("checkpoint-2", "goes on from"), (None, "not all ranks have answered")])
def test_ranks_of_several_nodes_look_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], met: str | None, note: str
) -> None:
    """What rank 0 says counts: a file system may not show its last checkpoint to all nodes yet."""
    seats: list[Seat] = []

    def meet(seat: Seat, choice: str) -> str | None:
        seats.append(seat)
        return met

    monkeypatch.setattr(directory, "meet", meet)
    world = WORLD._replace(nodes=(2, 2), rank=1, size=4)
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "run.json").write_text(as_text(describe("qa", {}, str(tmp_path))))
    assert find_together(str(tmp_path), world, joined=True) == (None, "") and seats == []  # nothing to agree upon
    checkpoint(tmp_path, 4)

    last, said = find_together(str(tmp_path), world, joined=True)

    assert last == met and note in said
    for rank, local in ((0, 0), (2, 0), (3, 1)):
        environ = {RESUME: str(tmp_path), "TORCHELASTIC_RUN_ID": "a"}
        add_resume(WORDS, environ, world._replace(rank=rank, local_rank=local), never)
        assert (note in capsys.readouterr().err) is (rank == 0 if met else local == 0)
    assert [each[:3] for each in seats] == [(f"{tmp_path}/{OWN}/ranks", rank, 4) for rank in (1, 0, 2, 3)]


@pytest.mark.parametrize(
    ("error", "fact"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space is left in the directory for results"),
        (PermissionError(errno.EACCES, "Permission denied", "/a"), "cannot be written: /a (Permission denied)"),
    ],
)
def test_a_rank_that_cannot_answer_does_not_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, fact: str
) -> None:
    def meet(*_: object) -> None:
        raise error

    monkeypatch.setattr(directory, "meet", meet)
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "run.json").write_text(as_text(describe("qa", {}, str(tmp_path))))
    checkpoint(tmp_path, 4)

    with pytest.raises(Refusal, match=re.escape(fact)):
        find_together(str(tmp_path), WORLD._replace(nodes=(2, 2), size=2), joined=True)


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "0"}, 60),
        ({"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "1", "PET_RDZV_ENDPOINT": "m:7"}, 60),
        ({"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "1"}, 600),
        ({}, 600),
    ],
)
def test_ranks_that_have_not_met_yet_wait_longer_and_say_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environ: dict[str, str],
    seconds: int,
) -> None:
    seats: list[Seat] = []
    monkeypatch.setattr(directory, "meet", lambda seat, _: seats.append(seat))
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "run.json").write_text(as_text(describe("qa", {}, str(tmp_path))))
    checkpoint(tmp_path, 4)

    add_resume(WORDS, {RESUME: str(tmp_path), **environ}, WORLD._replace(nodes=(2, 2), size=2), never)

    assert [seat.wait for seat in seats] == [seconds]
    assert ("at most 600 s" in capsys.readouterr().err) is (seconds == 600)


def test_a_note_is_one_row_whatever_the_directory_is_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "a\nb\033[31m"
    (place / OWN).mkdir(parents=True)
    (place / OWN / "run.json").write_text(as_text(describe("qa", {}, str(place))))
    checkpoint(place, 2)

    add_resume(WORDS, {RESUME: str(place)}, WORLD, never)

    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "\033" not in err


def test_without_the_variable_nothing_changes() -> None:
    assert add_resume(WORDS, {}, WORLD, never) == WORDS


def test_a_file_of_arguments_gets_it_in_a_copy(tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text('{"seed": 1}')
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "run.json").write_text(as_text(describe("qa", {}, str(tmp_path))))
    path = str(checkpoint(tmp_path, 4))
    written: dict[str, str] = {}

    words = add_resume(["-u", "run_qa.py", str(file)], {RESUME: str(tmp_path)}, WORLD, written.__setitem__)

    assert words == ["-u", "run_qa.py", *written]
    assert [json.loads(text) for text in written.values()] == [{"seed": 1, "resume_from_checkpoint": path}]


def test_ranks_of_another_number_keep_the_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "run.json").write_text(as_text(describe("qa", {}, str(tmp_path))))
    place = checkpoint(tmp_path, 20, state={"global_step": 20, "max_steps": 32})
    (place / "rng_state.pth").write_bytes(archive())
    for rank, said in ((0, 1), (1, 0)):
        words = add_resume(WORDS, {RESUME: str(tmp_path)}, WORLD._replace(rank=rank, size=2), never)
        assert words == [*WORDS, "--resume_from_checkpoint", str(place), "--max_steps", "32"]
        assert capsys.readouterr().err.count("keeps its 32 steps") == said
