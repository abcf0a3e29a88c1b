"""Which packages are installed with some others: apt's own rule for an empty system, without Recommends."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from images.debian.archive import Paragraph
from images.debian.control import Relation, parse_relations, version_key


class Unsolvable(Exception):
    """Packages cannot be installed together; the text says why."""


class Universe:
    """The newest of each package in some indexes, and which packages provide what (Debian Policy 7.5)."""

    def __init__(self, rows: Iterable[Paragraph]) -> None:
        self.candidates: dict[str, Paragraph] = {}
        self._essential: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row.get("Essential") == "yes" or row.get("Priority") == "required":
                self._essential[row.suite].append(row["Package"])
            known = self.candidates.get(row["Package"])
            if known is None or version_key(row["Version"]) > version_key(known["Version"]):
                self.candidates[row["Package"]] = row
        self._provides: dict[str, list[tuple[Paragraph, str]]] = defaultdict(list)
        for row in self.candidates.values():
            for (one,) in parse_relations(row.get("Provides")):
                self._provides[one.name].append((row, one.version))

    def essential(self, suite: str) -> list[str]:
        """Return the packages without which no system works: those that a suite calls essential or required."""
        return self._essential[suite]

    def named(self, name: str) -> Paragraph:
        """Return the package of a name, or the only one that provides it, as apt-get does.

        Raises Unsolvable where there is none, or more than one.
        """
        matches = {row["Package"]: row for row in self.matching(Relation(name))}
        if name in matches or len(matches) == 1:
            return matches.get(name) or next(iter(matches.values()))
        several = f", which {' and '.join(sorted(matches))} provide" if matches else ""
        raise Unsolvable(f"there is no package {name}{several}")

    def matching(self, one: Relation) -> list[Paragraph]:
        """Return what a relation means: the package of that name first, then what provides it."""
        candidate = self.candidates.get(one.name)
        matches = [candidate] if candidate and one.holds(candidate["Version"]) else []
        provided = self._provides.get(one.name, ())
        return matches + [row for row, version in provided if not one.operator or (version and one.holds(version))]


def closure(universe: Universe, names: Sequence[str]) -> list[Paragraph]:
    """Return the packages that are installed for `names`, in the order of their names.

    All of `names` come first, and then for each dependency that nothing fulfils yet the first alternative there is.
    Raises Unsolvable where there is none, or where two packages are in conflict.
    """
    chosen = {row["Package"]: row for row in map(universe.named, names)}
    ahead = deque(chosen.values())
    while ahead:
        row = ahead.popleft()
        for group in (*parse_relations(row.get("Pre-Depends")), *parse_relations(row.get("Depends"))):
            candidates = [candidate for one in group for candidate in universe.matching(one)]
            if not candidates:
                raise Unsolvable(f"{row['Package']} needs {' or '.join(one.name for one in group)}")
            if not any(candidate["Package"] in chosen for candidate in candidates):
                chosen[candidates[0]["Package"]] = candidates[0]
                ahead.append(candidates[0])
    _refuse_conflicts(universe, chosen)
    return [chosen[name] for name in sorted(chosen)]


def _refuse_conflicts(universe: Universe, chosen: Mapping[str, Paragraph]) -> None:
    for row in chosen.values():
        for (one,) in (*parse_relations(row.get("Conflicts")), *parse_relations(row.get("Breaks"))):
            for other in universe.matching(one):
                if other["Package"] in chosen and other is not row:
                    raise Unsolvable(f"{row['Package']} does not go with {other['Package']}")
