"""What the entrypoint adds to the start of a command: in a running container, and to a container's whole life."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.commands import build_py, call, machine

IMAGE = "multinode-benchmark-start:latest"
ENTRYPOINT = ["python3", "-I", "-S", "/opt/multinode"]
# What is started in the container, by turns: `true`, Python itself, and `true` through the entrypoint.
COMMANDS = {"bypassed": ["true"], "python": [*ENTRYPOINT[:3], "-c", "pass"], "ours": [*ENTRYPOINT, "true"]}
LOOP = """\
import json, os, sys, time

commands, runs = json.loads(sys.argv[1]), int(sys.argv[2])
quiet = [(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)]
took = {f"{name}{kind}": [] for name in commands for kind in ("", " processor")}
for _ in range(runs + 1):
    for name, command in commands.items():
        began = time.perf_counter()
        child = os.posix_spawnp(command[0], command, os.environ, file_actions=quiet)
        _, status, used = os.wait4(child, 0)
        assert status == 0, command
        took[name].append(time.perf_counter() - began)
        took[f"{name} processor"].append(used.ru_utime + used.ru_stime)
print(json.dumps({name: each[1:] for name, each in took.items()}))
"""


def measure(runs: int) -> dict[str, Any]:
    """Start the same command through the entrypoint and without it, in turn; the first of each is not counted.

    On a busy machine only the processor time says something of the entrypoint.
    """
    call(build_py("--examples", "none", "--tag", IMAGE))
    plain = ["docker", "run", "--rm", "--network", "none"]
    inside = json.loads(
        call([*plain, "--entrypoint", "python3", IMAGE, "-I", "-S", "-c", LOOP, json.dumps(COMMANDS), str(runs)])
    )
    containers: dict[str, list[float]] = {"container bypassed": [], "container ours": []}
    for _ in range(runs + 1):
        for name, command in (("bypassed", ["--entrypoint", "true", IMAGE]), ("ours", [IMAGE, "true"])):
            began = time.perf_counter()
            call([*plain, *command])
            containers[f"container {name}"].append(time.perf_counter() - began)
    call(["docker", "rmi", IMAGE])
    return {"machine": machine("docker"), "runs": {**inside, **{name: each[1:] for name, each in containers.items()}}}


def table(result: Mapping[str, Any]) -> str:
    """Return medians, what the entrypoint adds, and the ratio as a table in Markdown."""
    medians = {name: statistics.median(each) * 1000 for name, each in result["runs"].items()}
    rows = [
        ("`true` in a running container", "ours", "bypassed"),
        ("the same, in processor time", "ours processor", "bypassed processor"),
        ("the same, against an empty Python", "ours processor", "python processor"),
        ("`docker run IMAGE true`, to its end", "container ours", "container bypassed"),
    ]
    lines = ["| | with the entrypoint | without | added | ratio |", "|---|---|---|---|---|"]
    for title, name, other in rows:
        pair = medians[name], medians[other]
        lines.append(
            f"| {title} | {pair[0]:.1f} ms | {pair[1]:.1f} ms | {pair[0] - pair[1]:.1f} ms | {pair[0] / pair[1]:.2f} |"
        )
    count = len(result["runs"]["ours"])
    return "\n".join([*lines, "", f"Medians of {count} alternating runs; {result['machine']}."])
