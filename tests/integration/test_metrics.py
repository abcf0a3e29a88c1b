"""A process beside a training that answers Prometheus, and is gone with it."""

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

BESIDE = """
import os, sys
from multinode_image.report import server
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
    port, history = find_port(), tmp_path / "mine/_multinode/history.jsonl"
    with training(port, tmp_path) as child:
        assert (ask(port).status_code, ask(port).text, ask(port, "/").status_code) == (200, "", 404)
        history.parent.mkdir(parents=True)
        history.write_text(json.dumps({"step": 7, "time": 1.0, "logged": {"loss": 0.5}}) + "\n")
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
