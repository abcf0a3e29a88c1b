"""What a rank leaves: a file of what it says, numbers for Prometheus, and how it ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.support.harness import ROOT, wait_for

RANK = """
import os, sys
from multinode_image.processes import run_logged
from multinode_image.world.table import detect
sys.exit(run_logged(["sh", "-c", sys.argv[1]], os.environ, detect(os.environ)))
"""
PLACE = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def start(script: str, logs: Path, *, rank: int, program: str = RANK) -> subprocess.Popen[str]:
    """Start a shell as a rank of the second node of two, as torchrun does."""
    numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank - 2), "GROUP_RANK": "1", "TORCHELASTIC_RUN_ID": "x"}
    environ = {**os.environ, **PLACE, **numbers, "MULTINODE_LOGS": str(logs)}
    argv = [sys.executable, "-c", program, script]
    piped = subprocess.PIPE
    return subprocess.Popen(argv, cwd=ROOT, env=environ, stdout=piped, stderr=piped, text=True, start_new_session=True)


def finish(script: str, logs: Path, *, rank: int) -> tuple[int, str, str]:
    """Return its exit code, or minus the signal that has ended it, and what it has shown."""
    started = start(script, logs, rank=rank)
    out, err = started.communicate(timeout=30)
    return started.returncode, out, err


SAYS = "echo one; echo two >&2; "


@pytest.mark.parametrize(("ends", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9), ("kill -TERM $$", -15)])
@pytest.mark.parametrize("rank", [2, 3])
def test_a_rank_has_a_file_and_ends_as_ever(tmp_path: Path, ends: str, code: int, rank: int) -> None:
    done = finish(SAYS + ends, tmp_path / "new/logs", rank=rank)

    assert done == ((code, "one\n", "two\n") if rank == 2 else (code, "", ""))
    assert sorted((tmp_path / f"new/logs/rank-{rank}.log").read_text().split()) == ["one", "two"]
    assert [path.name for path in (tmp_path / "new/logs").iterdir()] == [f"rank-{rank}.log"]


def test_a_rank_that_is_started_again_adds_to_its_file(tmp_path: Path) -> None:
    for rank in (2, 2, 3, 3):
        finish("echo $RANK", tmp_path, rank=rank)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "rank-2.log": "2\n2\n",
        "rank-3.log": "3\n3\n",
    }


@pytest.mark.parametrize("rank", [2, 3])
def test_what_a_rank_says_after_a_signal_to_its_group_is_kept(tmp_path: Path, rank: int) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while true; do sleep 0.1; done"
    started, log = start(script, tmp_path, rank=rank), tmp_path / f"rank-{rank}.log"
    if rank == 2:
        assert started.stdout and started.stdout.readline() == "ready\n"
    while not (log.exists() and log.read_text()):
        assert started.poll() is None

    os.killpg(started.pid, signal.SIGTERM)
    out, _ = started.communicate(timeout=30)

    assert started.returncode == 0 and {"ready", "saved"} <= {*log.read_text().split()}
    assert {*out.split()} == ({"saved"} if rank == 2 else set())  # twice where both hear of it, the rank and its parent


def test_a_process_that_outlives_its_rank_is_not_waited_for(tmp_path: Path) -> None:
    program = f"from multinode_image import processes as logs\nlogs.DRAIN = 0.5\n{RANK}"
    started = start("sleep 8 & echo one", tmp_path, rank=2, program=program)

    assert started.wait(6) == 0 and (tmp_path / "rank-2.log").read_text() == "one\n"
    started.communicate(timeout=30)


BESIDE = """
import os, sys
from multinode_image.report import metrics as server
server.PATIENCE = 1
server.serve_beside(int(sys.argv[1]), sys.argv[2])
os.execvp("sh", ["sh", "-c", "echo trains; read end"])
"""


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def training(port: int, results: Path) -> Iterator[subprocess.Popen[str]]:
    """Start what becomes another program, as a start does."""
    argv, piped = [sys.executable, "-c", BESIDE, str(port), str(results)], subprocess.PIPE
    child = subprocess.Popen(argv, cwd=ROOT, stdin=piped, stdout=piped, stderr=piped, text=True, start_new_session=True)
    try:
        assert child.stdout and child.stdout.readline() == "trains\n"
        yield child
    finally:
        child.kill()
        child.communicate(timeout=30)  # which waits for whoever has its streams


def ask(port: int, path: str = "/metrics") -> requests.Response:
    return requests.get(f"http://127.0.0.1:{port}{path}", timeout=10)


def is_gone(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def test_it_answers_from_what_is_there_by_then_and_ends_with_the_training(tmp_path: Path) -> None:
    port, state = find_port(), tmp_path / "mine/_multinode/trainer_state.json"
    with training(port, tmp_path) as child:
        assert (ask(port).status_code, ask(port).text, ask(port, "/").status_code) == (200, "", 404)
        state.parent.mkdir(parents=True)
        state.write_text(json.dumps({"global_step": 7, "log_history": [{"step": 7, "loss": 0.5}]}))
        assert "multinode_training_step 7\n" in ask(port).text
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
        assert not children.exists() or children.read_text() == ""  # torchrun's agent is asked for its ranks there
        os.killpg(child.pid, signal.SIGTERM)
        child.wait(30)

    assert wait_for(lambda: is_gone(port), 10)


def test_a_training_goes_on_without_a_port(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken, training(taken.getsockname()[1], tmp_path) as child:
        child.kill()
        _, err = child.communicate(timeout=30)

    assert "no metrics: port" in err


@pytest.mark.parametrize("sent", [b"", b"GET"])
def test_a_client_that_says_nothing_holds_up_nobody_for_long(tmp_path: Path, sent: bytes) -> None:
    port = find_port()
    with training(port, tmp_path), socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(sent)

        assert ask(port).status_code == 200


SUPERVISE = """
import os, sys
from multinode_image.mpi.rank import supervise
sys.exit(supervise(["sh", "-c", sys.argv[1]], {**os.environ, "MULTINODE_SUPERVISED": "1"}, 3))
"""


def supervise(script: str, *, stop: bool = False) -> tuple[int, str, bytes]:
    """Run a shell as rank 3, below a stand-in for hydra; return the exit code, its stderr, and what hydra was told."""
    told, end = os.pipe()
    argv = [sys.executable, "-c", SUPERVISE, script]
    environ = {**os.environ, "PMI_RANK": "3", "PMI_FD": str(end)}
    rank = subprocess.Popen(argv, cwd=ROOT, env=environ, pass_fds=[end], stderr=subprocess.PIPE, text=True)
    os.close(end)
    if stop:
        assert rank.stderr and rank.stderr.readline() == "ready\n"
        rank.terminate()
    _, err = rank.communicate(timeout=30)
    return rank.returncode, err, take(told)


def take(end: int) -> bytes:
    """Return what was written into a pipe, and close it."""
    said = os.read(end, 1000)
    os.close(end)
    return said


@pytest.mark.parametrize(
    ("script", "code", "how", "told"),
    [
        ("exit 0", 0, "", b""),
        ("exit 7", 7, "ended with exit code 7", b"cmd=abort exitcode=7\n"),
        ("exit 255", 255, "ended with exit code 255", b"cmd=abort exitcode=1\n"),  # hydra's for a node that is lost
        ("kill -9 $$", 137, "was killed by signal 9", b"cmd=abort exitcode=137\n"),
        ('test -z "$MULTINODE_SUPERVISED"', 0, "", b""),  # what the rank starts is not supervised
    ],
)
def test_a_rank_that_fails_is_named_and_ends_the_job(script: str, code: int, how: str, told: bytes) -> None:
    ended, err, said = supervise(script)
    assert (ended, said) == (code, told)
    assert ("multinode: rank 3 on" in err and f"{how}; the job is ended" in err) == bool(code)


def test_a_rank_that_is_stopped_says_nothing() -> None:
    code, err, told = supervise("echo ready >&2; exec sleep 30", stop=True)
    assert (code, err, told) == (143, "", b"cmd=abort exitcode=143\n")
