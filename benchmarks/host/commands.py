"""Other programs, each bounded in time; a failure ends what was being measured."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from images.host.errors import UserFault, WorldFault

ROOT = Path(__file__).resolve().parents[2]
SLOW = 600.0  # seconds after which a command is taken for dead
PATIENCE = 15.0  # seconds that a command has to end by itself


def call(command: Sequence[str], env: Mapping[str, str] | None = None, seconds: float = SLOW) -> str:
    """Run a command and return what it printed on stdout.

    Raises WorldFault when it fails or takes longer than `seconds`, UserFault when there is no such program.
    """
    return finish(begin(command, env), command, seconds)


def begin(command: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a command in a session of its own, so that it ends with all that it started."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command, env=environment(env), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True,
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise UserFault("a program is missing", command[0], f"apt-get install {command[0]}") from error


def finish(child: subprocess.Popen[str], command: Sequence[str], seconds: float) -> str:
    """Wait for a command and return what it printed; whatever happens, nothing of it goes on."""
    try:
        out, said = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        remedy = "run it again on a machine with less other work"
        raise WorldFault(f"a command took longer than {seconds:.0f} s", _named(command), remedy) from error
    finally:
        end(child)
    if child.returncode:
        told = f"{_named(command)}: {said.strip()[-600:]}"
        raise WorldFault("a command failed", told, "correct that and run it again")
    return out


def end(child: subprocess.Popen[str]) -> None:
    """End a command that still runs, with all that it started; it may take back first what it mounted and wrote."""
    for number, patience in ((signal.SIGINT, PATIENCE), (signal.SIGKILL, SLOW)):
        if child.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(child.pid, number)
            child.wait(patience)


def build_py(*words: str) -> list[str]:
    """Return a command line of build.py."""
    return [sys.executable, str(ROOT / "build.py"), *words]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of every command.

    Python keeps the bytecode of build.py, as it does for a user: without, each command would compile it anew.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "DOCKER_BUILDKIT": "1", **(more or {})}


def _named(command: Sequence[str]) -> str:
    """Return the words by which a reader knows a command."""
    return " ".join(command[:4])
