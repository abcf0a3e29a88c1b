"""The command `doctor`: what decides speed and correctness here, with a remedy for what is wrong.

A check is a function of the view, which is read once: the plan of a training, what the packages are, and what a process
that is started like a training says of itself (programs/probe.py).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Callable

from multinode_image import timeouts
from multinode_image.decide import Plan
from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.machine import limits
from multinode_image.machine.cpus import read_process_limit
from multinode_image.machine.files import NETWORK, can_write, list_directory
from multinode_image.machine.image import (
    REBUILD,
    TOOLS,
    TORCH_INDEX,
    WITHOUT_HOME,
    describe_packages,
    is_held,
    list_hidden,
    normalize,
    read_built,
    read_installed,
)
from multinode_image.machine.limits import MEMORY, SMOKE_MEMORY, Disk, find_disk, find_thread_fault, write_size
from multinode_image.machine.places import explain_closed, find_closed, list_caches
from multinode_image.printing.secrets import hide
from multinode_image.printing.streams import print_output
from multinode_image.reading import parse_json, read_field, whole, write_cpus
from multinode_image.tasks.command import SMOKE, Command
from multinode_image.tasks.defaults import OUTPUT
from multinode_image.world.model import MPIJOB_LAUNCHER, MPIJOB_WORKER

OK, WARNING, WRONG = "ok", "warning", "wrong"
# Processes and threads of two ranks with a DataLoader each, with room; open files of a rank that has some workers.
PROCESSES, FILES = 256, 1024
NAMED = "correct what is named; the other rows may say why"
# A checkpoint of DistilBERT with its optimizer: 66 million parameters, 12 bytes each.
CHECKPOINT = 800 << 20


@dataclass(frozen=True)
class Finding:
    """What a check finds: a value, whether it is as it should be, and what to do if it is not."""

    value: str
    state: str = OK
    remedy: str = ""


@dataclass(frozen=True)
class Probe:
    """What a process with the prepared environment saw of itself.

    error: why no group of ranks forms; broken: why the Trainer, or what it needs (importing), cannot be imported;
    each is empty if nothing failed.
    """

    python: str = ""
    path: tuple[str, ...] = ()
    torch: str = ""
    file: str = ""
    error: str = ""
    transformers: str = ""
    broken: str = ""
    importing: str = "transformers"


@dataclass(frozen=True)
class View:
    """Everything the checks need.

    refusal: why a training would not start here; locked, built, installed: releases of packages that the image holds,
    that it was built with, and that are there; hidden: packages of the image that Python takes from the user's home;
    directories: where a training writes, and the file system there, None where it may not; processes, files: limits of
    processes and threads, and of open files, None without one; thread: why none can be started.
    """

    plan: Plan
    refusal: Refusal | None
    probe: Probe
    locked: Mapping[str, str]
    built: Mapping[str, str]
    installed: Mapping[str, tuple[str, ...]]
    hidden: frozenset[str]
    interfaces: Mapping[str, str]
    directories: Mapping[str, Disk | None]
    processes: int | None
    files: int | None
    thread: Refusal | None = None

    @property
    def environ(self) -> Mapping[str, str]:
        """Return the variables of a training."""
        return self.plan.prepared.environ


def doctor(command: Command, decide: Callable[[Command], Plan]) -> int:
    """Print every finding, and return 1 if one of them is wrong; decide: as for a start."""
    if command.words not in ([], ["--json"]):
        raise Refusal(
            "doctor has no such option", " ".join(hide(command.words)), "doctor, doctor --json, or doctor --network"
        )
    findings = examine(read_view(*decide_training(command, decide)))
    print_output(write_json(findings) if command.words else write_table(findings))
    return EXIT_OUTSIDE if any(finding.state == WRONG for finding in findings.values()) else 0


def decide_training(command: Command, decide: Callable[[Command], Plan]) -> tuple[Plan, Refusal | None]:
    """Return the plan for a training; where that is refused, the one for any command, with the refusal.

    A worker of an MPIJob is not meant to start a training: it waits for ranks.
    """
    try:
        return decide(Command(SMOKE, SMOKE.name, [])), None
    except Refusal as refusal:
        plan = decide(command)
        return plan, None if plan.world.launcher == MPIJOB_WORKER else refusal


def examine(view: View) -> dict[str, Finding]:
    """Run every check, by its name."""
    return {name: check(view) for name, check in CHECKS.items()}


def write_json(findings: Mapping[str, Finding]) -> str:
    """Return everything as one JSON object."""
    rows = [{"name": name, **asdict(finding)} for name, finding in findings.items()]
    return json.dumps(
        {"healthy": all(finding.state != WRONG for finding in findings.values()), "checks": rows}, indent=2
    )


def write_table(findings: Mapping[str, Finding]) -> str:
    """Return a table for people, with the remedy below what needs one."""
    lines = []
    for name, finding in findings.items():
        lines.append(f"{finding.state:8} {name:12} {finding.value}")
        if finding.state != OK:
            lines.append(f"{'':21} try: {finding.remedy}")
    return "\n".join(lines)


def read_view(plan: Plan, refusal: Refusal | None) -> View:
    """Return the view; one process is started, which reports on itself."""
    environ, facts = plan.prepared.environ, plan.facts
    processes = (read_process_limit(facts.files), read_user_limit(resource.RLIMIT_NPROC))
    probe = run_probe(["python3", f"{facts.root}/probe.py", facts.stack.backend], environ)
    locked = (line.partition("==") for line in (facts.files(f"{facts.root}/constraints.txt") or "").splitlines())
    places = (OUTPUT, environ.get("HF_HOME", ""), environ.get("HOME", ""), environ.get("TMPDIR") or "/tmp")
    left = find_closed(list_caches(environ, facts.stack.transformers).values(), can_write)
    return View(
        plan,
        refusal,
        probe,
        locked={normalize(name): version.strip() for name, equals, version in locked if equals},
        built=read_built(facts.files(f"{facts.root}/components.json")),
        installed=read_installed(probe.path or (facts.stack.site,)),
        hidden=frozenset(list_hidden(facts.stack, environ)),
        interfaces={
            name: (facts.files(f"{NETWORK}/{name}/operstate") or "unknown").strip() for name in list_directory(NETWORK)
        },
        directories={path: measure_room(path) for path in (*places, *left) if path},
        processes=min((limit for limit in processes if limit is not None), default=None),
        files=read_user_limit(resource.RLIMIT_NOFILE),
        thread=find_thread_fault(facts.files, "this command"),
    )


def read_user_limit(kind: int) -> int | None:
    """Return a limit of this user's processes; None without one."""
    limit = resource.getrlimit(kind)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def measure_room(path: str) -> Disk | None:
    """Return the file system at a path, or where it would be made; None where it may not be written."""
    if not can_write(path):
        return None
    there = path
    while not os.path.exists(there) and os.path.dirname(there) != there:
        there = os.path.dirname(there)
    disk = find_disk(there)
    return disk._replace(path=path) if disk else Disk(path, CHECKPOINT, CHECKPOINT)


