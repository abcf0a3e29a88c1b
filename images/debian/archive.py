"""Debian's archive: its mirrors, the signed index, and snapshots of what the mirrors have no longer."""

from __future__ import annotations

import datetime
import lzma
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import quote

import pysequoia

from images.context import Context
from images.debian import control, deb
from images.debian.deb import Deb
from images.foreign import documents
from images.host import limits
from images.host.errors import Fault, WorldFault
from images.store import download
from images.store.download import MOVED
from images.store.store import key_of

VARIABLE = "MULTINODE_DEBIAN_MIRROR"
DOMAIN = "debian.org"
DEBIAN, SECURITY = f"http://deb.{DOMAIN}/debian", f"http://security.{DOMAIN}/debian-security"  # of an image
HERE = f"https://deb.{DOMAIN}/debian"  # where packages are downloaded from, beside it the security updates
PARTS = ("", "-updates", "-security")  # what follows a suite's name, as in bookworm-security
APT = Path("/etc/apt")
ANY_AGE = re.compile(r'^[ \t]*Acquire::Check-Valid-Until[ \t]+"(?:false|no|0)"[ \t]*;', re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """A suite in an archive, such as bookworm-updates in Debian's own."""

    uri: str
    suite: str


def list_sources(suite: str) -> tuple[Source, ...]:
    """Return Debian's own mirrors of a suite, of its updates and of its security updates, as an image has them."""
    return tuple(Source(SECURITY if part == "-security" else DEBIAN, suite + part) for part in PARTS)


def choose_mirrors(suite: str, environ: Mapping[str, str]) -> tuple[Source, ...]:
    """Return the mirror that the user names, else Debian's own; security updates lie beside it, by custom."""
    mirror = read_named(environ) or HERE
    return tuple(Source(mirror + part.replace("-updates", ""), suite + part) for part in PARTS)


def read_named(environ: Mapping[str, str]) -> str:
    """Return the mirror that the user names, empty where he does not."""
    return environ.get(VARIABLE, "").strip().rstrip("/")


def may_expire(apt: Path = APT) -> bool:
    """Return whether an index may be too old: not where this machine's apt takes one of any age, as of a snapshot."""
    return not any(ANY_AGE.search(_read_if_there(path)) for path in (*(apt / "apt.conf.d").glob("*"), apt / "apt.conf"))


def format_sources(sources: tuple[Source, ...]) -> str:
    """Return sources as a sources.list(5)."""
    return "".join(f"deb {source.uri} {source.suite} main\n" for source in sources)


def _read_if_there(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


# The index of a Debian archive: signed by Debian's keys, not expired, and each part of it by its sha256.

KEYRING = Path(__file__).with_name("keyring.gpg")  # of the package debian-archive-keyring, 2025.1
REACH = f"check the network and the proxy (HTTPS_PROXY), or name another mirror: {VARIABLE}=http://HOST/debian"
RENEW = "check the clock and the proxy, or name another mirror: its files are not used without Debian's signature"
OLD = """for a snapshot: echo 'Acquire::Check-Valid-Until "false";' > /etc/apt/apt.conf.d/90snapshot"""
STILL = f"{RENEW}; {OLD}"
NEWER = f"a mirror that is up to date: {VARIABLE}=http://HOST/debian"
SEEN = "debian days"  # the kind of records with the newest index of each suite
LAG = datetime.timedelta(days=1)  # by which servers behind one name may differ, and clocks
DAMAGED = "run it again; if it stays so, name another mirror"
PARAGRAPH = re.compile(rb"(?:.+\n?)+")


class Unverified(WorldFault):
    """An index is not signed by Debian, or expired, as far as the keyring and the clock here can say."""


@dataclass(frozen=True)
class Index:
    """The packages of a suite as of a time; `digest` is the sha256 of the list, by which two of them are the same."""

    source: Source
    digest: str
    path: Path
    size: int
    date: datetime.datetime

    def rows(self) -> Iterator[Paragraph]:
        """Yield what the index says of each package; one that says too little raises WorldFault where it is read.

        Raises WorldFault for an index that cannot be unpacked.
        """
        try:
            text = b"\n%b\n" % deb.unpacked(
                self.path.read_bytes(), self.size
            )  # every field is between two ends of lines
        except (lzma.LZMAError, ValueError) as error:
            raise WorldFault("Debian's index cannot be unpacked", f"{self.source.suite}: {error}", DAMAGED) from error
        for match in PARAGRAPH.finditer(text):
            yield Paragraph(self.source.suite, text, match.start(), match.end())


@dataclass(frozen=True, slots=True)
class Paragraph:
    """The entry of one package in the index of a suite; fields are parsed on access, for dictionaries took 100 MB."""

    suite: str
    text: bytes
    start: int
    end: int

    def get(self, name: str) -> str:
        """Return a field of one line; empty if the entry lacks it."""
        field = f"\n{name}: ".encode()
        if (at := self.text.find(field, self.start - 1, self.end)) == -1:
            return ""
        value = at + len(field)
        return self.text[value : self.text.index(b"\n", value)].decode(errors="replace")

    def __getitem__(self, name: str) -> str:
        if value := self.get(name):
            return value
        excerpt = self.text[self.start : self.end][:80]
        raise WorldFault("Debian's index cannot be read", f"{self.suite}: no {name} in {excerpt!r}", DAMAGED)


def verify_signature(signed: bytes, keyring: Path) -> str:
    """Return the text that a key of the keyring has signed, and nothing of what stands around it.

    Raises Unverified where there is no good signature.
    """
    certificates = pysequoia.Cert.split_bytes(keyring.read_bytes())
    try:
        verified = pysequoia.verify(bytes=signed, store=lambda _: certificates)
        return bytes(verified.bytes or b"").decode()
    except Exception as error:  # pysequoia raises Exception itself
        raise Unverified("what Debian's mirror sent has no good signature", error, RENEW) from error


@dataclass(frozen=True)
class Release:
    """What a suite's index of indexes says: sha256 and size of its files, by their names, and when it was made."""

    files: Mapping[str, tuple[str, int]]
    date: datetime.datetime


def parse_release(text: str, suite: str, today: datetime.date, *, may_expire: bool = True) -> Release:
    """Return what a Release says.

    Raises Unverified for one of another suite, one that cannot be read, and where `may_expire` one that is expired.
    """
    fields = control.parse_fields(text)
    if fields.get("Codename") != suite:
        fact = "Debian's mirror sent the index of another suite"
        raise Unverified(fact, f"{fields.get('Codename')}, not {suite}", RENEW)
    until, rows = fields.get("Valid-Until", ""), [line.split() for line in fields.get("SHA256", "").splitlines()]
    try:
        expired = may_expire and bool(until) and _time(until).date() < today
        date = _time(fields["Date"])
        files = {row[2]: (row[0], int(row[1])) for row in rows if len(row) == 3}
    except (ValueError, KeyError, OverflowError) as error:
        raise Unverified("the index of Debian's mirror cannot be read", f"{suite}: {error!r}", RENEW) from error
    if expired:
        raise Unverified("the index of Debian's mirror is expired", f"{suite}: {until}", STILL)
    return Release(files, date)


def _time(text: str) -> datetime.datetime:
    """Return a time as control files write it, in UTC (deb-control(5); RFC 5322)."""
    return parsedate_to_datetime(text).replace(tzinfo=datetime.timezone.utc)


def refuse_other_days(index: Index, context: Context) -> None:
    """Raise Unverified for an index of a day to come, or older than one of its suite that this store has seen.

    Else an old one, whose signature is as good, would bring back packages that Debian has mended.
    """
    key, suite = key_of([index.source.suite]), f"{index.source.suite}: {index.date:%Y-%m-%d}"
    if index.date.date() > context.today + LAG:
        raise Unverified("the index of Debian's mirror is of a day to come", suite, RENEW)
    newest, place = context.store.record(SEEN, key), shlex.quote(str(context.store.record_place(SEEN, key)))
    seen = datetime.datetime.fromisoformat(newest) if newest else index.date
    if seen - index.date > LAG and may_expire():
        fact = "the index of Debian's mirror is older than one that was seen here"
        forget = f"if what was seen here was wrong: rm {place}"
        raise Unverified(fact, f"{suite}, not {seen:%Y-%m-%d}", f"{NEWER}; {OLD}; {forget}")
    context.store.write_record(SEEN, key, max(seen, index.date).isoformat())


def fetch_file(url: str, digest: str, name: str, context: Context, size: int | None = None) -> str:
    """Download a file of an archive into the store; `size` is that of a signed index.

    Raises WorldFault where it cannot be had.
    """
    with _of_mirror():
        return download.download_file(context.store, url, digest, name, context.sources, context.progress.advance, size)


def read_document(url: str, limit: limits.Limit, context: Context) -> bytes:
    """Return a document of an archive.

    Raises WorldFault where it cannot be had.
    """
    with _of_mirror():
        return download.download_document(url, limit, context.sources, context.progress.advance)


@contextmanager
def _of_mirror() -> Iterator[None]:
    try:
        yield
    except Fault as fault:
        raise WorldFault("cannot download from Debian's mirror", fault.value, REACH, fault.kind) from fault


def fetch_index(source: Source, architecture: str, context: Context) -> Index:
    """Fetch the index of a suite.

    Raises Unverified for one without a good signature, WorldFault for one that cannot be had.
    """
    place = f"{source.uri}/dists/{source.suite}"
    text = verify_signature(_signed(f"{place}/InRelease", context), KEYRING)
    release = parse_release(text, source.suite, context.today, may_expire=may_expire())
    directory = f"main/binary-{architecture}"
    plain, packed = f"{directory}/Packages", f"{directory}/Packages.xz"
    if not {plain, packed} <= release.files.keys():
        raise WorldFault("Debian's mirror has no packages for this", f"{place}/{directory}", REACH)
    (digest, size), (_, unpacked) = release.files[packed], release.files[plain]
    by_hash = control.parse_fields(text).get("Acquire-By-Hash") == "yes"
    name = f"{directory}/by-hash/SHA256/{digest}" if by_hash else packed
    fetch_file(f"{place}/{name}", digest, "Packages.xz", context, size)
    return Index(source, digest, context.store.place(digest, "Packages.xz"), unpacked, release.date)


def _signed(url: str, context: Context) -> bytes:
    try:
        return read_document(url, limits.RELEASE, context)
    except WorldFault as fault:
        if fault.kind == download.TOO_LONG:
            raise Unverified("what Debian's mirror sent is too long for an index", fault.value, RENEW) from fault
        raise


# Packages that Debian's mirrors have no longer: its snapshots keep every one that was ever in the archive.
#
# Its interface for programs finds a file by name and version, and calls it by its sha1. What it sends has to have the
# sha256 of the lock.

SERVER = f"https://snapshot.{DOMAIN}"


def places(debs: Iterable[Deb], context: Context) -> dict[Deb, str]:
    """Return where packages can be downloaded; none of them where the server cannot be reached."""
    addresses = {}
    for one in debs:
        version = quote(one.version, safe="")
        url = f"{SERVER}/mr/binary/{one.package}/{version}/binfiles"
        try:
            answer = read_document(url, limits.ANSWER, context)
        except WorldFault as fault:
            if fault.kind == MOVED:  # it does not know this one
                continue
            return {}
        if name := _file(answer, one.architecture):
            addresses[one] = f"{SERVER}/file/{name}"
    return addresses


def _file(answer: bytes, architecture: str) -> str | None:
    """Return the sha1 of the file for an architecture."""
    try:
        rows = {row["architecture"]: str(row["hash"]) for row in documents.parse_json(answer)["result"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    name = rows.get(architecture)
    return name if name and name.isalnum() else None
