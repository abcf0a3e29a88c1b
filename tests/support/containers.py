"""Containers in the background, networks for them, and commands that go on; all are gone in the end."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.harness import Done, call, new_name

GRACE = 30  # seconds: terminationGracePeriodSeconds of a pod that says nothing else


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


@dataclass(frozen=True)
class Container:
    """A container whose main process is the entrypoint, as a user or Kubernetes starts it."""

    name: str

    def stop(self) -> bool:
        """Send SIGTERM and wait for the end; answer whether it came before SIGKILL, as soon as Kubernetes wants it."""
        began = time.monotonic()
        assert call(["docker", "stop", "--time", str(GRACE), self.name], seconds=GRACE + 60).code == 0
        return time.monotonic() - began < GRACE

    def signal(self, name: str) -> None:
        """Send a signal to its main process."""
        assert call(["docker", "kill", "--signal", name, self.name]).code == 0

    def said(self, text: str, seconds: float = 90) -> bool:
        """Wait until it says something."""
        child = self.follow()
        try:
            return child.said(text, seconds)
        finally:
            child.end()

    @property
    def log(self) -> str:
        """Return what it has said so far."""
        return call(["docker", "logs", self.name]).text

    def done(self, seconds: float = 180) -> Done:
        """Wait for its end; return its exit code and all that it said."""
        return Done(self.code(seconds), self.log, "")

    def code(self, seconds: float = 180) -> int:
        """Wait for its end and answer its exit code."""
        return int(call(["docker", "wait", self.name], seconds=seconds).out)

    def follow(self) -> Started:
        """Read its log from the beginning and go on."""
        return Started(["docker", "logs", "--follow", self.name])

    def inspect(self, form: str) -> str:
        """Return what the engine knows of it."""
        return call(["docker", "inspect", "--format", form, self.name]).out.strip()

    @property
    def process(self) -> str:
        """Return the number of its main process on this machine."""
        number = self.inspect("{{.State.Pid}}")
        assert int(number)  # 0 is this very machine
        return number

    def change_network(self, *command: str) -> None:
        """Run a command of this machine in its network."""
        assert call(["nsenter", "--target", self.process, "--net", *command]).code == 0

    def shell(self, script: str, seconds: float = 90) -> Done:
        """Run a line of shell in it."""
        return call(["docker", "exec", self.name, "bash", "-c", script], seconds=seconds)


@contextmanager
def detached(*words: str, name: str = "", network: str = "none") -> Iterator[Container]:
    """Start a container by what follows `docker run --detach`; its log is shown when the test fails."""
    container = Container(name or new_name())
    try:
        assert call(["docker", "run", "--detach", "--name", container.name, "--network", network, *words]).code == 0
        yield container
    finally:
        call(["docker", "logs", container.name])
        call(["docker", "rm", "--force", "--volumes", container.name])


@contextmanager
def network(*options: str, name: str = "") -> Iterator[str]:
    """Make a network of Docker's and yield its name."""
    name = name or new_name()
    try:
        assert call(["docker", "network", "create", *options, name]).code == 0
        yield name
    finally:
        call(["docker", "network", "rm", name])


@contextmanager
def own_names(*names: str) -> Iterator[Callable[[str], str]]:
    """Yield what gives names of a page an ending that nothing else has, and remove what has such a name in the end."""
    ending, known = f"-{new_name()}", re.compile(rf"\b({'|'.join(names)})\b(?!/)")
    try:
        yield lambda text: known.sub(rf"\g<1>{ending}", text)
    finally:
        for kind in (("rm", "--force"), ("network", "rm"), ("volume", "rm", "--force")):
            call(["docker", *kind, *(f"{name}{ending}" for name in names)])


def gateway(network: str) -> str:
    """Return the address that this machine has in a network."""
    form = "{{(index .IPAM.Config 0).Gateway}}"
    return call(["docker", "network", "inspect", "--format", form, network]).out.strip()
