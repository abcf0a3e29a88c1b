"""Which machine and which engine were measured, and how busy they were."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.host.commands import call
from images.host.errors import UserFault
from multinode_image.machine.limits import BF16_UNITS, has_bf16, read_flags

QUIET = 0.5  # processes that ran before the benchmark, by the load of the last minute, up to which figures are good
PATIENCE = 180  # seconds in which the load of the part before has to fall: it is a mean of a minute and more
UNITS = ("avx512_bf16", "amx_bf16", "amx_tile")


def await_quiet(find_load: Callable[[], float], sleep: Callable[[float], None] = time.sleep) -> float:
    """Return the load of the last minute once it is QUIET, or what it is after PATIENCE seconds."""
    for second in range(PATIENCE):
        load = find_load()
        if load <= QUIET:
            return load
        if not second:
            print(f"waiting for other work to end (load {load:.2f}), at most {PATIENCE} s", file=sys.stderr, flush=True)
        sleep(1)
    return find_load()


def describe(load: float) -> dict[str, Any]:
    """Return what decides the figures; load: processes that ran in the minute before."""
    info = Path("/proc/cpuinfo").read_text()
    return {
        "cores": os.cpu_count() or 1,
        "cpu": field(info, "model name"),
        "units": [unit for unit in UNITS if unit in field(info, "flags").split()],
        "kernel": platform.release().partition("-")[0],
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "engine": f"Docker {call(['docker', 'version', '--format', '{{.Server.Version}}']).strip()}",
        "load": round(load, 2),
    }


def field(info: str, name: str) -> str:
    """Return a field of the first processor in the text of /proc/cpuinfo."""
    rows = (line.partition(":") for line in info.splitlines())
    return next((value.strip() for key, _, value in rows if key.strip() == name), "unknown")


def written(machine: Mapping[str, Any]) -> str:
    """Return a description as a sentence of a page."""
    units = ", ".join(machine["units"]) or "none"
    return (
        f"{_processor(machine, f'bfloat16 units: {units}')}, {machine['memory_gb']} GB, "
        f"Linux {machine['kernel']}, {machine['engine']}"
    )


def shortened(machine: Mapping[str, Any]) -> str:
    """Return what somebody who reads a few figures has to know of a machine."""
    return f"{_processor(machine)}, {machine['engine']}"


def _processor(machine: Mapping[str, Any], *more: str) -> str:
    amx = "with AMX" if has_amx(machine) else "without AMX"
    return f"{machine['cores']} cores ({', '.join((machine['cpu'], amx, *more))})"


def has_amx(machine: Mapping[str, Any]) -> bool:
    """Return whether its processor multiplies matrices in units of their own."""
    return any(unit.startswith("amx") for unit in machine["units"])


def is_busy(machine: Mapping[str, Any]) -> bool:
    """Return whether other work ran beside the benchmark."""
    return float(machine["load"]) > QUIET


def check_units(cpuinfo: str) -> None:
    """Raise UserFault where a step of the large model in bfloat16 takes minutes."""
    if not has_bf16(read_flags(cpuinfo)):
        remedy = f"run it on a processor with one of {', '.join(BF16_UNITS)}"
        raise UserFault("steps in bfloat16 take minutes here", field(cpuinfo, "model name"), remedy)
