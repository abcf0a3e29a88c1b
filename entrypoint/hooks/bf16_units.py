"""Let the Trainer use bf16 on a processor that has units for it, without use_cpu.

It asks for a GPU then (transformers/training_args.py, __post_init__), also where there is none; trl's default is bf16.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# As in machine/limits.py, which most Pythons of an image cannot import.
UNITS = re.compile(r"(?m)^(?:flags|Features)\s*:.*\b(?:amx_bf16|avx512_bf16|bf16)\b")


def allow_bf16(module: Any, cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Let that question be answered by the processor; module: transformers.training_args."""
    if UNITS.search(cpuinfo.read_text()):
        module.is_torch_bf16_gpu_available = lambda: True