def run_probe(argv: list[str], environ: Mapping[str, str]) -> Probe:
    """Run the probe in the environment of a training; a failure is the error of what is returned."""
    try:
        done = subprocess.run(argv, env=dict(environ), capture_output=True, timeout=timeouts.PROBE, check=False)
    except subprocess.TimeoutExpired:
        return Probe(error=f"no answer within {timeouts.PROBE} s")
    except OSError as error:
        return Probe(error=f"{argv[0]}: {error.strerror}")
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith("{")]
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return read_probe(lines[-1] if lines else "", said[-1] if said else f"exit code {done.returncode}")


def read_probe(line: str, said: str) -> Probe:
    """Return what the probe printed; without that, the last line on stderr is the error."""
    try:
        facts: dict[str, Any] = parse_json(line)
        known = {name: type(usual)(facts[name]) for name, usual in asdict(Probe()).items() if name in facts}
        return Probe(**known) if "python" in known else Probe(error=said)
    except (ValueError, TypeError):
        return Probe(error=said)


def check_launcher(view: View) -> Finding:
    """Find who starts the ranks, or why a training would not start."""
    if view.refusal is not None:
        return Finding(view.refusal.finding, WRONG, view.refusal.remedy)
    world = view.plan.world
    size = "ranks run on the hosts of the hostfile: --explain smoke"
    return Finding(f"{world.launcher} ({world.why}), {size if is_launcher(view) else f'world {world.size_text}'}")


