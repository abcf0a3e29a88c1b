"""Command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from multinode_image.errors import Refusal
from multinode_image.tasks.command import DOCTOR, NETWORK, TASK, USAGE, Kind, read_command, read_options


def test_a_command_is_of_a_kind(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    kinds = {
        name: read_command([name], {}, lambda word, _: f"/bin/{word}").kind.name
        for name in ("smoke", "qa", "tasks", "worker", "launch", "prefetch", "bash", str(script))
    }
    assert list(kinds.values()) == ["smoke", "task", "tasks", "worker", "launch", "prefetch", "plain", "script"]
    assert read_command([], {}, lambda *_: None).kind == USAGE


@pytest.mark.parametrize(
    ("typed", "explain", "nproc", "command"),
    [
        ("qa --explain", None, None, "qa --explain"),
        ("--explain qa --nproc 2", "text", None, "qa --nproc 2"),
        ("--nproc=2 --explain=json x.py", "json", 2, "x.py"),
        ("--nproc 2 -- --explain x.py", None, 2, "--explain x.py"),
        ("--nproc 2 -h qa", None, None, "--help"),
    ],
)
def test_options_are_what_stands_before_the_command(
    typed: str, explain: str | None, nproc: int | None, command: str
) -> None:
    assert read_options(typed.split()) == ((explain, nproc), command.split())


@pytest.mark.parametrize(
    ("words", "kind", "trains"),
    [([], DOCTOR, False), (["--json"], DOCTOR, False), (["--network"], NETWORK, True), (["--help"], USAGE, False)],
)
def test_doctor_runs_as_ranks_where_the_network_is_measured(words: list[str], kind: Kind, trains: bool) -> None:
    found = read_command(["doctor", *words], {}, lambda *_: None)

    assert (found.kind, found.trains) == (kind, trains)


def test_every_script_of_the_examples_is_a_task(tmp_path: Path) -> None:
    for name in ("images/run_mae.py", "sound/run_speech_recognition_ctc.py", "text/run_qa_beam_search.py"):
        (tmp_path / "examples/pytorch" / name).parent.mkdir(parents=True)
        (tmp_path / "examples/pytorch" / name).touch()
    for name in ("mae", "speech-recognition-ctc", "qa-beam"):
        assert read_command([name, "--seed", "1"], {}, lambda *_: None, str(tmp_path)) == (TASK, name, ["--seed", "1"])
    with pytest.raises(Refusal):
        read_command(["mim"], {}, lambda *_: None, str(tmp_path))
