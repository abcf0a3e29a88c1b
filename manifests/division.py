"""How the cores of each pod are going to be divided, by the code that divides them in the pod: entrypoint/tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from entrypoint.errors import Refusal
from entrypoint.machine.cpus import CPU, NODE, ONLINE, Machine, read_machine
from entrypoint.machine.image import Stack
from entrypoint.machine.limits import MEMORY, SMOKE_MEMORY, write_size
from entrypoint.numbers import seconds
from entrypoint.rendezvous.torchrun import check_way
from entrypoint.rendezvous.wait import MASTER_SECONDS
from entrypoint.tasks.job import SMOKE
from entrypoint.tuning.threads import Role, Scene, check_numbers, divide_cores, spread_processes, warn_shared_cores
from entrypoint.world.alone import check_required_size, read_required_size
from entrypoint.world.model import ALONE, TORCHRUN, World
from entrypoint.world.table import detect
from manifests.request import PYTORCHJOB, RUNTIME, Job, Shape
from manifests.task import read_task

# The two kinds of images, as far as cores are concerned.
BACKENDS = ("gloo", "ccl")
PERIOD = 100_000  # microseconds; a kubelet writes quotas for this one


@dataclass(frozen=True)
class Division:
    """What becomes of a pod's cores: processes, threads of each by backend, and what is to be said of it."""

    machine: Machine
    world: World
    threads: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def processes(self) -> int:
        """Return the number of processes of each pod."""
        return self.world.local_size or 1


def make_machine(cpus: Fraction, shape: Shape | None) -> Machine:
    """Return what a container sees that may use so many CPUs of such a node; without one, a node that has no others."""
    shape = shape or Shape(1, max(1, ceil(cpus)), 1)
    if cpus > shape.cpus:
        fact = "a node has fewer CPUs than each pod asks for"
        raise Refusal(fact, f"{shape.cpus} of {float(cpus):g}", f"--cpu {shape.cpus}, or less: the kubelet needs some")
    each = shape.cores * shape.threads
    files = {
        ONLINE: f"0-{shape.cpus - 1}",
        NODE.format("online"): f"0-{shape.nodes - 1}",
        "/proc/self/cgroup": "0::/",
        "/sys/fs/cgroup/cpu.max": f"{int(cpus * PERIOD)} {PERIOD}",
        "/sys/fs/cgroup/cpuset.cpus.effective": f"0-{shape.cpus - 1}",
        **{NODE.format(f"node{node}/cpulist"): f"{node * each}-{(node + 1) * each - 1}" for node in range(shape.nodes)},
    }
    for cpu in range(shape.cpus):
        first = cpu - cpu % shape.threads
        files[CPU.format(cpu, "thread_siblings_list")] = f"{first}-{first + shape.threads - 1}"
    return read_machine(files.get, frozenset(range(shape.cpus)), 0)


def make_stack(backend: str) -> Stack:
    """Return an image of a backend; nothing else of it changes how cores are divided."""
    return Stack("", "", "", backend, None, "")


def divide(job: Job, environ: Mapping[str, str]) -> Division:
    """Return the division in a pod that has these variables from its operator; the user's are added."""
    scenes = {backend: make_scene(job, environ, backend) for backend in BACKENDS}
    scene = scenes[BACKENDS[0]]
    typed = check_numbers(scene.environ)
    found = {backend: typed or int(divide_cores(each).threads or 1) for backend, each in scenes.items()}
    check_cores(job, scene.machine, scene.world)
    check_memory(job, scene.world)
    check_values(job, scene)
    return Division(scene.machine, scene.world, found, tuple(warn_shared_cores(scene.world, scene.machine, typed)))


def count_processes(job: Job) -> int:
    """Return how many processes each pod gets where no operator says it."""
    return make_scene(job, {}, BACKENDS[0]).world.local_size or 1


def make_scene(job: Job, environ: Mapping[str, str], backend: str) -> Scene:
    """Return what the entrypoint finds in a pod that has these variables from its operator, beside the user's."""
    environ = {**environ, **job.pod.environ}
    machine = make_machine(job.pod.cpus, job.shape)
    world = spread_processes(detect(environ), machine, check_numbers(environ))
    return Scene(world, machine, environ, make_stack(backend), Role(exists=lambda _: True))


def check_values(job: Job, scene: Scene) -> None:
    """Raise Refusal for variables that the entrypoint would refuse in the pod."""
    seconds(scene.environ, "MULTINODE_TIMEOUT", MASTER_SECONDS)
    if not read_task(job.words).trains:
        return
    if scene.world.launcher in (ALONE, TORCHRUN):
        check_way(scene.world, scene.environ)
    if job.kind == RUNTIME:
        read_required_size(scene.environ)  # how many nodes there are is said by its TrainJobs
    else:
        check_required_size(scene.environ, find_bounds(job, scene))


def find_bounds(job: Job, scene: Scene) -> World:
    """Return the world with every size that it may have; the entrypoint counts NUMA nodes, which nobody may have said.

    Other operators than that of PyTorchJobs are given the number of processes.
    """
    world = scene.world
    if job.kind != PYTORCHJOB or job.shape or "local_size" not in world.guessed:
        return world
    low, high = world.nodes
    return world._replace(nodes=(low, high * scene.machine.cores), local_size=1)


def check_cores(job: Job, machine: Machine, world: World) -> None:
    """Raise Refusal for pods that have less than a core for each process."""
    count = world.local_size or 1
    if job.pod.cpus < 1 or count > machine.cores:
        fact = "each process needs a core of its own"
        value = f"{job.pod.cpu} CPUs, {machine.cores} core(s), {count} process(es) in each pod"
        most = job.shape.nodes * job.shape.cores if job.shape else count
        few = f"--cpu {most} --nproc {most}" if machine.cores < most else f"--nproc {most}"  # no such node has more
        raise Refusal(fact, value, few if count > most else f"--cpu {max(1, count)}, or a smaller --nproc")


def check_memory(job: Job, world: World) -> None:
    """Raise Refusal for pods in which a small model cannot be trained; /dev/shm counts as memory of the pod."""
    count, each = world.local_size or 1, SMOKE_MEMORY if job.words[:1] == (SMOKE,) else MEMORY
    if job.pod.memory_bytes < count * each:
        shm = f", of which --shm {job.pod.shm} may be filled" if job.pod.shm else ""
        fact = f"training a small model takes {write_size(each)} for each of {count} process(es)"
        need = count * each + job.pod.shared_bytes
        raise Refusal(
            fact, f"--memory {job.pod.memory}{shm}", f"--memory {ceil(need / (1 << 20))}Mi, or fewer processes"
        )


def describe(job: Job, division: Division) -> list[str]:
    """Return the lines that say how the cores are divided, in all pods."""
    low, high = division.world.nodes
    pods = f"{low}" if low == high else f"{low} to {high}"
    each = division.processes
    count = division.threads
    with_ccl = f"; with oneCCL {count['ccl']} and a worker" if count["ccl"] != count["gloo"] else ""
    cores = division.machine.cores
    lines = [
        f"{pods} pod(s) x {each} process(es) x {count['gloo']} thread(s){with_ccl}, on {cores} core(s) of each pod",
        *division.notes,
    ]
    if job.shape is None and job.nproc is None and "local_size" in division.world.guessed:
        lines.append(
            "processes: one for each NUMA node that a pod's cores fill, here one, if nodes have so many cores in one; "
            "--node-shape 2x56x2 says what they are (lscpu: NUMA nodes x cores of each x threads per core)"
        )
    return lines
