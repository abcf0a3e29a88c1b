"""What a later pip install must leave as it is: PIP_CONSTRAINT, from what the wheels themselves require."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from images.lock.lock import BINDINGS, IPEX, Lock
from images.plan import markers

# What training works with. Another release of one of these, or of what it requires, is a pair that nobody has tested.
ROOTS = ("torch", "transformers", "accelerate", BINDINGS, IPEX)
BY_MAJOR = ("numpy",)  # its extensions work with every release of the same major version (NumPy, "NEP 53")


def format_constraints(lock: Lock, requires: Mapping[str, Sequence[str]]) -> str:
    """Return the file: a line for each package that is held.

    `requires` maps a project to the Requires-Dist of its wheel. What a base has itself has no wheel, and is held as it
    is.
    """
    held = _closure(requires, lock) | ({*lock.base_image.kept} if lock.base_image else set())
    versions = {artifact.name: artifact.version for artifact in lock.artifacts if artifact.name in held}
    pins = {name: f"{Version(version).major}.*" if name in BY_MAJOR else version for name, version in versions.items()}
    return "".join(f"{name}=={version}\n" for name, version in pins.items())


def _closure(requires: Mapping[str, Sequence[str]], lock: Lock) -> set[str]:
    """Return ROOTS, and all that they require in this image, and that in turn."""
    closure, ahead = set[tuple[str, str]](), [(name, "") for name in ROOTS]
    while ahead:
        project, extra = ahead.pop()
        if (project, extra) not in closure:
            closure.add((project, extra))
            for line in requires.get(project, ()):
                ahead += _required(line, extra, lock)
    return {project for project, _ in closure}


def _required(line: str, extra: str, lock: Lock) -> Iterator[tuple[str, str]]:
    """Yield what a line requires, for each extra and for none; one that cannot be read as a requirement counts."""
    try:
        requirement = Requirement(line)
    except (InvalidRequirement, RecursionError):
        if name := re.match(r"[A-Za-z0-9][\w.-]*", line, re.ASCII):
            yield canonicalize_name(name[0]), ""
        return
    if markers.applies(requirement, lock.python, lock.platform, extra):
        yield from ((canonicalize_name(requirement.name), part) for part in ("", *requirement.extras))
