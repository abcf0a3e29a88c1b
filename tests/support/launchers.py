"""Environments as launchers leave them: recorded by running them, or as their documentation and source say."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parents[1] / "data" / "environments"


def left_by(*names: str) -> dict[str, str]:
    """Put the variables of launchers together, the innermost last; a file begins with where it comes from."""
    found: dict[str, str] = {}
    for name in names:
        rows = DIRECTORY.joinpath(f"{name}.env").read_text("utf-8").splitlines()
        found.update(row.partition("=")[::2] for row in rows if not row.startswith("#"))
    return found


def names() -> list[str]:
    """List every environment there is."""
    return sorted(path.stem for path in DIRECTORY.glob("*.env"))
