"""Why uv found no packages, in the user's words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from images.host.errors import Fault, UserFault, WorldFault
from images.host.text import shortened
from images.lock import wheelhouse
from images.lock.index_pages import REACH
from images.plan import requirements as users
from images.plan.plan import Plan
from images.servers.pip_config import Sources
from images.store.store import UV

# uv's own index, where none is configured: uv documentation, "Package indexes".
USUAL = "PyPI"
# What uv says: of a file, and where nothing meets all requirements; other failures are its own or the machine's.
ONLY_SOURCE = re.compile(r"no (?:usable )?wheels|building from source is disabled")
NO_DAY, NO_SOLUTION = "is missing an upload date", "No solution found"


def explain(said: str, pins: Plan, sources: Sources, root: Path, directory: str | None = None) -> Fault:
    """Return what failed: an address, a place without days, a requirement that nothing meets, or uv.

    `directory` is the wheelhouse. Raises UserFault when it has what was looked for, and it cannot be used.
    """
    if directory:
        wanted = [*_pins("\n".join(pins.requirements)), *_pins(said)]
        wheelhouse.refuse_unfit(Path(directory), wanted, pins.python, pins.glibc, pins.platform)
    if failed := re.search(r"Failed to fetch: `?(\S+?)`?$(.*)", said, re.MULTILINE | re.DOTALL):
        causes = [f" ({cause.partition(' for url')[0]})" for cause in re.findall("cause: (.+)", failed[2])]
        value = failed[1] + ["", *causes][-1]  # the last one says most
        return WorldFault("cannot reach a package index", value, REACH)
    if undated := _undated(said):
        fact = "nothing can be resolved as of a day from an index that does not say when its files were uploaded"
        places = ", ".join((sources.index or USUAL, *sources.extra))
        remedy = "--lock FILE, made where an index says it (PyPI does); or --wheelhouse DIR with all wheels"
        return UserFault(fact, f"{', '.join(undated)} (asked: {places})", remedy)
    said = " ".join(line.strip() for line in said.splitlines() if NO_DAY not in line)
    if NO_SOLUTION in said:
        if pins.user_packages:
            return _of_users(said, pins.user_packages)
        remedy = f"another release than --transformers {pins.transformers}, or --wheelhouse with what is missing"
        return UserFault("no set of packages fits", shortened(said, 800), remedy)
    remedy = f"correct what it names; more memory, if a signal ended it; or without its cache (rm -rf {root / UV})"
    return WorldFault("uv failed", shortened(said, 800), remedy)


def _of_users(said: str, lines: Sequence[str]) -> UserFault:
    """Return why the user's own packages do not fit an image that alone has been resolved.

    What only bounds others is in uv's text as if they stated it themselves: it is named before.
    """
    named = [
        requirement
        for requirement in map(users.parse_line, lines)
        if re.search(rf"(?<![\w.-]){re.escape(requirement.name)}(?![\w.-])", said)
    ]
    asked = ", ".join(
        f"{requirement.requirement}{f' ({users.CONSTRAINT})' if requirement.bounds else ''}" for requirement in named
    )
    said = f"asked: {asked}: {shortened(said, 800)}"
    if ONLY_SOURCE.search(said):
        remedy = "build one: pip wheel --no-deps --wheel-dir DIR NAME==VERSION, then --wheelhouse DIR"
        return UserFault("a package of your own has no wheel for the image", said, remedy)
    remedy = "other versions of your own (--requirements, --package), or of the image (--torch, --transformers)"
    return UserFault("packages of your own do not go with the image", said, remedy)


def _pins(text: str) -> list[tuple[str, str]]:
    """Find each name==version in a text."""
    return re.findall(r"(?<![\w.-])([\w.-]+)==([\w.!+-]*\w)", text)


def _undated(log: str) -> list[str]:
    """Name the packages that were left out because their files have no day of upload."""
    undated = {canonicalize_name(file.partition("-")[0]) for file in re.findall(rf"`([^\s`]+)` {NO_DAY}", log)}
    left_out = re.findall(r"`([^\s`]+)` was filtered by `exclude-newer`", log)
    return sorted({name for name in left_out if canonicalize_name(name) in undated})
