"""How many ranks there have to be: MULTINODE_WORLD_SIZE, which the user sets, or the start of ranks."""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.errors import Refusal
from multinode_image.numbers import read_range
from multinode_image.settings import SIZE
from multinode_image.world.model import ALONE, TORCHRUN, TORCHRUN_WORKER, World

BY_HAND = (
    "export MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE (RANK from 0, WORLD_SIZE = number of nodes) on every node"
)


def check_required_size(environ: Mapping[str, str], world: World) -> None:
    """Raise Refusal for a world that cannot have the size in MULTINODE_WORLD_SIZE."""
    (least, most), (low, high) = read_required_size(environ), world.sizes
    if least <= high and (most is None or low <= most):
        return
    word, least = ("smaller", least) if most is None or high < least else ("larger", most)
    remedy = f"start {least} processes"
    if world.launcher == ALONE and not world.outer:
        remedy = f"{BY_HAND}, or --nproc {least} for all on this one"
    elif world.outer or world.launcher in (TORCHRUN, TORCHRUN_WORKER):
        local = world.local_size or 1
        nodes = -(-least // local)
        options = f"torchrun --nnodes {nodes} or --elastic {nodes}:{nodes}"
        remedy += f" in all: PET_NNODES={nodes}, {options}, of {local} each"
    raise Refusal(f"the world is {word} than {SIZE}", f"{world.size_text} of {least}", f"{remedy}, or unset {SIZE}")


def may_differ(environ: Mapping[str, str], world: World) -> bool:
    """Return whether an elastic world may still become smaller or larger than MULTINODE_WORLD_SIZE."""
    (least, most), (low, high) = read_required_size(environ), world.sizes
    return low < least or (most is not None and high > most)


def read_required_size(environ: Mapping[str, str]) -> tuple[int, int | None]:
    """Return the least and the most that MULTINODE_WORLD_SIZE allows: `2`, `1:4`, or `2:`, which has no most."""
    text = environ.get(SIZE, "").strip() or "1:"
    size = read_range(text)
    if size is None:
        remedy = f"export {SIZE}=2, or 1:4, or unset it"
        raise Refusal(f"{SIZE} is neither a number above 0 nor a range", repr(text), remedy)
    return size


def write_required_size(world: World) -> str:
    """Return what MULTINODE_WORLD_SIZE is for a world: its ranks, or at least one for each node that counts its own."""
    unknown = world.several_nodes and "local_size" in world.guessed
    return f"{world.nodes[0]}:" if unknown else world.size_text
