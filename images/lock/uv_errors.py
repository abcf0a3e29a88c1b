"""Why uv found no packages that go together: what can be read of its reasons, and what has to be asked.

uv (0.13) ends with 1 whatever fails, and has its reasons in no form but a text on stderr: steps `Because FACT and FACT,
we can conclude that CLAIM`, of which the last one says that the requirements cannot be met (PubGrub's derivation). All
facts are needed for that proof, also those of releases that are passed by on the way: a phrase among them is no cause.
So two things are read: which lines the conclusion is about, and which packages stand in a fact of which kind, with a
stranger's words for a release that he has withdrawn cut out. What is at fault, and what would help, is asked: uv is
given each line by itself, and each remedy before it is named (uv_errors.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from images.context import Context
from images.host.errors import Fault, UserFault, WorldFault, shortened
from images.lock import wheelhouse
from images.lock.index_pages import REACH, find_newest
from images.pip_config import Sources
from images.plan import requirements as users
from images.plan.catalog import load
from images.plan.plan import Plan, Request
from images.plan.planner import find_pair
from images.store.store import UV

# What uv says of a file, which may stand between the reasons; how these begin, and what comes after them.
NO_DAY, NO_SOLUTION = "is missing an upload date", "No solution found"
BEGINNING = ("No solution found when resolving dependencies", ":", " cause:")
HINT, END = " hint: ", ", we can conclude that your requirements are unsatisfiable."
# Kinds of facts, what stands behind a package with its versions in each, and how another fact begins behind `and`.
NO_WHEELS, YANKED, DEPENDS = "no wheels", "yanked", "depends"
OTHER_FACT = r"(?:all|any|only|we|\S+ (?:depends?|ha(?:s|ve)|was|were|is|are|requires?)) "
FACT = re.compile(
    r"(?<!\S)(?P<subject>\S+) (?:"
    r"(?P<wheels>ha(?:s|ve) no (?:usable )?wheels)(?=,| and | with |$)"
    r"|(?P<yanked>(?:was|were) yanked)"
    rf"|depends? on (?P<on>\S+(?: and (?!{OTHER_FACT})\S+)*))"
)
# Why a release was withdrawn, in the words of who has done it, and where they end.
REASON, REASON_END = " (reason: ", re.compile(rf"\)(?=,? we can | and {OTHER_FACT}|$)")
CLAIM = re.compile(r",? we can conclude that .*?(?=\. And because |\. Because | \(\d+\) |$)")
# Letters of the reasons that are read, from their end: versions of a package can make them as long as they like.
MOST = 40_000
# What uv calls the image and all lines together: the name of the project that it is given (uv.py).
IMAGE = "this-image"


class Fact(NamedTuple):
    """A fact of a kind: of which package, with versions as uv has them; on: what it depends on."""

    kind: str
    subject: str
    on: tuple[str, ...] = ()


def parse_reasons(said: str) -> tuple[Fact, ...]:
    """Read the facts of which uv has concluded that nothing fits, in their order, without what it has concluded."""
    reasons = "".join(_list_own_words(read_reasons(said)[-MOST:]))
    return tuple(_list_facts(CLAIM.sub(",", reasons)))


def _list_own_words(reasons: str) -> Iterator[str]:
    """Yield the parts that uv has written: what stands between them are words of strangers."""
    head, is_withdrawn, rest = reasons.partition(REASON)
    while is_withdrawn:
        yield head
        end = REASON_END.search(rest)
        head, is_withdrawn, rest = rest[end.end() if end else len(rest) :].partition(REASON)
    yield head


def _list_facts(premises: str) -> Iterator[Fact]:
    for match in FACT.finditer(premises):
        kind = NO_WHEELS if match["wheels"] else YANKED if match["yanked"] else DEPENDS
        on = tuple(word.rstrip(",.") for word in match["on"].split(" and ")) if match["on"] else ()
        yield Fact(kind, match["subject"], on)


def list_missing(said: str) -> list[str]:
    """List the packages without a wheel for the image; those of which another release is in the way have one."""
    facts = parse_reasons(said)
    depending = {name_package(fact.subject) for fact in facts if fact.kind == DEPENDS}
    missing = [fact.subject for fact in facts if fact.kind == NO_WHEELS]
    return list(dict.fromkeys(one for one in missing if name_package(one) not in depending))


def list_yanked(said: str) -> list[str]:
    """List the releases that were withdrawn."""
    return list(dict.fromkeys(fact.subject for fact in parse_reasons(said) if fact.kind == YANKED))


def list_required(said: str) -> list[str]:
    """List the names of the lines that the conclusion is about."""
    required = [on for fact in parse_reasons(said) if fact.subject == IMAGE for on in fact.on]
    return list(dict.fromkeys(map(name_package, required)))


def list_requiring(said: str) -> list[str]:
    """List what else has a part in the conclusion than the lines themselves."""
    return [fact.subject for fact in parse_reasons(said) if fact.subject != IMAGE]


def name_package(stated: str) -> str:
    """Return the name of a package that stands with versions or extras."""
    return canonicalize_name(re.split(r"[<>=!~\[]", stated, maxsplit=1)[0])


def shorten(said: str) -> str:
    """Return the reasons of uv, without its advice."""
    return shortened(read_reasons(said).removesuffix(END), 800)


def read_reasons(said: str) -> str:
    """Return the reasons of uv in one line, without what it says before and behind them."""
    line = " ".join(one.strip() for one in said.splitlines() if one.strip() and NO_DAY not in one)
    reasons = line.partition(HINT)[0]
    reasons = reasons.partition(BEGINNING[0])[2] or reasons
    for word in BEGINNING[1:]:
        reasons = reasons.removeprefix(word)
    return reasons.strip()


# Why uv found no packages, in the user's words.

# uv's own index, where none is configured: uv documentation, "Package indexes".
USUAL = "PyPI"
OTHERS = "other versions of your own (--requirements, --package)"
OR_OF_IMAGE = ", or of the image (--torch, --transformers)"
# Lines and releases that uv is asked about, one by one: a second or less for each.
MOST_ASKED = 5

# Ask uv again, for these requirements alone: what it says, and the versions, None where nothing fits.
Ask = Callable[[Sequence[str]], tuple[str, Mapping[str, str] | None]]


def explain(said: str, plan: Plan, sources: Sources, context: Context, ask: Ask) -> Fault:
    """Return what failed: an address, a place without days, a requirement that nothing meets, or uv.

    Raises UserFault when the wheelhouse has what was looked for, and it cannot be used.
    """
    if directory := context.settings.wheelhouse:
        wanted = [*_pins("\n".join(plan.requirements)), *_pins(said)]
        wheelhouse.refuse_unfit(Path(directory), wanted, plan.python, plan.glibc, plan.platform)
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
        if plan.user_packages:
            return _of_users(said, plan, sources, context, ask)
        remedy = f"another release than --transformers {plan.transformers}, or --wheelhouse with what is missing"
        return UserFault("no set of packages fits", shortened(said, 800), remedy)
    cache = context.store.root / UV
    remedy = f"correct what it names; more memory, if a signal ended it; or without its cache (rm -rf {cache})"
    return WorldFault("uv failed", shortened(said, 800), remedy)


def _of_users(said: str, plan: Plan, sources: Sources, context: Context, ask: Ask) -> UserFault:
    """Return why the user's own packages do not fit an image that alone has been resolved.

    They are asked for alone: what they have then is asked for beside the image, so that uv speaks of no other releases.
    """
    wanted = users.parse_wanted(plan.user_packages)
    said_alone, alone = ask(wanted)
    if alone is None and NO_SOLUTION in said_alone:
        newest = tuple(f"{name}=={version}" for name, version in find_newest(plan, sources).items())
        told, _ = ask((*wanted, *newest))
        return _of_users_alone(told if NO_SOLUTION in told else said_alone, plan, context, ask, newest)
    if alone:
        names = {canonicalize_name(Requirement(text).name) for text in wanted} & alone.keys()
        again, _ = ask((*plan.requirements, *wanted, *(f"{name}=={alone[name]}" for name in sorted(names))))
        said = again if NO_SOLUTION in again else said
    pair = _other_image(said, plan, alone or {})
    remedy = f"{pair}{_find_other(said, plan, ask)}{OTHERS}{'' if pair else OR_OF_IMAGE}"
    return UserFault("packages of your own do not go with the image", _list_reasons(said, plan), remedy)


def _of_users_alone(said: str, plan: Plan, context: Context, ask: Ask, newest: Sequence[str]) -> UserFault:
    """Return why the user's own packages cannot be had together even without the image."""
    at_fault = _ask_each(said, plan, ask, newest)
    if command := how_to_build(at_fault, context):
        fact = "a package of your own has no wheel for the image"
        return UserFault(fact, _list_reasons(at_fault, plan), f"build one: {command}")
    remedy = f"{_find_withdrawn(at_fault, plan, ask) or _find_other(at_fault or said, plan, ask)}{OTHERS}"
    if at_fault:
        return UserFault("a package of your own requires what cannot be had", _list_reasons(at_fault, plan), remedy)
    return UserFault("packages of your own do not go together", _list_reasons(said, plan), remedy)


