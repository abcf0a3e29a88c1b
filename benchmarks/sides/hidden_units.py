"""A processor without units for bf16: where it has some they are hidden.

They are hidden from the entrypoint and its hooks by another /proc/cpuinfo, from the libraries by the variables with
which they are limited to AVX2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.host.containers import Setting
from multinode_image.machine.files import read_text
from multinode_image.machine.limits import BF16_UNITS, has_bf16, read_flags

HIDES: Mapping[str, str] = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
CPUINFO = "/proc/cpuinfo"


def hide(directory: Path, environ: Mapping[str, str] | None = None, cpuinfo: str | None = None) -> Setting:
    """Return a container without units for bf16; directory: where its /proc/cpuinfo is written; cpuinfo: this one."""
    text = cpuinfo or read_text(CPUINFO) or ""
    if not has_bf16(read_flags(text)):
        return Setting(environ=environ or {})
    place, units = directory / "cpuinfo", {*BF16_UNITS, "avx512_fp16"}  # the last one tells that they are hidden
    lines = (" ".join(word for word in line.split(" ") if word not in units) for line in text.split("\n"))
    place.write_text("\n".join(lines))
    return Setting(environ={**HIDES, **(environ or {})}, mounts={place: CPUINFO})
