"""Which Debian packages an image has: chosen by apt in directories of its own, each kept by its sha256."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from urllib.parse import unquote

from images.debs import apt_get, mirrors
from images.debs.apt_get import ARCHIVES, Unverified
from images.foreign.grammar import Grammar
from images.host import fingerprint
from images.host.context import Context
from images.host.disk.faults import Unwritable
from images.host.errors import WorldFault
from images.host.store import Store, key_of, sha256

SIGNED = "signed debs"  # records of what indexes signed by Debian had

# What debootstrap calls minbase. Only the suite itself is asked: updates may say otherwise of a package's importance.
MINBASE = (
    "?narrow(?or(?archive(^{suite}$),?codename(^{suite}$)),?architecture(amd64),?or(?essential,?priority(required)))"
)
# apt's own control file calls it important, the archive's index required; an image without it could not be extended.
ALWAYS = ("apt",)

PRINTED = re.compile(
    r"'[^']+' (?P<file>(?P<package>[^_\s]+)_(?P<version>[^_\s]+)_(?P<arch>[^_\s]+)\.deb) \d+ (?P<hash>\S+)"
)
AWAY = "note: Debian's own mirror does not answer; its packages come from {}"


@dataclass(frozen=True, order=True)
class Deb:
    """A Debian package: name, version and architecture (Debian Policy 5.6), its file's name and sha256."""

    package: Annotated[str, Grammar(r"\A[a-z0-9][a-z0-9+.-]+\z")]
    version: Annotated[str, Grammar(r"\A([0-9]+:)?[0-9][0-9A-Za-z.+~:-]*\z")]
    architecture: Annotated[str, Grammar(r"\A[a-z0-9][a-z0-9-]*\z")]
    filename: str
    sha256: str


@dataclass(frozen=True)
class Choice:
    """The packages of a base in order, and the sources.list that it will have, of Debian's own mirror.

    `elsewhere` are the mirrors that were asked because Debian's own did not answer.
    """

    debs: tuple[Deb, ...]
    sources: str
    elsewhere: str = ""


def resolve(suite: str, packages: Sequence[str], context: Context) -> Choice:
    """Choose the packages of a base that is made here, once a day, and download each into the store.

    When the mirror cannot be reached, an older choice is better than none, and the user is told its day. Raises
    WorldFault where there is none, and Unverified or Unwritable even if there is one.
    """

    def choose() -> Choice:
        listed = mirrors.default_sources(suite, context.environ)
        names = (MINBASE.format(suite=suite), *ALWAYS, *packages)
        return _choose_from_mirrors(listed, suite, ("install", "--", *names), context)

    return _daily([suite, packages], context, choose)


def named(suite: str, names: Sequence[str], context: Context) -> tuple[Deb, ...]:
    """Choose single packages without what they depend on, once a day, and download each into the store.

    This needs no mmdebstrap on a machine whose own apt knows the suite. Raises WorldFault as `resolve` does.
    """

    def choose() -> Choice:
        listed = _known_sources(suite, context.environ)
        return _choose_from_mirrors(listed, suite, ("download", "--", *names), context)

    # Without the sources: a lock names no mirror of one machine.
    return _daily([suite, "alone", names], context, choose).debs if names else ()


def _known_sources(suite: str, environ: Mapping[str, str]) -> str:
    """Return Debian's own mirror as mmdebstrap names it, or without mmdebstrap that of the machine's apt.

    Raises WorldFault where neither does.
    """
    try:
        return mirrors.default_sources(suite, environ)
    except WorldFault:
        if near := mirrors.machine_sources(suite, environ):
            return near
        raise


def _daily(inputs: Sequence[object], context: Context, choose: Callable[[], Choice]) -> Choice:
    store, today = context.store, context.today.isoformat()
    key = key_of([*inputs, MINBASE, ALWAYS, fingerprint.sources()])
    record = store.record("debs", key)
    known = _known(record) if record else None
    if record and known and record["day"] == today and not missing(store, known.debs) and _is_final(known, context):
        return known
    try:
        found = choose()
    except WorldFault as fault:
        if record is None or known is None or isinstance(fault, Unverified | Unwritable):
            raise
        context.progress.say(f"note: Debian's packages as of {record['day']}: {fault.fact}: {fault.value}")
        return known
    store.write_record("debs", key, {"day": today, **asdict(found)})
    return found


