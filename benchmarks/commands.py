"""Other programs, each bounded in time; a failure ends the benchmark."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from images.host.errors import UserFault, WorldFault

ROOT = Path(__file__).resolve().parents[1]
SLOW = 1800  # seconds after which a command is taken for dead


def call(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it printed; a failure ends the benchmark."""
    try:
        done = subprocess.run(command, env=environment(env), capture_output=True, text=True, timeout=SLOW)
    except FileNotFoundError as error:
        raise UserFault("a program is missing", command[0], f"apt-get install {command[0]}") from error
    if done.returncode:
        said = done.stderr.strip()[-600:]
        raise WorldFault("a command failed", f"{' '.join(command[:3])}: {said}", "correct that and run it again")
    return done.stdout


def build_py(*words: str) -> list[str]:
    """Return a command line of build.py."""
    return [sys.executable, str(ROOT / "build.py"), *words]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of every command."""
    return {**os.environ, "DOCKER_BUILDKIT": "1", **(more or {})}


def buildkit() -> str:
    """Return a Docker client that drives BuildKit: with buildx, or old enough to have it built in."""
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        client = Path(directory) / "docker"
        if not os.access(client, os.X_OK):
            continue
        help_text = subprocess.run([client, "build", "--help"], env=environment(), capture_output=True, text=True)
        if "--secret" in help_text.stdout:
            return str(client)
    raise UserFault("no Docker client here drives BuildKit", "docker build --secret", "apt-get install docker.io")


def machine(client: str) -> str:
    """Return a description of this machine in a line."""
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.split(": ")[1] for line in info.splitlines() if line.startswith("model name")), "unknown")
    engine = call([client, "version", "--format", "{{.Server.Version}}"]).strip()
    return f"{os.cpu_count()} cores, {model}, Linux {platform.release()}, Docker {engine}"
