"""Two containers on a network of their own, whose packets can be dropped: each runs the image as a user starts it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.cluster.nodes import HAS_STEPS
from tests.support.containers import Container, Started
from tests.support.harness import Done, call, env_options, wait_for

# Found in every container's network; -w waits for the lock of another call.
DROP = ("iptables", "-w", "-A", "INPUT", "-i", "eth0", "-j", "DROP")
PASS = ("iptables", "-w", "-F", "INPUT")


@dataclass
class Pair:
    """A network, and the containers that were started there by host name."""

    image: str
    name: str
    started: dict[str, Started] = field(default_factory=dict)

    def start(self, host: str, *command: str, environ: Mapping[str, str], options: Sequence[str] = ()) -> Started:
        """Start a container; a rank's core is shared with nobody of the pair."""
        words = ["docker", "run", "--name", f"{self.name}-{host}", "--hostname", host, "--network-alias", host]
        words += ["--network", self.name, "--cpuset-cpus", host[-1], *HAS_STEPS, *options]
        words += env_options(environ)
        self.started[host] = Started([*words, self.image, *command])
        return self.started[host]

    def both(self, *command: str, environ: Sequence[Mapping[str, str]]) -> list[Started]:
        """Start a command on two hosts."""
        return [self.start(f"pod{number}", *command, environ=variables) for number, variables in enumerate(environ)]

    def drop(self) -> None:
        """Drop every packet that comes to a container: nobody is told, as when a cable is pulled."""
        self._each(DROP)

    def let_pass(self) -> None:
        """Let packets pass again."""
        self._each(PASS)

    def _each(self, command: Sequence[str]) -> None:
        for host in self.started:
            Container(f"{self.name}-{host}").change_network(*command)

    def address(self, host: str) -> str:
        """Return the address of a container."""
        return Container(f"{self.name}-{host}").inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")

    def enough(self) -> None:
        """Let the ranks of steps.py end."""
        assert call(["docker", "exec", f"{self.name}-pod0", "touch", "/tmp/enough"]).code == 0

    def has_begun(self) -> bool:
        """Wait until the ranks have done some steps together."""
        return self.goes_on(5, 120)

    def goes_on(self, steps: int, seconds: float) -> bool:
        """Wait until the ranks have done some more steps."""
        wanted = self.count() + steps
        return wait_for(lambda: self.count() >= wanted, seconds)

    def count(self) -> int:
        """Count the steps so far."""
        return len(re.findall(r"(?m)^step \d+$", "".join(pod.text for pod in self.started.values())))

    def ends(self, seconds: float) -> list[Done]:
        """Wait for the ends of all, in the order of their hosts."""
        return [self.started[host].finish(seconds) for host in sorted(self.started)]

    def remove(self) -> None:
        """Remove everything."""
        for host in self.started:
            call(["docker", "rm", "--force", f"{self.name}-{host}"])
        for pod in self.started.values():
            pod.end()


def both(ends: Sequence[Done]) -> Done:
    """Return the ends of containers that have the same exit code as one."""
    assert len({end.code for end in ends}) == 1
    return Done(ends[0].code, "".join(end.text for end in ends), "")
