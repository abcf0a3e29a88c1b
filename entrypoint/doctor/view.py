"""What `doctor` judges, read once into one frozen value, and what a check finds in it."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.machine.files import (
    NETWORK,
    can_write,
    file_system_size,
    list_directory,
    measure_file_system,
    read_text,
)
from entrypoint.machine.image import list_hidden, normalize, read_installed
from entrypoint.machine.limits import Limits, read_limits
from entrypoint.machine.places import CERTIFICATE, is_mounted, mount_points

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.decide import Plan
    from entrypoint.errors import Refusal
    from entrypoint.machine.cpus import Files
    from entrypoint.machine.image import Stack

# Importing torch takes seconds, tens of them from a slow disk.
SECONDS = 120
OK, WARNING, WRONG = "ok", "warning", "wrong"


class Finding(NamedTuple):
    """What a check finds: a value, whether it is as it should be, and what to do if it is not."""

    value: str
    state: str = OK
    remedy: str = ""


class Interface(NamedTuple):
    """A network interface; state is the kernel's word, such as up, down or unknown (loopback)."""

    name: str
    state: str


class Directory(NamedTuple):
    """A directory that a training writes to; free is in bytes, None where it cannot be asked."""

    path: str
    writable: bool
    mounted: bool
    free: int | None


class Probe(NamedTuple):
    """What a process with the prepared environment saw of itself.

    float32, bfloat16: GFLOP/s of a core in these types, 0 where that was not measured; error: why no group of ranks
    forms; broken: why the Trainer, or something it needs (importing), cannot be imported; each is empty if nothing
    failed.
    """

    python: str = ""
    path: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()
    torch: str = ""
    file: str = ""
    threads: int = 0
    error: str = ""
    transformers: str = ""
    broken: str = ""
    importing: str = ""
    float32: float = 0.0
    bfloat16: float = 0.0


class View(NamedTuple):
    """Everything the checks need; refusal is why a training would not start here.

    hidden: packages of the image that Python takes from the user's home.
    """

    stack: Stack
    decision: Plan
    refusal: Refusal | None
    cpuinfo: str
    limits: Limits
    preloads: tuple[tuple[str, str], ...]
    locked: Mapping[str, str]
    installed: Mapping[str, tuple[str, ...]]
    interfaces: tuple[Interface, ...]
    directories: tuple[Directory, ...]
    user: tuple[int, int]
    certificate: str | None
    probe: Probe
    hidden: frozenset[str] = frozenset()


def read_view(decision: Plan, refusal: Refusal | None, stack: Stack, root: str) -> View:
    """Return the view; one process is started, which reports on itself."""
    environ = decision.prepared.environ
    probe = run_probe(["python3", f"{root}/probe.py", stack.backend], environ)
    preloads = [path for path in environ.get("LD_PRELOAD", "").replace(" ", ":").split(":") if path]
    return View(
        stack, decision, refusal,
        cpuinfo=read_text("/proc/cpuinfo") or "",
        limits=read_limits(read_text, file_system_size),
        preloads=tuple((path, os.path.realpath(path)) for path in preloads),
        locked=read_constraints(read_text(f"{root}/constraints.txt")),
        installed=read_installed(probe.path or (stack.site,)),
        interfaces=read_interfaces(list_directory(NETWORK), read_text),
        directories=read_directories(environ, read_text("/proc/self/mountinfo")),
        user=(os.getuid(), os.getgid()),
        certificate=(read_text(CERTIFICATE) or "") if os.path.lexists(CERTIFICATE) else None,
        probe=probe,
        hidden=frozenset(list_hidden(stack, environ)),
    )  # fmt: skip


def run_probe(argv: list[str], environ: Mapping[str, str]) -> Probe:
    """Run the probe in the environment of a training; a failure is the error of what is returned."""
    try:
        done = subprocess.run(argv, env=dict(environ), capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Probe(error=f"no answer within {SECONDS} s")
    except OSError as error:
        return Probe(error=f"{argv[0]}: {error.strerror}")
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith("{")]
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return read_probe(lines[-1] if lines else "", said[-1] if said else f"exit code {done.returncode}")


def read_probe(line: str, said: str) -> Probe:
    """Return what the probe printed; without that, the last line on stderr is the error."""
    try:
        facts = json.loads(line)
        return Probe(
            python=str(facts["python"]),
            path=tuple(map(str, facts["path"])),
            mapped=tuple(map(str, facts["mapped"])),
            torch=str(facts.get("torch", "")),
            file=str(facts.get("file", "")),
            threads=int(facts.get("threads", 0)),
            error=str(facts.get("error", "")),
            transformers=str(facts.get("transformers", "")),
            broken=str(facts.get("broken", "")),
            importing=str(facts.get("importing", "")),
            float32=float(facts.get("float32", 0)),
            bfloat16=float(facts.get("bfloat16", 0)),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return Probe(error=said)


def read_constraints(text: str | None) -> dict[str, str]:
    """Return the versions that the image was built from, of `name==version` lines."""
    rows = (line.partition("==") for line in (text or "").splitlines())
    return {normalize(name): version.strip() for name, equals, version in rows if equals}


def read_interfaces(names: list[str], files: Files) -> tuple[Interface, ...]:
    """Return the interfaces of this network namespace."""
    return tuple(Interface(name, (files(f"{NETWORK}/{name}/operstate") or "unknown").strip()) for name in names)


def read_directories(environ: Mapping[str, str], mountinfo: str | None) -> tuple[Directory, ...]:
    """Return the state of the directories for results, caches and temporary files."""
    from entrypoint.tasks.defaults import OUTPUT

    points = mount_points(mountinfo)
    paths = (OUTPUT, environ.get("HF_HOME", ""), environ.get("HOME", ""), environ.get("TMPDIR") or "/tmp")
    return tuple(
        Directory(path, can_write(path), is_mounted(os.path.realpath(path), points), free_space(path))
        for path in dict.fromkeys(paths)
        if path
    )


def free_space(path: str) -> int | None:
    """Return the bytes that may still be written at a path, or where it would be made."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    found = measure_file_system(path)
    return found[1] if found else None
