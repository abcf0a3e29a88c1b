"""What the entrypoint adds to the start of a command: in a running container, and to a container's whole life."""

from __future__ import annotations

import json
import time

from benchmarks.figures.measured import Figures
from benchmarks.host.commands import call
from benchmarks.host.scratch import Scratch

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


def measure(scratch: Scratch, figures: Figures, image: str, runs: int) -> None:
    """Start the same command through the entrypoint and without it, in turn; the first of each is not counted.

    On a busy machine only the processor time says something of the entrypoint.
    """
    plain = ["docker", "run", "--rm", "--label", scratch.label, "--network", "none"]
    loop = ["-I", "-S", "-c", LOOP, json.dumps(COMMANDS), str(runs)]
    inside = json.loads(call([*plain, "--entrypoint", "python3", image, *loop]))
    for name, values in inside.items():
        for value in values:
            figures.add(name, value)
    for with_it, without in zip(inside["ours"], inside["bypassed"], strict=True):
        figures.add("added", with_it - without)
    for number in range(runs + 1):
        for name, command in (("bypassed", ["--entrypoint", "true", image]), ("ours", [image, "true"])):
            began = time.perf_counter()
            call([*plain, *command])
            if number:
                figures.add(f"container {name}", time.perf_counter() - began)
