"""Where bf16 is taken without a GPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from entrypoint.hooks.bf16_units import allow_bf16
from entrypoint.machine.limits import BF16_UNITS


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        *((f"flags\t\t: fpu {unit} sse", True) for unit in BF16_UNITS),
        ("Features\t: fp asimd bf16", True),
        ("flags\t\t: fpu avx512_bf16x sse", False),
        ("model name\t: bf16", False),
        ("", False),
    ],
)
def test_a_processor_that_computes_in_bf16_answers_for_a_gpu(tmp_path: Path, line: str, taken: bool) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\nbugs\t\t: none\n")
    module = SimpleNamespace(is_torch_bf16_gpu_available=lambda: False)

    allow_bf16(module, tmp_path / "cpuinfo")

    assert module.is_torch_bf16_gpu_available() is taken
