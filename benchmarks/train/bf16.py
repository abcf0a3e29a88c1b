"""`--bf16` where no unit computes in it: the image computes in float32, which is trained beside it, and emulated.

On a processor that has units they are hidden: from the entrypoint and its hooks by another /proc/cpuinfo, from the
libraries by the variables with which they are limited to AVX2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures.measured import Figures
from benchmarks.host.containers import Setting, run
from benchmarks.host.scratch import Scratch
from benchmarks.settings.scenes import MOST, passed
from multinode_image.machine.limits import BF16_UNITS, has_bf16, read_flags

HIDES: Mapping[str, str] = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
CPUINFO = "/proc/cpuinfo"
STEPS = ("--max_steps", "2000")
# Forth and back: a machine that gets slower meanwhile favours neither.
ORDER = ("float32", "asked", "asked", "float32", "emulated")
EMULATE = {"MULTINODE_BF16": "emulate"}


def hide(cpuinfo: str) -> str:
    """Return /proc/cpuinfo without the units for bf16, and without what tells that they are hidden."""
    hidden = {*BF16_UNITS, "avx512_fp16"}
    return "\n".join(" ".join(word for word in line.split(" ") if word not in hidden) for line in cpuinfo.split("\n"))


def setting(cpuinfo: str, place: Path, environ: Mapping[str, str]) -> Setting:
    """Return a container on a processor without units; place: where the other /proc/cpuinfo is written."""
    if not has_bf16(read_flags(cpuinfo)):
        return Setting(environ=environ)
    place.write_text(hide(cpuinfo))
    return Setting(environ={**HIDES, **environ}, mounts={place: CPUINFO})


def measure(scratch: Scratch, figures: Figures, image: str, runs: int, cpuinfo: str) -> None:
    """Train the model of `smoke` in float32, with `--bf16`, and with `--bf16` that is emulated."""
    for number in scratch.rounds(runs):
        for name in ORDER:
            scratch.say(f"without units for bf16, {name}, {number + 1} of {runs}")
            given = setting(cpuinfo, scratch.directory / "cpuinfo", EMULATE if name == "emulated" else {})
            flags = () if name == "float32" else ("--bf16",)
            text = run(scratch, image, ["smoke", *flags, *STEPS], given, MOST)
            figures.add(f"without units {name}", passed(text)["seconds"])
