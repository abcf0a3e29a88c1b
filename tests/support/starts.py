"""Starts without a container: facts as values, the plan of a command, and a whole start up to exec."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import multinode_image.__main__ as program
from multinode_image.decide import Plan, decide, look_ahead
from multinode_image.errors import Refusal
from multinode_image.facts import Facts
from multinode_image.hooks.ends.ranks import plan_ranks
from multinode_image.machine.identity import Identity
from multinode_image.machine.image import Stack
from multinode_image.machine.limits import Limits
from multinode_image.situation import Situation, detect_situation, find_role
from multinode_image.tasks import command
from multinode_image.tasks.command import PLAIN, Command
from multinode_image.tasks.table import TASKS
from multinode_image.world.model import World
from multinode_image.world.starters import find_start
from multinode_image.world.table import find_launcher
from multinode_image.world.torchrun import NPROC
from tests.support.machines import Box, look_at
from tests.support.torchrun import ask

GLOO = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "/usr/lib/python3")
CCL = Stack("2.4.0+cpu", "4.46.0", "3.11", "ccl", None, "/usr/lib/python3")
PLENTY = Limits(1 << 30, 64 << 30, frozenset({"avx512_bf16"}))
NODE0, NODE1 = "10.77.0.1", "10.77.0.2"
SMOKE = Command(command.SMOKE, "smoke", [])
SERVER = Box(2, 28, 2)
MACHINE = look_at(SERVER)


def make_facts(environ: Mapping[str, str], stack: Stack = GLOO, **changes: Any) -> Facts:
    """Return the facts of a container with these variables on two sockets of 28 cores; changes: fields of Facts."""
    values: dict[str, Any] = {
        "root": "/opt/multinode",
        "files": lambda path: None,
        "machine": MACHINE,
        "limits": PLENTY,
        "identity": Identity({}, None, (), {}),
        "mounts": (),
        "has_terminal": True,
        "exists": lambda path: False,
    }
    return Facts(environ=environ, stack=stack, **{**values, **changes})


def place(world: World, job: Command = SMOKE) -> Situation:
    """Return the situation of a command in a world, as `detect_situation` finds it."""
    starter = find_start(job.line) if job.kind == PLAIN else None
    return Situation(job, world, starter, find_role(job, world, starter), ())


def find_situation(job: Command, facts: Facts, nproc: int | None = None) -> Situation:
    """Return the situation of a command, on a network where every other host has an address."""
    with network():
        return detect_situation(job, facts, find_launcher(facts.environ), nproc)


def make_plan(job: Command, facts: Facts, nproc: int | None = None) -> Plan:
    """Return the plan of a command, on a network where every other host has an address."""
    here = find_situation(job, facts, nproc)
    with network():
        return decide(here, look_ahead(here, facts), facts)


# The addresses of names; any other name has that of ELSEWHERE.
ADDRESSES: Mapping[str, Sequence[str]] = {
    NODE0: [NODE0],
    "pod": [NODE0, NODE1],
    "others": [NODE1, "10.77.0.3"],
    "here": [NODE0, NODE1],
    "nobody": [],
}
ELSEWHERE = "10.77.0.9"


@contextmanager
def network(address: str = NODE1, taken: Mapping[int, OSError] = {}) -> Iterator[None]:
    """Replace the network: names have their addresses, and `address` is ours on the way to any of them, on eth0.

    taken: why ports cannot be had.
    """

    def look_up(host: str, *_: object) -> list[tuple[int, tuple[str, int]]]:
        return [(2, (address, 9)) for address in ADDRESSES.get(host, [ELSEWHERE])]

    with (
        mock.patch("multinode_image.machine.network.look_up", look_up),
        mock.patch("multinode_image.machine.network.find_way", lambda to: (to[1][0], address)),
        mock.patch("multinode_image.machine.network.list_ipv4", lambda: [("lo", "127.0.0.1"), ("eth0", address)]),
        mock.patch("multinode_image.machine.network.try_port", taken.get),
        mock.patch("multinode_image.world.master.try_port", taken.get),
    ):
        yield


# The kernel's files of a container with one interface, eth0.
KERNEL = {
    "/proc/meminfo": "MemTotal: 263000000 kB\n",
    "/proc/cpuinfo": "processor: 0\nflags: fpu avx2 avx512f avx512_bf16\n",
    "/proc/self/mountinfo": "1 0 0:1 / / rw - overlay overlay rw\n",
}
SHM = 64 << 30
INTERFACES = ("/sys/class/net/lo", "/sys/class/net/eth0")
PROGRAMS = ("torchrun", "deepspeed", "accelerate", "mpirun", "python3", "sh", "bash", "true")
PACKAGES = ("datasets-4.0.0", "evaluate-0.4", "nltk-3.9", "rouge_score-0.1", "seqeval-1.2")


@contextmanager
def kernel(box: Box = SERVER, has: Collection[str] = INTERFACES) -> Iterator[Counter[str]]:
    """Replace what the kernel says of a machine and of this process, and count how often each file is opened.

    has: what is there beside the files that are opened.
    """
    opened: Counter[str] = Counter()
    files = {**box.files(), **KERNEL}
    really_open = builtins.open

    def open_file(path: Any, *args: Any, **more: Any) -> Any:
        if isinstance(path, str):
            opened[path] += 1
        if not str(path).startswith(("/proc/", "/sys/")):
            return really_open(path, *args, **more)
        if path not in files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return io.StringIO(files[path])

    with (
        mock.patch.object(builtins, "open", open_file),
        mock.patch("multinode_image.facts.exists", has.__contains__),
        mock.patch("multinode_image.facts.measure_file_system", lambda _: (SHM, SHM)),
        mock.patch("os.sched_getaffinity", lambda _: box.cpus(range(box.total))),
        mock.patch("os.isatty", lambda _: True),
        mock.patch("os.getppid", lambda: 7),
    ):
        yield opened


class _Replaced(BaseException):
    """In the place of exec."""


@dataclass(frozen=True)
class Started:
    """What a start has come to: an exit code, a refusal, or the command with its environment; and stderr."""

    code: int | None = None
    refusal: Refusal | None = None
    argv: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    err: str = ""
    out: str = ""

    @property
    def refused(self) -> tuple[int, str] | None:
        """Return the exit code and the value of the refusal; None where there is none."""
        return (self.refusal.code, self.refusal.value) if self.refusal else None


@dataclass(frozen=True)
class Container:
    """A container in a directory, with the examples' scripts, on a machine: two sockets of 28 cores.

    has: what is there beside the directory; taken: why ports cannot be had.
    """

    home: Path
    box: Box = SERVER
    has: tuple[str, ...] = INTERFACES
    taken: Mapping[int, OSError] = field(default_factory=dict)

    def furnish(self, **stack: object) -> Container:
        """Write what the image has, and return the container; stack: other values in stack.json."""
        facts = {**GLOO._asdict(), "site": str(self.home), "examples": str(self.home), **stack}
        (self.home / "stack.json").write_text(json.dumps(facts))
        for task in TASKS.values():
            script = self.home / "examples/pytorch/text" / task.file
            script.parent.mkdir(parents=True, exist_ok=True)
            script.touch()
        for package in PACKAGES:
            (self.home / f"{package}.dist-info").mkdir(exist_ok=True)
        for name in PROGRAMS:
            (self.home / name).write_text("#!/bin/sh\n")
            (self.home / name).chmod(0o755)
        return self

    def start(self, words: str | Sequence[str], environ: Mapping[str, str] | None = None) -> Started:
        """Start a command up to exec, and a torchrun up to its ranks; its variables are over PATH and HOME.

        Of the latter the command is that of a rank, and what torchrun is told is among the variables.
        """
        argv = words.split() if isinstance(words, str) else words
        variables = {"PATH": str(self.home), "HOME": str(self.home), **(environ or {})}
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out), self._entered():
            try:
                code = program.run([*argv], variables, str(self.home))
                return Started(code, err=err.getvalue(), out=out.getvalue())
            except Refusal as refusal:
                return Started(refusal.code, refusal, err=err.getvalue())
            except _Replaced as replaced:
                argv, variables = replaced.args
            if (asked := ask(argv, variables)) is None:
                return Started(None, None, argv, variables, err.getvalue())
            try:
                ranks = plan_ranks(asked, variables, str(self.home))
            except Refusal as refusal:
                return Started(refusal.code, refusal, err=err.getvalue())
        told = {**ranks.environ, **ranks.options, NPROC: str(ranks.local_size)}
        return Started(None, None, [ranks.program, *ranks.words], told, err.getvalue())

    def explain(self, words: str | Sequence[str], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return what `--explain=json` says of a command."""
        argv = words.split() if isinstance(words, str) else words
        plan: dict[str, Any] = json.loads(self.start(["--explain=json", *argv], environ).out)
        return plan

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Replace exec, the kernel and the network."""

        def replace(_: str, argv: list[str], environ: Mapping[str, str]) -> None:
            raise _Replaced(argv, environ)

        with (
            network(taken=self.taken),
            kernel(self.box, self.has),
            mock.patch("os.execvpe", replace),
            mock.patch("sys.stdin", None),
        ):
            yield
