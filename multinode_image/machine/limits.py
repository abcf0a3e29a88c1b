"""Limits that end or slow a training after its start: shared memory, memory, units of the processor."""

from __future__ import annotations

from typing import Callable, NamedTuple

from multinode_image.machine.cgroups import read_memory_limit
from multinode_image.machine.files import Files
from multinode_image.numbers import read_field, whole

SHM = "/dev/shm"
# The default of Docker and containerd, and that of podman (containers.conf(5), shm_size), which means 1000 by its k;
# another size was chosen by somebody.
DEFAULT_SHM, PODMAN_SHM = 64 << 20, 65_536_000
MORE_SHM = "docker run --shm-size 1g, in Kubernetes an emptyDir with medium Memory at /dev/shm"
# The peak of `smoke` is 0.53 GB, of which torch, transformers and datasets are 0.48 GB (measured with torch 2.13).
# DistilBERT, the guide's model, takes 1.1 GB more: 66 million parameters in float32, with gradient and AdamW's moments.
SMOKE_MEMORY = 768 << 20
MEMORY = 2 << 30
# Names of units that compute in bf16: arch/x86/include/asm/cpufeatures.h, Documentation/arch/arm64/elf_hwcaps.rst. The
# kernel shows no flag for AVX-NE-CONVERT, which only loads bf16.
BF16_UNITS = ("amx_bf16", "avx512_bf16", "bf16")


class Limits(NamedTuple):
    """What a container has, in bytes, and the flags of its processor; shm is None where there is no /dev/shm."""

    shm: int | None
    memory: int
    flags: frozenset[str]

    @property
    def bf16_units(self) -> list[str]:
        """Return the units that compute in bf16."""
        return [unit for unit in BF16_UNITS if unit in self.flags]


def read_limits(files: Files, measure: Callable[[str], tuple[int, int] | None]) -> Limits:
    """Return the limits of this container; measure: the bytes of the file system at a path, and those free."""
    total = read_total(files("/proc/meminfo"))
    limits = [limit for limit in (total, read_memory_limit(files)) if limit is not None]
    memory, shm = min(limits, default=0), measure(SHM)
    # A tmpfs without a limit, as of `--shm-size 0`, has no size.
    return Limits((shm[0] or memory) if shm else None, memory, read_flags(files("/proc/cpuinfo")))


def read_total(meminfo: str | None) -> int | None:
    """Return the memory of the machine in bytes, from a line like `MemTotal: 8000000 kB`."""
    count = whole(read_field(meminfo or "", "MemTotal").replace("kB", ""))
    return None if count is None else count << 10


def read_flags(cpuinfo: str | None) -> frozenset[str]:
    """Return the flags of the first processor: `flags` on x86, `Features` on arm64."""
    text = cpuinfo or ""
    return frozenset((read_field(text, "flags") or read_field(text, "Features")).split())


def has_bf16(flags: frozenset[str]) -> bool:
    """Return whether the processor computes in bf16."""
    return not flags.isdisjoint(BF16_UNITS)


def write_size(count: int) -> str:
    """Return a number of bytes in MB or GB."""
    return f"{count / (1 << 30):.1f} GB" if count >= 1 << 30 else f"{count >> 20} MB"
