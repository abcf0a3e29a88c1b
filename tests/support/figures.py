"""Figures of benchmarks as their file has them, made by hand."""

from __future__ import annotations

from typing import Any

from benchmarks.figures import Figures

MACHINE = {
    "cores": 2, "cpu": "AMD EPYC", "units": ["avx512_bf16"], "kernel": "6.18", "memory_gb": 25,
    "engine": "Docker 20.10", "load": 0.0,
}  # fmt: skip


def part(figures: Figures) -> dict[str, Any]:
    """Return a part of the file."""
    return {"day": "2026-11-22", "runs": 1, "minutes": 5.0, "machine": MACHINE, **figures.as_json()}


def sizes(ours: int) -> Figures:
    """Return what is measured of an image: the bytes of ours, against a Dockerfile's of 800 MB."""
    figures = Figures()
    figures.add("ours with bytecode", ours, "bytes")
    figures.add("expert without bytecode", 800_000_000, "bytes")
    return figures
