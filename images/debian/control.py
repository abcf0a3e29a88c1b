"""What control files say: paragraphs, relations between packages, and the order of versions (Debian Policy 5 and 7)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FIELD = re.compile(r"^([!-9;-~]+):[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE)
RELATION = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9+.-]*)(?::[a-z0-9-]+)?\s*(?:\(\s*(?P<operator><<|<=|=|>=|>>)\s*(?P<version>[^\s)]+)\s*\))?"
)
SOURCE = re.compile(r"([a-z0-9][a-z0-9+.-]+)(?:\s*\(([A-Za-z0-9.+~:-]+)\))?")
BLANK = re.compile(r"\n[ \t\r]*\n")
PART = re.compile(r"([^0-9]*)([0-9]*)")

Characters = tuple[int, ...]
Key = tuple[int, tuple[tuple[Characters, int], ...], tuple[tuple[Characters, int], ...]]
END: tuple[Characters, int] = ((0,), 0)


def parse_fields(paragraph: str) -> dict[str, str]:
    """Return the fields of one paragraph; a value keeps the lines that it goes on in, with what they begin with."""
    return dict(FIELD.findall(paragraph))


def parse_paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield each paragraph of a text as field name in lower case -> value (deb-control(5))."""
    for block in BLANK.split(text):
        if fields := parse_fields(block):
            yield {name.lower(): value.strip() for name, value in fields.items()}


def source(paragraph: Mapping[str, str]) -> tuple[str, str]:
    """Return name and version of a package's source, which advisories name: by default its own."""
    match = SOURCE.fullmatch(paragraph.get("source", ""))
    return (match[1], match[2] or paragraph["version"]) if match else (paragraph["package"], paragraph["version"])


@functools.cache
def version_key(version: str) -> Key:
    """Return what versions are ordered by (deb-version(7)), so that those are equal which dpkg calls equal."""
    epoch, colon, rest = version.partition(":")
    upstream, hyphen, revision = (rest if colon else version).rpartition("-")
    if not hyphen:
        upstream, revision = revision, ""
    return int(epoch) if colon else 0, _split_version(upstream), _split_version(revision)


def _split_version(text: str) -> tuple[tuple[Characters, int], ...]:
    """Split into what is no number and numbers: ~ comes before the end, that before letters, these before the rest."""
    weights = [((*map(_weight, other), 0), int(number or 0)) for other, number in PART.findall(text)]
    while weights and weights[-1] == END:
        weights.pop()
    return (*weights, END, END)  # two, since a zero in front is like the first


def _weight(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 0x110000


@dataclass(frozen=True)
class Relation:
    """One package that is depended on, or conflicted with; `operator` and `version` are empty where any will do."""

    name: str
    operator: str = ""
    version: str = ""

    def holds(self, version: str) -> bool:
        """Return whether a version of that package is meant."""
        one, other = version_key(version), version_key(self.version) if self.operator else version_key(version)
        return {
            "<<": one < other, "<=": one <= other, "=": one == other, ">=": one >= other, ">>": one > other, "": True,
        }[self.operator]  # fmt: skip


def parse_relations(text: str) -> tuple[tuple[Relation, ...], ...]:
    """Return what all has to hold, and for each of it the alternatives in their order.

    Raises ValueError for what is no relation.
    """
    groups = (group.split("|") for group in text.split(",") if group.strip())
    return tuple(tuple(_relation(one.strip()) for one in group) for group in groups)


def parse_provides(text: str) -> set[str]:
    """Return the names of the virtual packages in a field `Provides`."""
    return {match["name"] for one in text.split(",") if (match := RELATION.fullmatch(one.strip()))}


def _relation(text: str) -> Relation:
    match = RELATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is no relation to a package")
    return Relation(match["name"], match["operator"] or "", match["version"] or "")
