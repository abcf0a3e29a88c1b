"""Two nodes and what runs on them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.containers import Started, detached, network
from tests.support.harness import ENTRYPOINT, Done, call, env_options, wait_for

# Where meet.py is in a container, and the options with which it is there.
MEET = "/opt/meet.py"
MEETS = ("--volume", f"{Path(__file__).with_name('meet.py')}:{MEET}:ro")
# The same for steps.py, whose ranks reduce a number again and again: they start in a third of the time of smoke.
STEPS = "/opt/steps.py"
HAS_STEPS = ("--volume", f"{Path(__file__).with_name('steps.py')}:{STEPS}:ro")
# A directory that both nodes have, with train.py, which saves every other of its eight steps, and may die at one.
SHARED = "/shared"
PLAIN = (f"{SHARED}/train.py", "--max_steps", "8", "--save_steps", "2", "--output_dir")
# Said by rank 0 when the gradients of all ranks have met.
TRAINS = "smoke: first step done"
WORKERS = tuple(f"transformers-pytorchjob-worker-{number}" for number in (0, 1))
NEWEST = "pid=$(pgrep -n -f '(multinode/[s]moke|/[s]teps).py')"
KILL_A_RANK = f"{NEWEST} && kill -9 $pid"
# The process that waits for a rank, with which the rank ends.
KILL_A_SUPERVISOR = f"{NEWEST} && kill -9 $(ps -o ppid= -p $pid)"
# No rank is left, and no process that nobody has waited for.
UNTIL_CLEAN = (
    f"while {NEWEST} || grep -qs '^State:.Z' /proc/[0-9]*/status; do [ $SECONDS -lt 60 ] || exit 1; sleep 0.2; done"
)


def fixed(number: int, **more: str) -> dict[str, str]:
    """Return the variables of one of two nodes with a master."""
    return {"PET_NNODES": "2", "PET_NODE_RANK": str(number), "PET_MASTER_ADDR": "pod0", **more}


def elastic(_: int, **more: str) -> dict[str, str]:
    """Return the variables of one of two nodes that meet at the first."""
    meeting = {"PET_RDZV_ENDPOINT": "pod0:23456", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": "job"}
    return {"PET_NNODES": "2:2", **meeting, **more}


# How a node, by its number, is told of the other one.
Told = Callable[..., dict[str, str]]


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
        return ["docker", "exec", *env_options(environ or {}), self.container, *ENTRYPOINT, *command]


def worlds(text: str) -> list[list[dict[str, str]]]:
    """Read who met in meet.py: one list for each world, in the order of the ranks."""
    return [json.loads(line) for line in re.findall(r"(?m)^met: (.*)$", text)]


def places(text: str) -> list[str]:
    """Read the ranks of the only world that met: the host of each, and its place there."""
    (world,) = worlds(text)
    return [f"{rank['host']} {rank['local']}" for rank in world]


def one_said(text: str, children: Sequence[Started], seconds: float = 180) -> bool:
    """Wait until any of them says something: which node has rank 0 is torchrun's choice."""
    return wait_for(lambda: any(text in child.text for child in children), seconds)


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
        more = {"PET_NPROC_PER_NODE": "auto", "PET_MAX_RESTARTS": "0"}
        return elastic(0, PET_RDZV_ENDPOINT=f"{self.nodes[0].host}:23456", **more)

    def start(self, number: int, *command: str, environ: dict[str, str] | None = None) -> Started:
        """Start a command on a node; it is ended with the test."""
        self.started.append(self.nodes[number].start(*command, environ=environ))
        return self.started[-1]

    def both(self, *command: str, environ: Sequence[dict[str, str]], seconds: float = 300) -> list[Done]:
        """Run one command on both nodes at once, each with variables of its own."""
        children = [self.start(number, *command, environ=variables) for number, variables in enumerate(environ)]
        return [child.finish(seconds) for child in children]

    def launch(self, *words: str) -> tuple[str, ...]:
        """Write `launch` with one rank on each node."""
        return ("launch", "--hosts", self.hosts, "-n", "2", "--ppn", "1", *words)


def type_mpirun(cluster: Cluster, export: str, command: str, environ: dict[str, str] | None = None) -> Done:
    """Type the guide's own command: hostfile, no word of ssh; hydra does not know its own address."""
    cluster.start(1, "worker")
    first, second = (node.host for node in cluster.nodes)
    script = (
        f"address=$(getent hosts {first} | cut -d' ' -f1); {export}\n"
        f'printf "$address\\n{second}\\n" > /tmp/hostfile\n'
        f"until multinode ssh {second} true 2> /dev/null; do sleep 0.2; done\n"
        f"mpirun -f /tmp/hostfile -n 2 -ppn 1 -genv OMP_NUM_THREADS=1 multinode {command}"
    )
    return cluster.nodes[0].run("bash", "-c", script, environ=environ)


def restart(cluster: Cluster) -> None:
    """Restart both nodes, so that nothing of an earlier test runs there."""
    assert call(["docker", "restart", "--time", "0", *(node.container for node in cluster.nodes)]).code == 0


@contextmanager
def two_pods(
    name: str, image: str, mounts: Mapping[Path, str], *options: str, hosts: tuple[str, str] | None = None
) -> Iterator[Cluster]:
    """Lend two containers on a network of their own.

    hosts: their names, and each has a core then; without, they are named as an operator names the pods of a job.
    """
    volumes = [word for place, inside in mounts.items() for word in ("--volume", f"{place}:{inside}:ro")]
    nodes = [Node((hosts or WORKERS)[number], f"{name}{number}") for number in (0, 1)]
    with ExitStack() as stack:
        stack.enter_context(network(name=name))
        for number, node in enumerate(nodes):
            words = ["--hostname", node.host, "--network-alias", node.host, *volumes, *options]
            words += ["--cpuset-cpus", str(number)] if hosts else []
            words += ["--entrypoint", "tini", image, "--", "sleep", "infinity"]
            stack.enter_context(detached(*words, name=node.container, network=name))
        cluster = Cluster(name, (nodes[0], nodes[1]))
        yield cluster
        for child in cluster.started:
            child.end()
