"""The part `start`: what the entrypoint adds to a command, and the way to the first step of a training."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence

from benchmarks.figures import Figures
from benchmarks.host.commands import begin, call, end
from benchmarks.host.scratch import Scratch
from benchmarks.sides import dockerfile
from benchmarks.sides.dockerfile import Debian
from benchmarks.sides.multinode import Multinode, choose_releases
from images.host.errors import WorldFault

RUNS = 7
DONE = "smoke: first step done"
MOST = 300.0  # seconds

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


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Build three images with the same packages and start each of them in turn."""
    multinode, release = Multinode(scratch.directory, shared=True), choose_releases()[0]
    with_bytecode, without, expert = map(scratch.image, ("bytecode", "plain", "expert"))
    scratch.say("images: with bytecode, without, the Dockerfile's")
    multinode.run("--bytecode", "--tag", with_bytecode)
    multinode.run("--no-bytecode", "--tag", without)
    multinode.build(release)
    place = dockerfile.prepare(scratch, multinode, release)
    Debian(dockerfile.EXPERT, place, scratch.image("base"), scratch.label, "--compile").build(expert)
    scratch.say("true, with the entrypoint and without")
    measure_entrypoint(scratch, figures, with_bytecode, 4 * runs + 3)
    images = {"with bytecode": with_bytecode, "without bytecode": without, "expert": expert}
    for number in scratch.rounds(runs + 1):
        scratch.say(f"first step, {number} of {runs}")
        for name, image in images.items():
            seconds = start_training(scratch, image, "" if name != "expert" else "python3")
            if number:  # what the first run reads from the disk, the others find in memory
                figures.add(f"step {name}", seconds)


def measure_entrypoint(scratch: Scratch, figures: Figures, image: str, runs: int) -> None:
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


def start_training(scratch: Scratch, image: str, entrypoint: str) -> float:
    """Start `smoke` and return when its first step was done; entrypoint: another than the image's, for its script."""
    name = f"{scratch.name}-{time.monotonic_ns()}"
    command = ["docker", "run", "--name", name, "--label", scratch.label, "--network", "none", "--shm-size", "1g"]
    command += ["--entrypoint", entrypoint, image, "/opt/multinode/smoke.py"] if entrypoint else [image, "smoke"]
    try:
        return await_step([*command, "--bf16"])
    finally:
        call(["docker", "rm", "--force", "--volumes", name], seconds=60)


def await_step(command: Sequence[str]) -> float:
    """Run a command until it says that the first step is done; return the seconds until then."""
    began, lines = time.monotonic(), list[str]()
    child = begin(command)
    timer = threading.Timer(MOST, end, [child])
    timer.start()
    try:
        for line in child.stderr or ():
            lines.append(line)
            if DONE in line:
                return time.monotonic() - began
    finally:
        timer.cancel()
        end(child)
        for pipe in (child.stdout, child.stderr):
            if pipe:
                pipe.close()
    raise WorldFault("a training did not start", "".join(lines)[-500:], "run it by hand: docker run IMAGE smoke")
