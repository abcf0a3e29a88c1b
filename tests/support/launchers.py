"""Environments as launchers leave them: recorded by running them, or as their documentation and source say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from multinode_image.world.model import ALONE, MPIJOB_LAUNCHER, World
from multinode_image.world.ranks import choose_port
from tests.support.toml import tomllib

DATA = Path(__file__).parents[1] / "data"
DIRECTORY, CASES, MACHINES = DATA / "environments", DATA / "launchers.toml", DATA / "machines.toml"


def left_by(*names: str) -> dict[str, str]:
    """Put the variables of launchers together, the innermost last; a file begins with where it comes from."""
    variables: dict[str, str] = {}
    for name in names:
        variables.update(read_environment(name))
    return variables


@cache
def read_environment(name: str) -> Mapping[str, str]:
    """Read the variables of one launcher."""
    rows = DIRECTORY.joinpath(f"{name}.env").read_text("utf-8").splitlines()
    return dict(row.partition("=")[::2] for row in rows if not row.startswith("#"))


def names() -> list[str]:
    """List every environment there is."""
    return sorted(path.stem for path in DIRECTORY.glob("*.env"))


class Case(NamedTuple):
    """One form of a launcher, and what it is taken for: a world in words, or the fact of a refusal."""

    launcher: str
    form: str
    left: tuple[str, ...]
    more: dict[str, str]
    nproc: int | None
    world: str
    refused: str
    checked: str
    source: str

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables of this form."""
        return {**left_by(*self.left), **self.more}


def read_cases() -> list[Case]:
    """List the forms in tests/data/launchers.toml."""
    rows = tomllib.loads(CASES.read_text())["case"]
    empty: dict[str, Any] = {"more": {}, "nproc": None, "world": "", "refused": "", "checked": ""}
    return [Case(**{**empty, **row, "left": tuple(row["left"])}) for row in rows]


def read_machines() -> dict[str, list[dict[str, Any]]]:
    """Return the environments in tests/data/machines.toml: those of processes that are alone, and of one of several."""
    return tomllib.loads(MACHINES.read_text())


def describe(world: World) -> str:
    """Return a world in words: how many ranks and nodes, which of them this one is, where they meet, and which job."""
    if world.launcher == MPIJOB_LAUNCHER:
        return "launch starts the ranks on the hosts of the operator's hostfile"
    if world.launcher == ALONE:
        return "alone" + (f", {world.local_size} ranks" if world.local_size else "")
    low, high = world.nodes
    nodes = f"{low} node" if high == 1 else f"{high} nodes" if low == high else f"{low} to {high} nodes"
    chosen = world.job and world.port == choose_port(world.job)
    at = f"at {world.master}" + (f", port of {world.job.partition('=')[0]}" if chosen else f":{world.port}")
    if world.rank is not None:
        here = f"rank {world.rank} of {world.size} on {nodes}, {world.local_rank} of {world.local_size} here"
        return f"{here}, {at}{', if rank 0 is there' if 'master' in world.guessed else ''}"
    ranks = f" with {world.local_size} rank{'s' if world.local_size > 1 else ''}" if world.local_size else ""
    if world.node_rank is None:
        return f"any node of {low} to {high}{ranks}, {at}"
    return f"node {world.node_rank} of {high}{ranks}, {at}"