def is_launcher(view: View) -> bool:
    """Return whether ranks run elsewhere, as from the launcher of an MPIJob."""
    return view.plan.world.launcher == MPIJOB_LAUNCHER


def check_processor(view: View) -> Finding:
    """Return the name of the processor, for which an arm64 kernel has a number, and its units for bf16."""
    text = view.plan.facts.files("/proc/cpuinfo") or ""
    names = filter(None, (read_field(text, name) for name in ("model name", "Model", "CPU part")))
    units = view.plan.facts.limits.bf16_units
    bf16 = f"bf16 by {' '.join(units)}" if units else "no unit computes in bf16, so --bf16 trains in float32"
    return Finding(f"{next(names, 'unknown')}: {bf16}")


def check_cores(view: View) -> Finding:
    """Count the cores that this container may use, and name their NUMA nodes."""
    machine = view.plan.machine
    quota = "no quota" if machine.quota is None else f"quota {machine.quota:g}"
    nodes = " | ".join(write_cpus(node) for node in machine.nodes)
    value = f"{machine.cores} of {machine.physical} cores (processors {nodes}, {quota})"
    if machine.quota is not None and machine.quota < 1:
        return Finding(value, WARNING, "give the container a whole core: docker run --cpus 1, limits.cpu in Kubernetes")
    return Finding(value)


def check_threads(view: View) -> Finding:
    """Compare the threads that were asked for with our cores."""
    text, cores = view.environ.get("OMP_NUM_THREADS", ""), view.plan.machine.cores
    if (whole(text.partition(",")[0]) or 0) > cores:
        return Finding(f"OMP_NUM_THREADS={text} on {cores} core(s)", WRONG, "unset OMP_NUM_THREADS")
    return Finding(f"OMP_NUM_THREADS={text}, of {cores} core(s)")


def check_memory(view: View) -> Finding:
    """Compare the memory with what a training takes."""
    has = view.plan.facts.limits.memory
    what, needed = ("`smoke` alone", SMOKE_MEMORY) if has < SMOKE_MEMORY else ("training a small model", MEMORY)
    if has >= needed:
        return Finding(write_size(has))
    value = f"{write_size(has)}, and {what} takes {write_size(needed)}"
    return Finding(value, WRONG if has < SMOKE_MEMORY else WARNING, "docker run --memory, limits.memory in Kubernetes")


def check_shm(view: View) -> Finding:
    """Compare /dev/shm with what an engine gives by default."""
    has = view.plan.facts.limits.shm or 0
    if has < limits.PODMAN_SHM:
        return Finding(f"{limits.SHM} has {write_size(has)}", WRONG, limits.MORE_SHM)
    if has <= limits.DEFAULT_SHM:
        return Finding(f"{write_size(has)}: little for DataLoader workers and several ranks", WARNING, limits.MORE_SHM)
    return Finding(write_size(has))


def check_limit(limit: int | None, needed: int, noun: str, remedy: str) -> Finding:
    """Compare a limit with what a training takes."""
    if limit is None or limit >= needed:
        return Finding("no limit" if limit is None else f"{limit} {noun}")
    return Finding(f"{limit} {noun}: a training may need {needed}", WARNING, remedy)


def check_processes(view: View) -> Finding:
    """Return whether threads can be started, and how many."""
    if view.thread is not None:
        return Finding(view.thread.finding, WRONG, view.thread.remedy)
    return check_limit(view.processes, PROCESSES, "processes and threads", limits.MORE_PROCESSES)


def check_variables(view: View) -> Finding:
    """Return which variables of a host would break programs here; a training does not get them."""
    notes = view.plan.facts.notes
    return Finding("; ".join(notes), WARNING, "unset what is left out") if notes else Finding("none is left out")


