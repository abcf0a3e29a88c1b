"""Why uv found no packages, in the user's words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from images.context import Context
from images.host.errors import Fault, UserFault, WorldFault
from images.host.text import shortened
from images.lock import wheelhouse
from images.lock.index_pages import REACH
from images.lock.newest import find_newest
from images.plan import requirements as users
from images.plan.catalog import load
from images.plan.choose import find_pair
from images.plan.plan import Plan
from images.plan.request import Request
from images.servers.pip_config import Sources
from images.store.store import UV

# uv's own index, where none is configured: uv documentation, "Package indexes".
USUAL = "PyPI"
# What uv says: of a file, and where nothing meets all requirements; other failures are its own or the machine's.
NO_DAY, NO_SOLUTION = "is missing an upload date", "No solution found"
# What stands behind a package, or some of its releases, in the chain of reasons.
NO_WHEELS = ("has no usable wheels", "have no usable wheels", "has no wheels", "have no wheels")
DEPENDING, YANKED = ("depends on", "depend on"), ("was yanked",)
BEGINNING = ("No solution found when resolving dependencies", ":", " cause:")
HINT, END = " hint: ", ", we can conclude that your requirements are unsatisfiable."
OR_OF_IMAGE = ", or of the image (--torch, --transformers)"

# Ask uv again, for these requirements alone: what it says, and the versions, None where nothing fits.
Ask = Callable[[Sequence[str]], tuple[str, Mapping[str, str] | None]]


def explain(said: str, pins: Plan, sources: Sources, context: Context, ask: Ask) -> Fault:
    """Return what failed: an address, a place without days, a requirement that nothing meets, or uv.

    Raises UserFault when the wheelhouse has what was looked for, and it cannot be used.
    """
    if directory := context.settings.wheelhouse:
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
            return _of_users(said, pins, sources, context, ask)
        remedy = f"another release than --transformers {pins.transformers}, or --wheelhouse with what is missing"
        return UserFault("no set of packages fits", shortened(said, 800), remedy)
    cache = context.store.root / UV
    remedy = f"correct what it names; more memory, if a signal ended it; or without its cache (rm -rf {cache})"
    return WorldFault("uv failed", shortened(said, 800), remedy)


def _of_users(said: str, pins: Plan, sources: Sources, context: Context, ask: Ask) -> UserFault:
    """Return why the user's own packages do not fit an image that alone has been resolved.

    They are asked for alone: what they have then is asked for beside the image, so that uv speaks of no other releases.
    """
    wanted = users.parse_wanted(pins.user_packages)
    said_alone, alone = ask(wanted)
    if alone is None and NO_SOLUTION in said_alone:
        newest, _ = ask((*wanted, *(f"{name}=={version}" for name, version in find_newest(pins, sources).items())))
        said = newest if NO_SOLUTION in newest else said_alone
        if command := how_to_build(said, context):
            fact = "a package of your own has no wheel for the image"
            return UserFault(fact, _explained(said, pins), f"build one: {command}")
    if alone:
        names = {canonicalize_name(Requirement(text).name) for text in wanted} & alone.keys()
        again, _ = ask((*pins.requirements, *wanted, *(f"{name}=={alone[name]}" for name in sorted(names))))
        said = again if NO_SOLUTION in again else said
    remedy = _other_image(said, pins, alone or {})
    if yanked := _list_before(said, YANKED):
        remedy = f"--package {yanked[0]} as well, which takes a release that was withdrawn; or {remedy}"
    return UserFault("packages of your own do not go with the image", _explained(said, pins), remedy)


def shorten(said: str) -> str:
    """Return the reasons of uv, without its advice."""
    return shortened(_read_reasons(said).removesuffix(END), 800)


def _read_reasons(said: str) -> str:
    line = " ".join(one.strip() for one in said.splitlines() if one.strip() and NO_DAY not in one)
    reasons = line.partition(HINT)[0]
    reasons = reasons.partition(BEGINNING[0])[2] or reasons
    for word in BEGINNING[1:]:
        reasons = reasons.removeprefix(word)
    return reasons.strip()


def _list_before(said: str, phrases: Collection[str]) -> list[str]:
    """List the words that stand before one of some phrases in the reasons of uv, each once."""
    words, sizes = _read_reasons(said).split(), {len(phrase.split()) for phrase in phrases}
    found = [
        word
        for at, word in enumerate(words, 1)
        if any(" ".join(words[at : at + size]).rstrip(",") in phrases for size in sizes)
    ]
    return list(dict.fromkeys(found))


def _name_of(requirement: str) -> str:
    return re.split("[<>=!~]", requirement, maxsplit=1)[0]


def how_to_build(said: str, context: Context) -> str:
    """Return how to have the wheels that are missing by what uv says; empty where none are.

    A package of which another release is in the way, too, has a wheel that would do but for that.
    """
    depending = {*map(_name_of, _list_before(said, DEPENDING))}
    missing = [one for one in _list_before(said, NO_WHEELS) if _name_of(one) not in depending]
    directory = shlex.quote(context.settings.wheelhouse or "wheels")
    named = f"pip wheel --no-deps --wheel-dir {directory} {shlex.join(missing)}"
    return f"{named}, then --wheelhouse {directory}" if missing else ""


def _other_image(said: str, pins: Plan, alone: Mapping[str, str]) -> str:
    """Return the remedy: a release of torch or transformers that the user's packages take without the image."""
    blamed = {name for name in ("torch", "transformers") if name in alone and f"depends on {name}==" in said}
    wanted = {name: Version(alone[name].partition("+")[0]) for name in blamed}

    def fits(torch: Version, transformers: Version) -> bool:
        return wanted.items() <= {"torch": torch, "transformers": transformers}.items()

    request = Request(platform=pins.platform, torch=pins.torch, base=pins.base, python=pins.python)
    pair = find_pair(fits, request, load().on(pins.platform)) if wanted else None
    image = f"--torch {pair[0].version} --transformers {pair[1].version}, or " if pair else ""
    return f"{image}other versions of your own (--requirements, --package){'' if pair else OR_OF_IMAGE}"


def _explained(said: str, pins: Plan) -> str:
    """Return the reasons of uv behind the lines that it speaks of; what only bounds others is in them as if stated."""
    named = [
        requirement
        for requirement in map(users.parse_line, pins.user_packages)
        if re.search(rf"(?<![\w.-]){re.escape(requirement.name)}(?![\w.-])", said)
    ]
    lines = (f"{one.requirement}{f' ({users.CONSTRAINT})' if one.bounds else ''}" for one in named)
    return f"asked: {', '.join(lines)}: {shorten(said)}"


def _pins(text: str) -> list[tuple[str, str]]:
    """Find each name==version in a text."""
    return re.findall(r"(?<![\w.-])([\w.-]+)==([\w.!+-]*\w)", text)


def _undated(log: str) -> list[str]:
    """Name the packages that were left out because their files have no day of upload."""
    undated = {canonicalize_name(file.partition("-")[0]) for file in re.findall(rf"`([^\s`]+)` {NO_DAY}", log)}
    left_out = re.findall(r"`([^\s`]+)` was filtered by `exclude-newer`", log)
    return sorted({name for name in left_out if canonicalize_name(name) in undated})