def _ask_each(said: str, plan: Plan, ask: Ask, newest: Sequence[str]) -> str:
    """Return what uv says of the first line of a conclusion that cannot be had by itself; empty where each can.

    newest: releases that are asked for with the lines that leave a choice.
    """
    wanted, required = users.parse_wanted(plan.user_packages), list_required(said)
    if len(wanted) == 1:
        return said
    if not list_requiring(said):  # the lines exclude each other, whatever each of them requires
        return ""
    for line in [line for line in wanted if _name_of(line) in required][:MOST_ASKED]:
        told, chosen = ask((line, *(one for one in newest if _name_of(one) == _name_of(line))))
        if chosen is None and NO_SOLUTION in told:
            return told
    return ""


def _find_withdrawn(said: str, plan: Plan, ask: Ask) -> str:
    """Return the remedy of a withdrawn release that would do: who asks for it by its version gets it."""
    wanted = users.parse_wanted(plan.user_packages)
    for release in list_yanked(said)[:MOST_ASKED]:
        if "==" in release and ask((*plan.requirements, *wanted, release))[1]:
            return f"--package {release} as well, which takes a release that was withdrawn, or "
    return ""


def _find_other(said: str, plan: Plan, ask: Ask) -> str:
    """Return the remedy of another version of one of the lines, with which all others go, and the image."""
    wanted = users.parse_wanted(plan.user_packages)
    blamed = [line for line in wanted if Requirement(line).specifier and _name_of(line) in list_required(said)]
    for line in blamed[:MOST_ASKED]:
        free = Requirement(line)
        free.specifier = SpecifierSet()
        others = [one for one in wanted if _name_of(one) != _name_of(line)]
        if chosen := ask((*plan.requirements, *others, str(free)))[1]:
            lines = " and ".join(one for one in wanted if _name_of(one) == _name_of(line))
            return f"{_name_of(line)}=={chosen[_name_of(line)]} in place of {lines}, or "
    return ""


