"""uv's words when nothing was resolved -> what it means for the user."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name

from images.host.download import without_secrets
from images.host.errors import Fault, UserFault, WorldFault
from images.host.pip_config import Sources
from images.host.store import REMEDIES, disk_fault
from images.lock import wheelhouse
from images.lock.files import TORCH_INDEX
from images.plan.planner import Plan

# uv's own index, where none is configured: uv documentation, "Package indexes".
USUAL = "PyPI"
NO_DAY = "is missing an upload date"


def fault(told: str, plan: Plan, sources: Sources, root: Path) -> Fault:
    """Say what failed: the disk, an address, a file, a place that names no days, or a requirement that nothing meets.

    Raises UserFault when the plan's wheelhouse has what was looked for, and it cannot be used.
    """
    refused = re.search(r"\(os error (\d+)\)", told)
    if refused and int(refused[1]) in REMEDIES:
        return disk_fault(root, int(refused[1]))
    if plan.wheelhouse:
        asked = [*_pins("\n".join(plan.requirements)), *_pins(told)]
        wheelhouse.refuse(Path(plan.wheelhouse), asked, plan.python, plan.base.glibc)
    if failed := re.search(r"Failed to fetch: `?(\S+?)`?$", told, re.MULTILINE):
        return _unreachable(failed[1], plan)
    if damaged := re.search(r"Failed to extract archive: (\S+\.whl)", told):
        return _damaged(damaged[1], plan.wheelhouse)
    if undated := _undated(told):
        return _without_days(undated, sources)
    lines = [line.strip() for line in told.splitlines() if NO_DAY not in line]
    remedy = f"another release than --transformers {plan.transformers.version}, or --wheelhouse with what is missing"
    return UserFault("no set of packages fits", " ".join(lines)[:800], remedy)


def _pins(text: str) -> list[tuple[str, str]]:
    """Find each name==version in a text."""
    return re.findall(r"([\w.-]+)==([\w.!+-]*\w)", text)


def _last_resorts(plan: Plan) -> Iterable[tuple[str, str, str, str]]:
    """List the places that are asked only for what no other has: the place, what that is, whose it is, its release."""
    yield TORCH_INDEX, "build of torch for the CPU", "PyTorch's", f"torch {plan.torch.version}"
    for place in filter(None, (plan.index, plan.find_links)):
        yield place, "oneCCL bindings", "Intel's", f"oneccl_bind_pt {plan.torch.bindings}"


def _unreachable(failed: str, plan: Plan) -> WorldFault:
    for place, what, whose, name in _last_resorts(plan):
        if failed.startswith(place):
            fact = f"pip's sources have no {what}, and {whose} own index cannot be reached"
            remedy = "--wheelhouse DIR with that wheel in it, or a mirror as pip's extra-index-url"
            return WorldFault(fact, f"{name}, {place}", remedy)
    remedy = "check the network and proxy settings (HTTPS_PROXY) or pip's index-url; or --wheelhouse DIR"
    return WorldFault("cannot reach a package index", without_secrets(failed), remedy)


def _damaged(name: str, wheelhouse: str | None) -> Fault:
    if wheelhouse and Path(wheelhouse, name).is_file():
        remedy = f"download it again, or take it out of {wheelhouse}"
        return UserFault("a wheel of the wheelhouse is damaged", name, remedy)
    return WorldFault("a wheel is damaged where it comes from", name, "--wheelhouse DIR with a good one")


def _undated(told: str) -> list[str]:
    """Name the packages that were left out because their files have no day of upload."""
    files = re.findall(rf"`(\S+)` {NO_DAY}", told)
    undated = {canonicalize_name(file.partition("-")[0]) for file in files}
    left_out = re.findall(r"`(\S+)` was filtered by `exclude-newer`", told)
    return sorted({name for name in left_out if canonicalize_name(name) in undated})


def _without_days(names: list[str], sources: Sources) -> UserFault:
    fact = "nothing can be resolved as of a day from an index that does not say when its files were uploaded"
    places = ", ".join(map(without_secrets, (sources.index or USUAL, *sources.extra)))
    remedy = (
        "--lock FILE, made by build.py lock where an index says it (PyPI does), with which this index will do; "
        "or --wheelhouse DIR with all wheels: folders are not asked"
    )
    return UserFault(fact, f"{', '.join(names)} (asked: {places})", remedy)
