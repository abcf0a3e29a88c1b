"""What is passed on of a job's output, and what is a report."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.mpi import follow
from entrypoint.mpi.follow import (
    LOST,
    UNREACHED,
    conclude,
    note_failure,
    pass_errors,
    pass_on,
    read_killed,
    run_ranks,
    split_reports,
    verdict,
)
from entrypoint.mpi.rank import FAILED

REPORT = FAILED + b"1 node1 7\n"


@pytest.mark.parametrize(
    ("data", "text", "reports", "held"),
    [
        (b"plain\n", b"plain\n", [], b""),
        (b" 10%|#", b" 10%|#", [], b""),
        (b"last words\n" + REPORT, b"last words\n", [b"1 node1 7"], b""),
        (b"half a line" + REPORT + b"more", b"half a linemore", [b"1 node1 7"], b""),
        (REPORT + REPORT, b"", [b"1 node1 7"] * 2, b""),
        (b"words\n" + REPORT[:-3], b"words\n", [], REPORT[:-3]),
        (b"words\n" + FAILED[:4], b"words\n", [], FAILED[:4]),
        (b"a\0b", b"a\0b", [], b""),
        (FAILED + b"x" * 5000, FAILED + b"x" * 5000, [], b""),
    ],
)
def test_reports_are_split_off(data: bytes, text: bytes, reports: list[bytes], held: bytes) -> None:
    assert split_reports(data) == (text, reports, held)


@given(st.lists(st.sampled_from([b"a", b"\n", b"\0", FAILED[:3], REPORT])), st.integers(1, 7))
def test_cuts_change_nothing(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    text, held = b"", b""
    reports: list[bytes] = []
    for start in range(0, len(data), size):
        more, found, held = split_reports(held + data[start : start + size])
        text, reports = text + more, reports + found
    at_once = split_reports(data)
    assert (text + held, reports) == (at_once[0] + at_once[2], at_once[1])


@pytest.mark.parametrize(("path", "muted"), [("/dev/null", []), ("/dev/full", [1])])
def test_ranks_never_wait_for_a_reader_who_is_gone(
    monkeypatch: pytest.MonkeyPatch, path: str, muted: list[int]
) -> None:
    numbers: list[int] = []
    monkeypatch.setattr(follow, "mute", lambda _, number: numbers.append(number))
    with io.TextIOWrapper(io.FileIO(path, "w")) as stream:
        pass_on(b"words\n", stream, 1)
    pass_on(b"words\n", None, 2)
    assert numbers == muted


def test_the_banner_is_shortened() -> None:
    lines = ["", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "RANK 1 PID 9 RUNNING AT b", ""]
    assert verdict(lines) == ": rank 1 pid 9 running at b"


def write_banner(rank: int, host: str, *words: str) -> list[str]:
    """Return what Intel MPI prints of a process that was killed, as `pass_output` keeps it."""
    named = f"RANK {rank} PID 64 RUNNING AT {host}"
    return ["", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", named, *words, ""]


KILLED = "KILLED BY SIGNAL: 9 (Killed)"


@pytest.mark.parametrize(
    ("banner", "killed"),
    [
        ([], []),
        (write_banner(1, "node1", KILLED), [("1", "node1", 9)]),
        ([*write_banner(0, "a", KILLED), *write_banner(2, "b", KILLED)], [("0", "a", 9), ("2", "b", 9)]),
        (write_banner(1, "node1", "KILLED BY SIGNAL: 15 (Terminated)"), []),  # by this process
        (write_banner(1, "node1", "EXIT CODE: 9"), []),
        (write_banner(1, "node1"), []),
        (["RANK", KILLED], []),
        (write_banner(1, "node1", "KILLED BY SIGNAL: 900"), []),
        ([KILLED, "KILLED BY SIGNAL: ", "KILLED BY SIGNAL: x"], []),
    ],
)
def test_the_banner_names_ranks_that_were_killed(banner: list[str], killed: list[tuple[str, str, int]]) -> None:
    assert read_killed(banner) == killed


@pytest.mark.parametrize(
    ("hydras", "reported", "code", "named"),
    [
        (255, [], 137, True),
        (255, [1], 137, True),  # a rank that has lost the one that was killed
        (255, [143], 143, False),  # this process was stopped, and with it the ranks
        (0, [], 0, False),  # a rank has printed what looks like it
    ],
)
def test_a_rank_that_was_killed_is_named(
    hydras: int,
    reported: list[int],
    code: int,
    named: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [f"=   {line}\n".encode() for line in write_banner(1, "node1", KILLED)]
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: Hydra(hydras, lines))
    monkeypatch.setattr(follow, "heed_signals", lambda _, codes: codes.extend(reported))

    assert run_ranks(["mpiexec.hydra"], {}) == code

    said = capsys.readouterr().err
    assert ("rank 1 on node1 was killed by signal 9, and could not report it" in said) == named
    assert "hydra has lost a node" not in said


SAID = b"[mpiexec@v0] " + UNREACHED + b"\n"


@pytest.mark.parametrize(
    ("parts", "fact"),
    [
        ([SAID], "a node does not reach another"),
        ([SAID[:30], SAID[30:]], "a node does not reach another"),
        ([b"[mpiexec@v0] Downstream from host node1 exited\n"], "hydra has lost a node"),
        ([], "hydra has lost a node"),
    ],
)
def test_a_node_that_was_never_reached_is_not_lost(
    parts: list[bytes], fact: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chunks = [*parts, b""]
    monkeypatch.setattr(os, "read", lambda *_: chunks.pop(0))
    banner: list[str] = []

    with Path(os.devnull).open("rb") as stream:
        pass_errors(stream, [], banner)

    assert conclude(255, [], banner) == 1
    assert fact in capsys.readouterr().err


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        (b"1 node1 7", [7]),
        (b"1 node1", []),
        (b"1 node1 x", []),
        (b"", []),
        (b"\xff \xff \xff 7", []),
    ],
)
def test_what_a_rank_prints_is_no_report_of_ours(
    monkeypatch: pytest.MonkeyPatch, facts: bytes, codes: list[int]
) -> None:
    monkeypatch.setattr("signal.setitimer", lambda *_: None)
    found: list[int] = []
    note_failure(facts, found)
    assert found == codes


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (7, "ended with exit code 7"),
        (137, "was killed by signal 9"),
        (138, "ended with exit code 138"),  # refused, with the code that says: try again
        (200, "ended with exit code 200"),
        (255, "ended with exit code 255"),  # sys.exit(-1)
    ],
)
def test_an_exit_code_is_called_a_signal_where_it_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int, how: str
) -> None:
    monkeypatch.setattr("signal.setitimer", lambda *_: None)

    note_failure(b"1 node1 %d" % code, [])

    assert f"rank 1 on node1 {how}; the job is ended" in capsys.readouterr().err


class Hydra:
    """A hydra that has ended; without a word, or with a banner."""

    stderr = None

    def __init__(self, code: int, stdout: Sequence[bytes] = ()) -> None:
        self.code = code
        self.stdout = stdout

    def __enter__(self) -> Hydra:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self) -> int:
        return self.code


@pytest.mark.parametrize(
    ("hydras", "reported", "code"),
    [
        (0, [], 0),
        (7, [], 7),
        (255, [], 1),
        (255, [7], 7),
        (-13, [], 1),
        (256, [], 1),
        (-9, [], 137),
        (-200, [], 1),
        (1, [143, 9], 143),
        (1, [1, 137], 137),  # the first has lost the one that was killed
        (1, [138, 143, 137, 1], 137),
        (1, [143, 137], 143),  # this process was stopped, and with it the ranks
        (0, [300], 1),
    ],
)
def test_the_exit_code_of_a_job_is_one_that_a_shell_can_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hydras: int, reported: list[int], code: int
) -> None:
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: Hydra(hydras))
    monkeypatch.setattr(follow, "heed_signals", lambda _, codes: codes.extend(reported))

    assert run_ranks(["mpiexec.hydra"], {}) == code
    assert ("start `worker` again" in capsys.readouterr().err) is (hydras in LOST and not reported)
