"""Which Debian packages an image has, each kept by its sha256: those named, and what apt would install with them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from images.context import Context
from images.debian import archive, deb
from images.debian.archive import Index, Paragraph, Unverified
from images.debian.control import Relation, parse_paragraphs, parse_provides, parse_relations, version_key
from images.debian.deb import Deb, Debian
from images.host.background import background
from images.host.errors import WorldFault
from images.platforms import Platform
from images.store.store import Store, key_of


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


SIGNED = "signed debs"  # records of what indexes signed by Debian had
# apt's own control file calls it important, the archive's index required; an image without it could not be extended.
ALWAYS = ("apt",)
AT_ONCE = 8  # downloads: most packages are small
# What Debian's Python needs to compile: what it imports at its start, and what it is linked with.
PYTHON = ("python{0}-minimal", "libpython{0}-minimal", "libc6", "libexpat1", "zlib1g")


class Question(NamedTuple):
    """The packages to resolve in a suite: with all that a system of them needs, or `alone`."""

    suite: str
    platform: Platform
    names: tuple[str, ...]
    alone: bool = False

    @property
    def inputs(self) -> list[object]:
        """Return what an answer depends on, besides the indexes."""
        return [self.suite, str(self.platform), self.names, self.alone]

    def answer(self, universe: Universe) -> list[Paragraph]:
        """Choose the packages, in the order of their names, or raise Unsolvable."""
        if self.alone:
            chosen = {row["Package"]: row for row in map(universe.named, self.names)}
            return [chosen[name] for name in sorted(chosen)]
        names = (*universe.essential(self.suite), *ALWAYS, *self.names)
        return closure(universe, list(dict.fromkeys(names)))


def resolve_base(suite: str, packages: Sequence[str], platform: Platform, context: Context) -> Debian:
    """Choose what a base is made of, and download each package into the store.

    Raises WorldFault as `resolve_single` does.
    """
    # Without the mirror that was asked: a lock and an image name no mirror of one machine.
    sources = archive.format_sources(archive.list_sources(suite))
    debs = _chosen(Question(suite, platform, tuple(packages)), context)
    return Debian(suite, tuple(packages), sources, debs)


def resolve_single(suite: str, names: Sequence[str], platform: Platform, context: Context) -> tuple[Deb, ...]:
    """Choose single packages without what they depend on, and download each into the store.

    Where no mirror can be reached, an older choice is better than none, and the user is told its day. Raises WorldFault
    where there is none, and Unverified even if there is one.
    """
    return _chosen(Question(suite, platform, tuple(names), alone=True), context) if names else ()


def python_packages(python: str) -> list[str]:
    """Return the packages that Debian's Python (3.X) needs to compile."""
    return [name.format(python) for name in PYTHON]


def download_packages(suite: str, debs: Iterable[Deb], platform: Platform, context: Context) -> None:
    """Download packages that are known by their sha256, as far as a mirror still has them, or Debian's snapshots do.

    If the user names a mirror, nothing else is used. Raises WorldFault where no mirror can be reached.
    """
    debs = list(debs)
    wanted = {one.sha256: one for one in debs}
    addresses = {
        wanted[row["SHA256"]]: f"{index.source.uri}/{quote(row['Filename'])}"
        for index in _indexes(suite, platform, context)
        for row in index.rows()
        if row["SHA256"] in wanted
    }
    _note_signed(context.store, list(addresses))
    _download_missing(addresses, context)
    if not archive.read_named(context.environ):
        _download_missing(archive.places(list_missing_debs(context.store, debs), context), context)


def list_missing_debs(store: Store, debs: Sequence[Deb]) -> list[Deb]:
    """Return the packages that the store does not have whole."""
    return [one for one in debs if not store.verified(one.sha256, one.filename)]


def read_control(store: Store, package: Deb) -> str:
    """Return what a package says of itself (deb-control(5)); the store keeps what was read.

    Raises WorldFault when the store does not have the package, or when it is no package.
    """

    def read() -> str:
        return deb.load_control(require_package(store, package)).text("control")

    return str(store.cached("controls", package.sha256, read).value)


def find_provider(store: Store, debs: Iterable[Deb], name: str) -> Deb | None:
    """Return the package of a name among some, or the one that provides it; None where none does.

    Raises WorldFault as `read_control` does.
    """
    rows = [(one, next(parse_paragraphs(read_control(store, one)), {})) for one in debs]
    providers = [
        one for one, fields in rows if one.package == name or name in parse_provides(fields.get("provides", ""))
    ]
    return min(providers, key=lambda one: one.package != name, default=None)


