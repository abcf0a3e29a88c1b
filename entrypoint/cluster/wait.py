"""Wait until every host of a job answers: its name, its port, and ssh."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import WORLD, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

# Between two tries of a host that is not there yet.
PAUSE = 0.5
# So long we wait without a word.
SILENCE = 2.0
REFUSED, SILENT = "ssh is refused", "ssh does not answer"


class Door(NamedTuple):
    """How to knock: ssh's configuration, its port, its environment, and when to give up (time.monotonic)."""

    config: str
    port: int
    environ: Mapping[str, str]
    deadline: float


def wait_for(hosts: list[str], door: Door, timeout: float) -> None:
    """Knock on all doors at once, and name those which stay shut."""
    states = dict.fromkeys(hosts, "not tried")
    threads = [threading.Thread(target=knock, args=(host, door, states), daemon=True) for host in hosts]
    for thread in threads:
        thread.start()
    remind = threading.Timer(SILENCE, say, [states])
    remind.daemon = True
    remind.start()
    for thread in threads:
        thread.join(max(0.0, door.deadline - time.monotonic()) + 0.1)
    remind.cancel()
    shut = {host: state for host, state in states.items() if state}
    if shut:
        value = ", ".join(f"{host} ({state})" for host, state in shut.items())
        remedy = f"start `worker` there with the same key, reachable on port {door.port}, or wait longer: --timeout S"
        raise Refusal(f"not every host answered within {timeout:g} s", value, remedy, WORLD)


def say(states: dict[str, str]) -> None:
    """Tell people what is being waited for."""
    shut = ", ".join(f"{host} ({state})" for host, state in states.items() if state)
    if shut:
        print(f"multinode: waiting for {shut}", file=sys.stderr, flush=True)


def knock(host: str, door: Door, states: dict[str, str]) -> None:
    """Try one host until it answers; its state is empty then, and says before how far we came."""
    while states[host] and time.monotonic() < door.deadline:
        found = try_port(host, door) or try_ssh(host, door)
        # The deadline cuts the last try short; what an earlier one said is worth more.
        if found != SILENT or not states[host].startswith(REFUSED):
            states[host] = found
        if found:
            time.sleep(PAUSE)


def try_port(host: str, door: Door) -> str:
    """Look up a host and connect to it; an empty answer is a good one."""
    left = max(0.1, min(5.0, door.deadline - time.monotonic()))
    try:
        with socket.create_connection((host, door.port), timeout=left):
            return ""
    except socket.gaierror:
        return "the name does not resolve"
    except UnicodeError:
        return "this is not a name"
    except OSError as error:
        return (error.strerror or "no answer").lower()


def try_ssh(host: str, door: Door) -> str:
    """Log in once; a port may be open long before the server behind it is ours."""
    left = max(0.5, door.deadline - time.monotonic())
    try:
        done = subprocess.run(
            ["ssh", "-F", door.config, host, "true"],
            env=dict(door.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=left,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return SILENT
    return "" if done.returncode == 0 else f"{REFUSED}: {complaint(done.stderr, done.returncode)}"


def complaint(text: str, code: int) -> str:
    """Say why ssh gave up: its last line, but for the one that would not tell people what is wrong."""
    if "Host key verification failed" in text:
        return "the server there has not got our key, so it is another job's or a stranger"
    lines = text.strip().splitlines()
    return lines[-1] if lines else f"exit code {code}"
