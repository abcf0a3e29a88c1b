"""Wheels of metadata alone, in the place of what cannot be downloaded from here: enough to resolve, nothing to run."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from packaging.requirements import Requirement

from images.host.errors import WorldFault
from images.host.pip_config import without_login
from images.lock import uv
from images.lock.missing import UNREACHABLE
from images.lock.source_only import WHEEL
from images.model import Plan
from images.wheels import record

# What PyPI's torch requires beside its build for the CPU: setup.py of torch adds these from a variable of its builders.
FOR_GPU = re.compile(r"(nvidia|cuda|triton|pytorch-triton)\b")

# Return what a release of torch requires; raises WorldFault when nothing says it.
Requires = Callable[[str], Iterable[str]]


def needed(plan: Plan, fault: WorldFault) -> str | None:
    """Return which of the two is missing, where its own index, the last place to ask for it, cannot be reached."""
    places = {uv.TORCH_INDEX: "torch"} | dict.fromkeys(filter(None, (plan.index, plan.find_links)), "oneccl_bind_pt")
    found = (name for place, name in places.items() if fault.value.startswith(without_login(place)))
    return next(found, None) if fault.kind == UNREACHABLE else None


def of(name: str, plan: Plan, requires: Requires, directory: Path) -> Path:
    """Write the stand-in of a plan's `torch` or `oneccl_bind_pt` into a directory."""
    if name == "torch":
        needs = [text for text in requires(str(plan.torch)) if not FOR_GPU.match(Requirement(text).name)]
        return write(directory, name, f"{plan.torch}+cpu", needs)
    return write(directory, name, str(plan.bindings), ())  # setup.py of torch-ccl requires nothing


def write(directory: Path, name: str, version: str, requires: Iterable[str]) -> Path:
    """Write a wheel for any Python and system."""
    info = f"{name}-{version}.dist-info"
    texts = {f"{info}/METADATA": metadata(name, version, requires), f"{info}/WHEEL": WHEEL}
    files = {member: text.encode() for member, text in texts.items()}
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in {**files, f"{info}/RECORD": record.write(files, info).encode()}.items():
            archive.writestr(member, data)
    return path


def metadata(name: str, version: str, requires: Iterable[str]) -> str:
    """Return METADATA that says what a release requires, and nothing else."""
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {text}" for text in requires)]
    return "\n".join(["Metadata-Version: 2.1", *lines, ""])