def _name_of(line: str) -> str:
    return canonicalize_name(Requirement(line).name)


def how_to_build(said: str, context: Context) -> str:
    """Return how to have the wheels that are missing by what uv says; empty where none are."""
    missing = list_missing(said)
    directory = shlex.quote(context.settings.wheelhouse or "wheels")
    named = f"pip wheel --no-deps --wheel-dir {directory} {shlex.join(missing)}"
    return f"{named}, then --wheelhouse {directory}" if missing else ""


def _other_image(said: str, plan: Plan, alone: Mapping[str, str]) -> str:
    """Return the releases of torch or transformers that the user's packages take without the image, as a remedy."""
    blamed = {"torch", "transformers"} & alone.keys() & {*list_required(said)}
    wanted = {name: Version(alone[name].partition("+")[0]) for name in blamed}

    def fits(torch: Version, transformers: Version) -> bool:
        return wanted.items() <= {"torch": torch, "transformers": transformers}.items()

    request = Request(platform=plan.platform, torch=plan.torch, base=plan.base, python=plan.python)
    pair = find_pair(fits, request, load().on(plan.platform)) if wanted else None
    return f"--torch {pair[0].version} --transformers {pair[1].version}, or " if pair else ""


def _list_reasons(said: str, plan: Plan) -> str:
    """Return the reasons of uv behind the lines that it speaks of; what only bounds others is in them as if stated."""
    named = [
        requirement
        for requirement in map(users.parse_line, plan.user_packages)
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
