"""Numbers and lists as they stand in foreign text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

# No machine and no job has more; a larger number is a typing error that must not fill the memory.
MOST = 1 << 20


def whole(text: str) -> int | None:
    """Read a number without a sign; None if it is anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def number(environ: Mapping[str, str], name: str) -> int | None:
    """Read a variable that must be a number if it is set; an empty one counts as unset."""
    text = environ.get(name, "")
    if not text.strip():
        return None
    value = whole(text)
    if value is None:
        raise Refusal(f"{name} is not a number", repr(text), f"export {name}=1, or unset {name}")
    return value


def read_cpus(text: str) -> frozenset[int]:
    """Read a list of processors: `0-3,8,10-11`; garbage in it is passed over."""
    cpus: set[int] = set()
    for part in text.replace("\n", ",").split(","):
        low, _, high = part.partition("-")
        first, last = whole(low), whole(high or low)
        if first is not None and last is not None and first <= last < MOST:
            cpus.update(range(first, last + 1))
    return frozenset(cpus)


def write_cpus(cpus: frozenset[int]) -> str:
    """Write a list of processors the way the kernel does."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
