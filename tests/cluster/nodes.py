"""Two nodes and what runs on them."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.harness import ENTRYPOINT, Done, call

# Said by rank 0 when the gradients of all ranks have met.
TRAINS = "smoke: first step done"
WORKERS = tuple(f"transformers-pytorchjob-worker-{number}" for number in (0, 1))
NEWEST = "pid=$(pgrep -n -f 'multinode/[s]moke.py')"
GRACE = 30  # seconds: terminationGracePeriodSeconds of a pod that says nothing else
KILL_A_RANK = f"{NEWEST} && kill -9 $pid"
# The process that waits for a rank, with which the rank ends.
KILL_A_SUPERVISOR = f"{NEWEST} && kill -9 $(ps -o ppid= -p $pid)"
# No rank is left, and no process that nobody has waited for.
UNTIL_CLEAN = (
    f"while {NEWEST} || grep -qs '^State:.Z' /proc/[0-9]*/status; do [ $SECONDS -lt 60 ] || exit 1; sleep 0.2; done"
)


@dataclass(frozen=True)
class Node:
    """One container and its name on the network."""

    host: str
    container: str

    def run(self, *command: str, environ: dict[str, str] | None = None, seconds: float = 300) -> Done:
        """Run a command through the entrypoint, as `docker run` would."""
        return call(self.command(*command, environ=environ), seconds=seconds)

    def start(self, *command: str, environ: dict[str, str] | None = None) -> Started:
        """Start a command through the entrypoint and go on."""
        return Started(self.command(*command, environ=environ))

    def shell(self, script: str, seconds: float = 90) -> Done:
        """Run a line of shell beside the entrypoint."""
        return call(["docker", "exec", self.container, "bash", "-c", script], seconds=seconds)

    def command(self, *command: str, environ: dict[str, str] | None = None) -> list[str]:
        """Write the command line."""
        variables = [word for name, value in (environ or {}).items() for word in ("--env", f"{name}={value}")]
        return ["docker", "exec", *variables, self.container, *ENTRYPOINT, *command]


class Started:
    """A command that goes on; what it says is collected, and shown when the test fails."""

    def __init__(self, command: Sequence[str]) -> None:
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout
        for line in self._child.stdout:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()

    @property
    def text(self) -> str:
        """Give what it has said so far."""
        return "".join(self._lines)

    def said(self, text: str, seconds: float = 180) -> bool:
        """Wait until it says something."""
        with self._news:
            return self._news.wait_for(lambda: text in self.text, seconds)

    def finish(self, seconds: float = 300) -> Done:
        """Wait for its end."""
        try:
            code = self._child.wait(seconds)
        finally:
            print(f"+ {self._child.args!r}\n{self.text}[exit code {self._child.poll()}]")
        self._reader.join(10)
        return Done(code, self.text, "")

    def end(self) -> None:
        """End it if it still runs, and show what it said."""
        self._child.kill()
        self.finish(30)
        if self._child.stdout:
            self._child.stdout.close()


def worlds(text: str) -> list[list[dict[str, str]]]:
    """Read who met in meet.py: one list for each world, in the order of the ranks."""
    return [json.loads(line) for line in re.findall(r"(?m)^met: (.*)$", text)]


def places(text: str) -> list[str]:
    """Read the ranks of the only world that met: the host of each, and its place there."""
    (world,) = worlds(text)
    return [f"{rank['host']} {rank['local']}" for rank in world]


def one_said(text: str, children: Sequence[Started], seconds: float = 180) -> bool:
    """Wait until any of them says something: which node has rank 0 is torchrun's choice."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if any(child.said(text, 0.2) for child in children):
            return True
    return False


@dataclass
class Cluster:
    """Two nodes, the name of their network, and what was started on them."""

    network: str
    nodes: tuple[Node, Node]
    started: list[Started] = field(default_factory=list)

    @property
    def hosts(self) -> str:
        """Write the hosts as `launch --hosts` takes them."""
        return ",".join(node.host for node in self.nodes)

    @property
    def elastic(self) -> dict[str, str]:
        """Give the variables that an elastic PyTorchJob sets in both pods."""
        return {
            "PET_RDZV_ENDPOINT": f"{self.nodes[0].host}:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "2:2",
            "PET_NPROC_PER_NODE": "auto", "PET_RDZV_ID": "job", "PET_MAX_RESTARTS": "0",
        }  # fmt: skip

    def start(self, number: int, *command: str, environ: dict[str, str] | None = None) -> Started:
        """Start a command on a node; it is ended with the test."""
        self.started.append(self.nodes[number].start(*command, environ=environ))
        return self.started[-1]

    def both(self, *command: str, environ: Sequence[dict[str, str]], seconds: float = 300) -> list[Done]:
        """Run one command on both nodes at once, each with variables of its own."""
        children = [self.start(number, *command, environ=each) for number, each in enumerate(environ)]
        return [child.finish(seconds) for child in children]

    def launch(self, *words: str) -> tuple[str, ...]:
        """Write `launch` with one rank on each node."""
        return ("launch", "--hosts", self.hosts, "-n", "2", "--ppn", "1", *words)


@contextmanager
def two_pods(
    name: str, image: str, mounts: Mapping[Path, str], *options: str, hosts: tuple[str, str] | None = None
) -> Iterator[Cluster]:
    """Lend two containers on a network of their own.

    hosts: their names, and each has a core then; without, they are named as an operator names the pods of a job.
    """
    volumes = [word for place, inside in mounts.items() for word in ("--volume", f"{place}:{inside}:ro")]
    nodes = [Node((hosts or WORKERS)[number], f"{name}{number}") for number in (0, 1)]
    try:
        assert call(["docker", "network", "create", name]).code == 0
        for number, node in enumerate(nodes):
            start = ["docker", "run", "--detach", "--name", node.container, "--hostname", node.host, "--network", name]
            start += ["--network-alias", node.host, *volumes, *options]
            start += ["--cpuset-cpus", str(number)] if hosts else []
            assert call([*start, "--entrypoint", "tini", image, "--", "sleep", "infinity"]).code == 0
        cluster = Cluster(name, (nodes[0], nodes[1]))
        yield cluster
        for child in cluster.started:
            child.end()
    finally:
        call(["docker", "rm", "--force", *(node.container for node in nodes)])
        call(["docker", "network", "rm", name])


@dataclass(frozen=True)
class Container:
    """A container whose main process is the entrypoint, as a user or Kubernetes starts it."""

    name: str

    def stop(self) -> bool:
        """Send SIGTERM and wait for the end; answer whether it came before SIGKILL, as soon as Kubernetes wants it."""
        began = time.monotonic()
        assert call(["docker", "stop", "--time", str(GRACE), self.name], seconds=GRACE + 60).code == 0
        return time.monotonic() - began < GRACE

    def code(self, seconds: float = 180) -> int:
        """Wait for its end and answer its exit code."""
        return int(call(["docker", "wait", self.name], seconds=seconds).out)

    def follow(self) -> Started:
        """Read its log from the beginning and go on."""
        return Started(["docker", "logs", "--follow", self.name])

    def shell(self, script: str, seconds: float = 90) -> Done:
        """Run a line of shell in it."""
        return call(["docker", "exec", self.name, "bash", "-c", script], seconds=seconds)
