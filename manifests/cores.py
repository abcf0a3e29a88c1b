"""How the cores of each pod are going to be divided, by the same rule as in the pod, and whether they suffice."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from entrypoint.errors import Refusal
from entrypoint.machine.limits import MEMORY, SMOKE_MEMORY, write_size
from entrypoint.tasks.command import SMOKE
from manifests.request import PREFETCH, Request, Shape


@dataclass(frozen=True)
class Division:
    """What becomes of a pod's cores; guessed: whether the number of processes depends on nodes that nobody described.

    worker: whether a core of each process is left to oneCCL.
    """

    cores: int
    processes: int
    threads: int
    worker: bool
    guessed: bool


def divide(request: Request) -> Division:
    """Return the division, by entrypoint/tuning/threads.py; raise Refusal where cores or memory do not suffice."""
    cpus = request.cpu.number
    shape = request.node_shape or Shape(1, max(1, ceil(cpus)), 1)
    if cpus > shape.cpus:
        fact = "a node has fewer CPUs than each pod asks for"
        raise Refusal(
            fact, f"{shape.cpus} of {request.cpu.text}", f"--cpu {shape.cpus}, or less: the kubelet needs some"
        )
    cores = max(1, min(shape.nodes * shape.cores, floor(cpus + 1 / 2)))
    asked = request.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    typed = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 0
    filled = min(shape.nodes, cores, ceil(cores / shape.cores))
    count = request.nproc or max(1, min(filled, cores // typed if typed else cores))
    check_cores(request, cores, count)
    check_memory(request, count)
    worker = is_ccl(request) and not typed and cores // count > 1
    return Division(cores, count, typed or cores // count - worker, worker, not (request.node_shape or request.nproc))


def is_ccl(request: Request) -> bool:
    """Return whether this is meant for an image with oneCCL: the image itself is not known here."""
    return "ccl" in request.words or any(name.startswith("CCL_") for name in request.environ)


def check_cores(request: Request, cores: int, count: int) -> None:
    """Raise Refusal for pods that have less than a core for each process."""
    if request.cpu.number < 1 or count > cores:
        value = f"{request.cpu.text} CPUs, {cores} core(s), {count} process(es) in each pod"
        remedy = f"--nproc {cores}" if request.node_shape and request.cpu.number >= 1 else f"--cpu {count}"
        raise Refusal("each process needs a core of its own", value, f"{remedy}, or a smaller --nproc")


def check_memory(request: Request, count: int) -> None:
    """Raise Refusal for pods in which a small model cannot be trained; /dev/shm counts as memory of the pod."""
    each = SMOKE_MEMORY if request.words[0] == SMOKE else MEMORY
    need = count * each + (request.shm.number if request.shm else 0)
    if request.memory.number < need:
        shm = f", of which --shm {request.shm.text} may be filled" if request.shm else ""
        fact = f"training a small model takes {write_size(each)} for each of {count} process(es)"
        remedy = f"--memory {ceil(need / (1 << 20))}Mi, or fewer processes"
        raise Refusal(fact, f"--memory {request.memory.text}{shm}", remedy)


def describe(request: Request, division: Division) -> list[str]:
    """Return the lines that say how the cores are divided, in all pods."""
    low, high = request.elastic or (request.workers, request.workers)
    pods = f"{low}" if low == high else f"{low} to {high}"
    worker = " and a worker of oneCCL" if division.worker else ""
    lines = [
        f"{pods} pod(s) x {division.processes} process(es) x {division.threads} thread(s){worker}, "
        f"on {division.cores} core(s) of each pod"
    ]
    if division.processes * division.threads > division.cores:
        fits = division.cores // division.processes
        lines.append(f"that is more threads than cores: OMP_NUM_THREADS={fits} fits")
    if division.guessed and request.kind != PREFETCH:
        lines.append(
            "processes: one for each NUMA node that a pod's cores fill, here one, if nodes have so many cores in one; "
            "--node-shape 2x56x2 says what they are (lscpu: NUMA nodes x cores of each x threads per core)"
        )
    return lines
