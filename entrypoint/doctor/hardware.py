"""What the machine gives a training: checks of `doctor`, each a pure function of the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.doctor.view import WARNING, WRONG, Finding
from entrypoint.machine.limits import (
    AMX,
    BF16_UNITS,
    DEFAULT_SHM,
    MEMORY,
    PODMAN_SHM,
    SHM,
    SMOKE_MEMORY,
    has_bf16,
    write_size,
)
from entrypoint.numbers import whole, write_cpus

if TYPE_CHECKING:
    from entrypoint.doctor.view import View

# Units that decide how fast a model computes, in the kernel's words: arch/x86/include/asm/cpufeatures.h for x86,
# Documentation/arch/arm64/elf_hwcaps.rst for arm64.
UNITS = (
    "avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
    "amx_fp16",
    "asimddp", "i8mm", "sve", "bf16",
)  # fmt: skip
# A difference that may be noise: other work runs on most machines.
NEARLY = 0.8


def check_processor(view: View) -> Finding:
    """Return the name of the processor; an arm64 kernel has a number for it."""
    rows = (line.partition(":") for line in view.cpuinfo.splitlines())
    names = (value.strip() for name, _, value in rows if name.strip() in ("model name", "Model", "CPU part"))
    return Finding(next(names, "unknown"))


def check_units(view: View) -> Finding:
    """List the units that decide how fast a model computes."""
    found = [unit for unit in UNITS if unit in view.limits.flags]
    value = " ".join(found) or "none known"
    if has_bf16(view.limits.flags):
        return Finding(value)
    remedy = "nothing, or for bf16 a machine with one of " + ", ".join(BF16_UNITS)
    return Finding(f"{value}; none computes in bf16, so --bf16 trains in float32", WARNING, remedy)


def check_speed(view: View) -> Finding:
    """Compare how fast a layer is computed in bfloat16 and in float32; where bf16 is emulated, the units say it."""
    probe = view.probe
    if not probe.float32 or not probe.bfloat16:
        return Finding("not measured")
    value = f"{probe.bfloat16:.0f} GFLOP/s in bfloat16, {probe.float32:.0f} in float32, on one core"
    if probe.bfloat16 >= probe.float32 * NEARLY or not has_bf16(view.limits.flags):
        return Finding(value)
    return Finding(value, WARNING, f"leave --bf16 out here, or take a machine that shows {AMX}: bf16 saves memory only")


def check_cores(view: View) -> Finding:
    """Count the cores that this container may use."""
    machine = view.decision.machine
    quota = "no quota" if machine.quota is None else f"quota {machine.quota:g}"
    value = f"{machine.cores} of {machine.physical} cores (processors {write_cpus(machine.cpus)}, {quota})"
    if machine.quota is not None and machine.quota < 1:
        return Finding(value, WARNING, "give the container a whole core: docker run --cpus 1, limits.cpu in Kubernetes")
    return Finding(value)


def check_threads(view: View) -> Finding:
    """Compare the threads that were asked for with our cores, and with what torch takes."""
    value = view.decision.prepared.environ.get("OMP_NUM_THREADS", "")
    asked, cores = whole(value) or 0, view.decision.machine.cores
    if asked > cores:
        return Finding(f"OMP_NUM_THREADS={value} on {cores} core(s)", WRONG, "unset OMP_NUM_THREADS")
    if view.probe.threads and asked and view.probe.threads != asked:
        value = f"OMP_NUM_THREADS={value}, and torch takes {view.probe.threads}"
        return Finding(value, WARNING, "find what sets it otherwise: KMP_*, MKL_NUM_THREADS")
    return Finding(f"OMP_NUM_THREADS={value}, of {cores} core(s)")


def check_numa(view: View) -> Finding:
    """List the NUMA nodes whose processors this container may use."""
    machine = view.decision.machine
    nodes = " | ".join(write_cpus(node) for node in machine.nodes)
    return Finding(f"{len(machine.nodes)} node(s) on {machine.sockets} socket(s): {nodes}")


def check_memory(view: View) -> Finding:
    """Compare the memory with what a training takes."""
    has = view.limits.memory
    remedy = "docker run --memory, limits.memory in Kubernetes"
    if has < SMOKE_MEMORY:
        return Finding(f"{write_size(has)}, and `smoke` alone takes {write_size(SMOKE_MEMORY)}", WRONG, remedy)
    if has < MEMORY:
        return Finding(f"{write_size(has)}, and training a small model takes {write_size(MEMORY)}", WARNING, remedy)
    return Finding(write_size(has))


def check_shm(view: View) -> Finding:
    """Compare /dev/shm with what an engine gives by default."""
    remedy = "docker run --shm-size 1g, in Kubernetes an emptyDir with medium Memory at /dev/shm"
    has = view.limits.shm
    if has is None or has < PODMAN_SHM:
        return Finding(f"{SHM} has {write_size(has or 0)}", WRONG, remedy)
    if has <= DEFAULT_SHM:
        return Finding(f"{write_size(has)}: little for DataLoader workers and several ranks", WARNING, remedy)
    return Finding(write_size(has))
