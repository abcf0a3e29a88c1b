"""Why uv found no packages that go together: what of its reasons can be read, and what has to be asked.

uv (0.13) ends with 1 whatever fails, and has its reasons in no form but a text on stderr: steps `Because FACT and FACT,
we can conclude that CLAIM`, of which the last one says that the requirements cannot be met (PubGrub's derivation). All
facts are needed for that proof, also those of releases that are passed by on the way: a phrase among them is no cause.
So two things are read: which lines the conclusion is about, and which packages stand in a fact of which kind, with a
stranger's words for a release that he has withdrawn cut out. What is at fault, and what would help, is asked: uv is
given each line by itself, and each remedy before it is named (uv_errors.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from packaging.utils import canonicalize_name

from images.host.errors import shortened

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