def _known(record: Mapping[str, Any]) -> Choice:
    debs = tuple(Deb(**fields) for fields in record["debs"])
    return Choice(debs, record["sources"], record["elsewhere"])


def _is_final(known: Choice, context: Context) -> bool:
    """Return whether today's choice stays: from another mirror than Debian's only as long as that does not answer."""
    if not known.elsewhere:
        return True
    if apt_get.answers(context.store, known.sources, context.environ):
        return False
    context.progress.say(AWAY.format(known.elsewhere))
    return True


def missing(store: Store, debs: Sequence[Deb]) -> list[Deb]:
    """Return the packages that the store does not have whole."""
    return [deb for deb in debs if not store.whole(deb.sha256, deb.filename)]


def _choose_from_mirrors(listed: str, suite: str, selection: Sequence[str], context: Context) -> Choice:
    """Choose from Debian's own mirror; where that cannot be reached, from those of the machine's apt, with a note.

    In this order, so that everybody who reaches Debian's own mirror gets the same image.
    """
    store, environ = context.store, context.environ
    try:
        return Choice(_choose(store, listed, selection, environ), listed)
    except (Unverified, Unwritable):
        raise
    except WorldFault:
        near = mirrors.machine_sources(suite, environ)
        if set(mirrors.addresses(near)) <= set(mirrors.addresses(listed)):
            raise
        places = " and ".join(mirrors.addresses(near))
        context.progress.say(AWAY.format(places))
        return Choice(_choose(store, near, selection, environ), listed, places)


def _choose(store: Store, listed: str, selection: Sequence[str], environ: Mapping[str, str]) -> tuple[Deb, ...]:
    """Return the packages that apt-get takes, and download them; `selection` is its command with the names."""
    with store.aside(directory=True) as place:
        aside = place.resolve()
        apt_get.lay_out(aside, listed)
        apt_get.run(store, aside, ("update",), environ)
        found = chosen(apt_get.run(store, aside, ("--print-uris", *selection), environ))
        if lacking := missing(store, found):
            for deb in (deb for deb in found if deb not in lacking):  # apt does not download what it finds here
                shutil.copyfile(store.place(deb.sha256, deb.filename), aside / ARCHIVES / deb.filename)
            apt_get.run(store, aside, ("--yes", "--download-only", *selection), environ)
            for deb in lacking:
                path = aside / ARCHIVES / deb.filename
                if not path.is_file() or sha256(path) != deb.sha256:
                    raise WorldFault("apt did not download what it chose", deb.filename, "run it again")
                store.keep(path, deb.sha256, deb.filename)
        for deb in unsigned(store, found):
            store.write_record(SIGNED, deb.sha256, deb.filename)
    return found


def unsigned(store: Store, debs: Sequence[Deb]) -> list[Deb]:
    """Return the packages that no index signed by Debian had here so far: a bundle or a stranger's lock named them."""
    return [deb for deb in debs if store.record(SIGNED, deb.sha256) is None]


def chosen(printed: str) -> tuple[Deb, ...]:
    """Return what `apt-get --print-uris` printed, one line a package: URI, file name, size, hash.

    Raises WorldFault where it is not that, or the hash not a SHA256.
    """
    found = []
    for line in printed.splitlines():
        match = PRINTED.fullmatch(line.strip())
        kind, _, digest = match["hash"].partition(":") if match else ("", "", "")
        if match is None or kind != "SHA256" or not re.fullmatch("[0-9a-f]{64}", digest):
            raise WorldFault("cannot read what apt chose", line, "use apt 2.0 or newer (apt-get --version)")
        package, version, architecture = (unquote(match[name]) for name in ("package", "version", "arch"))
        found.append(Deb(package, version, architecture, match["file"], digest))
    return tuple(sorted(found))