def require_package(store: Store, package: Deb) -> Path:
    """Return where a package lies in the store.

    Raises WorldFault when it is not there.
    """
    if path := store.blob(package.sha256, package.filename):
        return path
    raise WorldFault("a package of Debian is missing", package.package, "build again, or make a new lock")


def list_unsigned(suite: str, debs: Sequence[Deb], platform: Platform, context: Context) -> list[Deb]:
    """Return the packages that are in no index signed by Debian, now or earlier.

    A bundle or a lock of somebody else named them. Indexes are downloaded only if a network is allowed.
    """
    if (unrecorded := list_unrecorded(context.store, debs)) and context.pip is not None:
        try:
            download_packages(suite, unrecorded, platform, context)
        except Unverified:
            raise
        except WorldFault:
            pass  # without a network, what is remembered has to do
    return list_unrecorded(context.store, debs)


def list_unrecorded(store: Store, debs: Sequence[Deb]) -> list[Deb]:
    """Return the packages that no index signed by Debian had here so far."""
    return [one for one in debs if store.record(SIGNED, one.sha256) is None]


def _note_signed(store: Store, debs: Sequence[Deb]) -> None:
    for one in list_unrecorded(store, debs):
        store.write_record(SIGNED, one.sha256, one.filename)


def _chosen(question: Question, context: Context) -> tuple[Deb, ...]:
    """Choose anew where an index has changed; remember the choice for days on which no mirror can be reached."""
    store, last = context.store, key_of(question.inputs)
    try:
        debs = _choose_now(question, context)
    except WorldFault as fault:
        record = store.record("last debs", last)
        if record is None or isinstance(fault, Unverified):
            raise
        context.progress.say(f"note: Debian's packages as of {record['day']}: {fault.fact}: {fault.value}")
        return tuple(Deb(**fields) for fields in record["debs"])
    store.write_record("last debs", last, {"day": context.today.isoformat(), "debs": [asdict(one) for one in debs]})
    return debs


def _choose_now(question: Question, context: Context) -> tuple[Deb, ...]:
    indexes = _indexes(question.suite, question.platform, context)
    for index in indexes:
        archive.refuse_other_days(index, context)
    inputs = [*question.inputs, [index.digest for index in indexes]]
    rows = context.store.cached("choices", inputs, lambda: _as_rows(question, indexes)).value
    archives = {index.source.suite: index.source.uri for index in indexes}
    addresses = {Deb(**fields): f"{archives[suite]}/{path}" for fields, suite, path in rows}
    _note_signed(context.store, list(addresses))
    _download_missing(addresses, context)
    return tuple(addresses)


def _as_rows(question: Question, indexes: Sequence[Index]) -> list[Any]:
    """Return a choice as JSON can hold it: what a lock says of each package, and suite and path of its file."""
    try:
        universe = Universe(row for index in indexes for row in index.rows())
        chosen = {_deb_of_row(row): row for row in question.answer(universe)}
    except (Unsolvable, ValueError) as error:
        remedy = "other packages in the row of this base in images/versions.toml, or run it again later"
        raise WorldFault("Debian's packages do not go together", f"{question.suite}: {error}", remedy) from error
    return [[asdict(one), row.suite, quote(row["Filename"])] for one, row in chosen.items()]


def _deb_of_row(row: Paragraph) -> Deb:
    name, version, architecture = row["Package"], row["Version"], row["Architecture"]
    kept_as = f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"  # as apt calls it
    return Deb(name, version, architecture, kept_as, row["SHA256"])


def _indexes(suite: str, platform: Platform, context: Context) -> list[Index]:
    """Download the indexes of a suite: from the mirror that the user names, else from Debian's."""
    sources = archive.choose_mirrors(suite, context.environ)
    return [archive.fetch_index(source, platform.architecture, context) for source in sources]


def _download_missing(places: Mapping[Deb, str], context: Context) -> None:
    """Download what the store does not have, several at a time; the first fault ends what has not begun."""
    lacking = list_missing_debs(context.store, list(places))
    with background(AT_ONCE) as start:
        tasks = [start(partial(archive.fetch_file, places[one], one.sha256, one.filename, context)) for one in lacking]
        for task in tasks:
            task.result()
