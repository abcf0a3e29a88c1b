"""Commands as a user types them: build.py, docker run, each within a time limit."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "tests" / "data" / "examples"
# scripts/test runs several sessions and gives them one name; a session alone makes one, which its workers inherit.
ALONE = "MULTINODE_TEST_RUN" not in os.environ
# The repository of every image that the tests load.
IMAGES = f"multinode-test-{os.environ.setdefault('MULTINODE_TEST_RUN', uuid.uuid4().hex[:8])}"
# Set by the image's ENTRYPOINT in a container of its own; `docker exec` has to name it.
ENTRYPOINT = ("python3", "-I", "-S", "/opt/multinode")
# Scripts of examples that need no network, and one that is the user's own.
OFFLINE = ("--volume", f"{ROOT}/tests/data/offline:/workspace/transformers:ro")
TRAIN_SCRIPT = ("--volume", f"{ROOT}/tests/data/offline/train.py:/workspace/train.py:ro")
HARDENED = (
    "--user=123456:0", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges",
)  # fmt: skip


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def call(command: Sequence[str], *, seconds: float = 300, env: Mapping[str, str] | None = None) -> Done:
    """Run a command within a time limit in seconds; what it said is shown when the test fails."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, text=True, cwd=ROOT, env=env, check=False)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"{' '.join(command)}: no end after {seconds} s\n{error.stdout!r}\n{error.stderr!r}")
    print(f"+ {' '.join(command)}\n{done.stdout}{done.stderr}[exit code {done.returncode}]")
    return Done(done.returncode, done.stdout, done.stderr)


def build(*options: str, env: Mapping[str, str] | None = None, seconds: float = 600) -> Done:
    """Run build.py."""
    return call([sys.executable, "build.py", *options], env={**os.environ, **(env or {})}, seconds=seconds)


def built(*options: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run build.py with --json and read its answer."""
    done = build("--json", *options, env=env)
    assert done.code == 0
    answer: dict[str, Any] = json.loads(done.out)
    return answer


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[None]:
    """Mount a disk in memory at a directory that is made for it; skip for who may not."""
    if os.getuid():
        pytest.skip("needs root to mount a small disk")
    place.mkdir()
    assert call(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", str(place)]).code == 0
    try:
        yield
    finally:
        call(["umount", str(place)])


@contextmanager
def alone(name: str) -> Iterator[Path]:
    """Wait until no other worker of this session does the same; yield a file that all of them may read and write."""
    place = Path(tempfile.gettempdir(), f"{IMAGES}-{name}")
    with place.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield place


def wait_for(met: Callable[[], bool], seconds: float = 60) -> bool:
    """Wait until a condition is met; return whether it was."""
    until = time.monotonic() + seconds
    while not (answer := met()) and time.monotonic() < until:
        time.sleep(0.1)
    return answer


def new_name() -> str:
    """Return a name for a container or a network that nothing else has."""
    return f"multinode-test-{uuid.uuid4().hex[:12]}"


def env_options(environ: Mapping[str, str]) -> list[str]:
    """Return variables as options of an engine."""
    return [word for name, value in environ.items() for word in ("--env", f"{name}={value}")]


def run(image: str, *command: str, options: Sequence[str] = (), seconds: float = 180, network: str = "none") -> Done:
    """Run a command in a container, without a network; the container is gone afterwards, whatever happens."""
    name = new_name()
    started = time.monotonic()
    try:
        done = call(
            ["docker", "run", "--rm", "--name", name, "--network", network, *options, image, *command], seconds=seconds
        )
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, timeout=60, check=False)
    print(f"[{time.monotonic() - started:.1f} s]")
    return done


RESUMES = 'trainer.train(resume_from_checkpoint=os.environ.get("MULTINODE_RESUME") or None)'


def write_train_script(place: Path) -> None:
    """Write train.py as somebody has it who has read nothing of checkpoints."""
    text = (ROOT / "tests/data/offline/train.py").read_text()
    assert text.count(RESUMES) == 1
    (place / "train.py").write_text(text.replace(RESUMES, "trainer.train()"))


def has_docker() -> bool:
    """Say whether a Docker daemon answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, timeout=120, check=False).returncode == 0


def tags() -> list[str]:
    """List the images of this session that the engine has."""
    if shutil.which("docker") is None:
        return []
    command = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", IMAGES]
    return subprocess.run(command, capture_output=True, timeout=60, text=True, check=False).stdout.split()


def remove_images(tags: Sequence[str]) -> None:
    """Remove tags from the engine, and with them the images that nobody else has tagged."""
    for tag in tags:
        subprocess.run(["docker", "rmi", "--force", tag], capture_output=True, timeout=600, check=False)


def assert_three_parts(done: Done, code: int, value: str, remedy: str, program: str = "error") -> None:
    """Check that a failure has its three parts: the fact with the value that caused it, and what to type instead."""
    assert done.code == code
    first, second = done.err.strip().splitlines()[-2:]
    assert first.startswith(f"{program}: ")
    assert value in first
    assert second.startswith("  try: ")
    assert remedy in second
    assert "Traceback" not in done.err
