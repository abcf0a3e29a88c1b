"""Two containers that stand for two nodes, up before a test and gone after it, whatever happens."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.harness import Done, call

COMPOSE = Path(__file__).with_name("compose.yaml")


@dataclass
class Node:
    """One container."""

    name: str

    def run(self, *command: str, environ: dict[str, str] | None = None, seconds: float = 120) -> Done:
        """Run a command through the entrypoint, as `docker run` would."""
        return call(self.command(*command, environ=environ), seconds=seconds)

    def start(self, *command: str, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command through the entrypoint and go on."""
        return subprocess.Popen(
            self.command(*command, environ=environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def shell(self, script: str) -> Done:
        """Run a line of shell beside the entrypoint."""
        return call(["docker", "exec", self.name, "bash", "-c", script], seconds=60)

    def command(self, *command: str, environ: dict[str, str] | None = None) -> list[str]:
        """Write the command line."""
        variables = [word for name, value in (environ or {}).items() for word in ("--env", f"{name}={value}")]
        return ["docker", "exec", *variables, self.name, "python3", "-I", "-S", "/opt/multinode", *command]


@dataclass
class Cluster:
    """Two nodes, and what was started on them."""

    nodes: tuple[Node, Node]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def both(self, *command: str, environ: Sequence[dict[str, str]], seconds: float = 150) -> list[Done]:
        """Run one command on both nodes at once, each with variables of its own."""
        children = [n.start(*command, environ=e) for n, e in zip(self.nodes, environ, strict=True)]
        self.started += children
        return [finish(child, seconds) for child in children]

    def worker(self) -> None:
        """Start `worker` on the second node; it is `launch` that waits for it."""
        self.started.append(self.nodes[1].start("worker"))


def finish(child: subprocess.Popen[str], seconds: float) -> Done:
    """Wait for the end of a started command; what it said is shown when the test fails."""
    timer = threading.Timer(seconds, child.kill)
    timer.start()
    try:
        out, _ = child.communicate()
    finally:
        timer.cancel()
    print(f"+ {child.args!r}\n{out}[exit code {child.returncode}]")
    return Done(child.returncode, out, "")


@pytest.fixture(params=["123456:0"])
def user(request: pytest.FixtureRequest) -> str:
    """Name the user of both containers: one that no file knows, with nothing allowed."""
    return str(request.param)


@pytest.fixture(params=[0o644])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Make a key, with the mode that a Secret has."""
    folder = tmp_path / "keys"
    folder.mkdir()
    call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id_ed25519")])
    (folder / "id_ed25519").chmod(request.param)
    return folder


@pytest.fixture
def cluster(image: str, user: str, keys: Path) -> Iterator[Cluster]:
    """Bring two nodes up; show their logs and take them down in the end."""
    project = f"multinode{os.getpid()}"
    environ = {
        **os.environ,
        "MULTINODE_TEST_IMAGE": image, "MULTINODE_TEST_USER": user, "MULTINODE_TEST_KEYS": str(keys),
    }  # fmt: skip
    compose = ["docker-compose", "--project-name", project, "--file", str(COMPOSE)]
    try:
        assert call([*compose, "up", "--detach"], env=environ, seconds=120).code == 0
        names = [call([*compose, "ps", "--quiet", f"node{n}"], env=environ).out.strip() for n in (0, 1)]
        made = Cluster((Node(names[0]), Node(names[1])))
        yield made
        for child in made.started:
            child.kill()
            child.wait(30)
            if child.stdout and not child.stdout.closed:
                child.stdout.close()
    finally:
        call([*compose, "logs", "--no-color"], env=environ)
        call([*compose, "down", "--timeout", "2", "--volumes"], env=environ, seconds=120)
