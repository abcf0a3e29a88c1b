"""Containers of a benchmark, started with its label, waited for with a deadline, and read; images in the engine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.host.commands import call
from benchmarks.host.scratch import Scratch
from images.host.errors import WorldFault

CORES = ("0", "1")
# What a network is limited to, and the bucket: eight milliseconds, for the kernel's timer ticks at least every four.
BUCKETS: Mapping[str, str] = {"300mbit": "300kb", "1gbit": "1mb", "10gbit": "10mb"}


@dataclass(frozen=True)
class Setting:
    """What a container is given besides its image and command."""

    limits: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[Path, str] = field(default_factory=dict)
    entrypoint: str = ""
    network: str = "none"
    name: str = ""


@dataclass(frozen=True)
class Ranks:
    """How many containers train together, and what is done to each as soon as it runs."""

    count: int = len(CORES)
    prepare: Callable[[str], None] = lambda _: None

    def limits(self) -> list[tuple[str, ...]]:
        """Return the options of `docker run` for each: a core, or an equal share of one."""
        share = len(CORES) / self.count
        quota = ("--cpus", f"{share:g}") if share < 1 else ()
        return [("--cpuset-cpus", CORES[number % len(CORES)], *quota) for number in range(self.count)]


@contextlib.contextmanager
def started(scratch: Scratch, image: str, command: Sequence[str], setting: Setting) -> Iterator[str]:
    """Start a container in the background and yield its id; it is gone at the end."""
    words = ["docker", "run", "--detach", "--shm-size", "1g", "--label", scratch.label]
    words += ["--network", setting.network, *setting.limits]
    words += [word for name, value in setting.environ.items() for word in ("--env", f"{name}={value}")]
    words += [word for path, place in setting.mounts.items() for word in ("--volume", f"{path}:{place}:ro")]
    words += ["--name", setting.name, "--hostname", setting.name] if setting.name else []
    words += ["--entrypoint", setting.entrypoint] if setting.entrypoint else []
    container = call([*words, image, *command], seconds=60).strip()
    try:
        yield container
    finally:
        call(["docker", "rm", "--force", "--volumes", container], seconds=60)


def outcome(container: str, seconds: float) -> str:
    """Wait for a container's end and return what it printed on stdout; raise WorldFault if it failed."""
    code = call(["docker", "wait", container], seconds=seconds).strip()
    if code != "0":
        raise WorldFault("a training failed", f"exit code {code}: {errors(container)[-500:]}", "run it by hand")
    return call(["docker", "logs", container], seconds=60)


def errors(container: str) -> str:
    """Return the last lines that a container printed on stderr."""
    return call(["sh", "-c", 'exec docker logs --tail 12 "$0" 2>&1 >/dev/null', container], seconds=60)


def run(scratch: Scratch, image: str, command: Sequence[str], setting: Setting, seconds: float) -> str:
    """Run a container to its end and return what it printed on stdout."""
    with started(scratch, image, command, setting) as container:
        return outcome(container, seconds)


def together(
    scratch: Scratch, image: str, command: Sequence[str], setting: Setting, seconds: float, ranks: Ranks
) -> str:
    """Run a command as some ranks, each in a container; return what rank 0 printed."""
    with contextlib.ExitStack() as stack:
        name, containers = stack.enter_context(network(scratch)), list[str]()
        for number, limits in enumerate(ranks.limits()):
            meeting = {
                "PET_NNODES": str(ranks.count), "PET_NODE_RANK": str(number), "PET_MASTER_ADDR": f"{name}-0"
            }  # fmt: skip
            share = replace(
                setting, limits=(*setting.limits, *limits), environ={**setting.environ, **meeting}, network=name,
                name=f"{name}-{number}",
            )  # fmt: skip
            containers.append(stack.enter_context(started(scratch, image, command, share)))
            ranks.prepare(containers[-1])
        first, *_ = [outcome(container, seconds) for container in containers]
        return first


def limit(rate: str) -> Callable[[str], None]:
    """Return what limits what a container sends to a rate of BUCKETS, by a token bucket; nothing where rate is empty.

    The caller has to be root, the container needs no capability.
    """
    bucket = ("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", BUCKETS.get(rate, ""))

    def fill(container: str) -> None:
        if rate:
            process = call(["docker", "inspect", "--format", "{{.State.Pid}}", container], seconds=60).strip()
            call(["nsenter", "--target", process, "--net", *bucket, "latency", "50ms"])

    return fill


@contextlib.contextmanager
def network(scratch: Scratch) -> Iterator[str]:
    """Make a network and yield its name."""
    name = f"{scratch.name}-{time.monotonic_ns()}"
    call(["docker", "network", "create", "--label", scratch.label, name], seconds=60)
    try:
        yield name
    finally:
        call(["docker", "network", "rm", name], seconds=60)


def remove_image(name: str) -> None:
    """Remove the name of an image."""
    call(["docker", "rmi", "--force", name])


def unpacked_size(name: str) -> int:
    """Return the size of an image in the engine, in bytes."""
    return int(call(["docker", "image", "inspect", "--format", "{{.Size}}", name]))
