"""Wait until ssh reaches every host of a job."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.printing.streams import print_note
from multinode_image.timeouts import VARIABLE

# Between two tries of a host that does not answer yet.
PAUSE = 0.5
# The seconds that pass before anything is printed.
SILENCE = 2.0
# The seconds of one login at most: Python takes no more than some weeks.
LONGEST = 86400.0
UNTRIED, SILENT = "no answer yet", "ssh does not answer"


class Access(NamedTuple):
    """How to reach hosts: ssh's configuration, port and environment, and the deadline (time.monotonic)."""

    config: str
    port: int
    environ: Mapping[str, str]
    deadline: float


def wait_for_hosts(hosts: list[str], access: Access, timeout: float) -> None:
    """Try all hosts at once until each answers; raise Refusal with those that do not."""
    faults = dict.fromkeys(hosts, UNTRIED)
    threads = [threading.Thread(target=try_host, args=(host, access, faults), daemon=True) for host in hosts]
    for thread in threads:
        thread.start()
    silent = list_silent(faults, threads, min(time.monotonic() + SILENCE, access.deadline))
    if silent:
        print_note(f"waiting for {silent}")
        silent = list_silent(faults, threads, access.deadline + 0.1)
    if silent:
        how = f"with the same key and the same --user, reachable on port {access.port}"
        remedy = f"start `worker` there {how}, or wait longer: --timeout S, or {VARIABLE}=S"
        raise Refusal(f"not every host answered within {timeout:g} s", silent, remedy, EXIT_OUTSIDE)


def list_silent(faults: Mapping[str, str], threads: list[threading.Thread], until: float) -> str:
    """Wait for all hosts up to a time, and list those that do not answer, each with the reason."""
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return ", ".join(f"{host} ({fault})" for host, fault in faults.items() if fault)


def try_host(host: str, access: Access, faults: dict[str, str]) -> None:
    """Try one host until it answers, and keep why it does not; empty once it does."""
    while faults[host] and time.monotonic() < access.deadline:
        fault = try_ssh(host, access)
        # The deadline cuts the last try short; what an earlier one said is worth more.
        if fault != SILENT or faults[host] == UNTRIED:
            faults[host] = fault
        if fault:
            time.sleep(PAUSE)


def try_ssh(host: str, access: Access) -> str:
    """Return why a login fails, in ssh's own words; empty if it does not."""
    left = min(LONGEST, max(0.5, access.deadline - time.monotonic()))
    try:
        done = subprocess.run(
            ["ssh", "-F", access.config, host, "true"],
            env=dict(access.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=left,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return SILENT
    if not done.returncode:
        return ""
    said = done.stderr.strip() or done.stdout.strip()  # a shell that runs no command says so on stdout
    return said.splitlines()[-1] if said else f"exit code {done.returncode}"