def check_packages(view: View) -> Finding:
    """Compare what Python would import with what the image was built from."""
    site = view.plan.facts.stack.site
    if not view.locked:
        return Finding("the image has no constraints.txt", WRONG, REBUILD)
    if view.probe.path and site not in view.probe.path:
        remedy = "put /usr/local/bin and /usr/bin first in PATH"
        return Finding(f"the python3 in PATH does not read {site}", WRONG, remedy)
    differing = {
        name: f"{name} {' and '.join(have) or 'missing'} instead of {version}"
        for name, version in sorted(view.locked.items())
        if name not in TOOLS and not is_held(have := view.installed.get(name, ()), version)
    }
    if not differing:
        held = f"{len(view.locked.keys() - TOOLS)} as the image holds them"
        return Finding(describe_packages(view.built, view.installed) if view.built else held)
    pins = [f"{name}=={view.locked[name]}" for name in differing]
    index = f"--extra-index-url {TORCH_INDEX} " if any("+" in pin for pin in pins) else ""
    again = f"pip install --no-deps --force-reinstall {index}{' '.join(pins)}"
    return Finding("; ".join(differing.values()), WRONG, again if view.hidden.isdisjoint(differing) else WITHOUT_HOME)


def check_torch(view: View) -> Finding:
    """Return whether torch can be imported, and is the image's own."""
    probe, stack = view.probe, view.plan.facts.stack
    if probe.file and not probe.file.startswith(f"{stack.site}/"):
        remedy = WITHOUT_HOME if "torch" in view.hidden else "unset PYTHONPATH, or remove what is in front"
        return Finding(f"{probe.torch} from {probe.file}", WRONG, remedy)
    if not probe.torch:
        return Finding(f"cannot be imported: {probe.error}", WRONG, NAMED)
    return Finding(f"{probe.torch}, Python {probe.python}")


def check_transformers(view: View) -> Finding:
    """Return whether transformers has a Trainer that can be imported."""
    probe = view.probe
    if not probe.transformers:
        remedy = f"{NAMED}; or {WITHOUT_HOME}" if view.hidden else NAMED
        return Finding(f"{probe.importing} cannot be imported: {probe.broken or probe.error}", WRONG, remedy)
    return Finding(probe.transformers)


def check_backend(view: View) -> Finding:
    """Return whether a group of ranks can form with the backend."""
    if view.probe.error:
        return Finding(f"{view.plan.backend}: {view.probe.error}", WRONG, NAMED)
    return Finding(f"{view.plan.backend}: a group of one rank has formed")


def check_network(view: View) -> Finding:
    """List the interfaces, and the one where ranks meet."""
    value = ", ".join(f"{name} {state}" for name, state in view.interfaces.items()) or "no interface"
    if view.plan.world.several_nodes and set(view.interfaces) <= {"lo"}:
        return Finding(f"{value}, and the world has several nodes", WRONG, "docker run --network NAME")
    chosen = view.environ.get("GLOO_SOCKET_IFNAME") or "what the library picks"
    return Finding(f"{value}; ranks meet on {'the network of the hosts' if is_launcher(view) else chosen}")


def check_directories(view: View) -> Finding:
    """Check the directories that a training writes to."""
    closed = [path for path, disk in view.directories.items() if disk is None]
    who = f"uid {os.getuid()}, gid {os.getgid()}"
    if closed:
        value = f"cannot be written by {who}: {' '.join(closed)}"
        return Finding(value, WRONG, explain_closed(value, closed[0]).remedy)
    disks = [disk for disk in view.directories.values() if disk is not None]
    if crowded := [disk for disk in disks if disk.lacks_files]:
        return Finding(", ".join(map(str, crowded)), WARNING, "remove files, or mount a volume with more inodes")
    full = [f"{disk.path} has {write_size(disk.free)} left" for disk in disks if disk.free < CHECKPOINT]
    if full:
        remedy = f"free some space: a small checkpoint takes {write_size(CHECKPOINT)}"
        return Finding(", ".join(full), WARNING, remedy)
    return Finding(f"can be written by {who}: {' '.join(view.directories)}")


CHECKS: dict[str, Callable[[View], Finding]] = {
    "launcher": check_launcher,
    "processor": check_processor,
    "cores": check_cores,
    "threads": check_threads,
    "memory": check_memory,
    "shm": check_shm,
    "processes": check_processes,
    "files": lambda view: check_limit(view.files, FILES, "open files of a process", limits.MORE_FILES),
    "variables": check_variables,
    "packages": check_packages,
    "torch": check_torch,
    "transformers": check_transformers,
    "backend": check_backend,
    "network": check_network,
    "directories": check_directories,
}
