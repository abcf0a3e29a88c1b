"""What an image says of itself to people and scanners."""

from __future__ import annotations

from images.base.base import Floor
from images.lock.lockfile import Lock
from images.plan.planner import Plan


def make(plan: Plan, lock: Lock, floor: Floor) -> dict[str, str]:
    """Name what went in, from the resolved lock rather than the request, so that a label cannot lie."""
    title = "org.opencontainers.image"
    own = "multinode"
    base = {f"{title}.base.name": floor.name, f"{title}.base.digest": floor.digest}
    stated = {name: value for name, value in base.items() if value}
    return {
        **stated,
        f"{title}.title": "multinode",
        f"{title}.description": "Hugging Face training on CPU servers, one node or many",
        f"{title}.version": f"torch{plan.torch.version}-transformers{plan.transformers.version}",
        f"{title}.licenses": "Apache-2.0",
        f"{own}.torch": lock.torch,
        f"{own}.transformers": lock.transformers,
        f"{own}.python": floor.packages.get(f"python{lock.python}", lock.python),
        f"{own}.backend": plan.backend,
        f"{own}.as-of": str(plan.family_as_of),
    }
