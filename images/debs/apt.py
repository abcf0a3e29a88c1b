"""Which Debian packages an image has: chosen by apt in directories of its own, each kept by its sha256."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

from images.debs import mirrors
from images.debs.mirrors import REMEDY
from images.foreign.grammar import Grammar
from images.host import fingerprint, process
from images.host.context import Context
from images.host.disk.faults import Unwritable, disk_fault, require_room
from images.host.errors import WorldFault
from images.host.store import Store, key_of, sha256

ARCHIVES, SIGNED = "cache/archives", "signed debs"  # where apt downloads to; records of what signed indexes had

# What debootstrap calls minbase. Only the suite itself is asked: updates may say otherwise of a package's importance.
MINBASE = (
    "?narrow(?or(?archive(^{suite}$),?codename(^{suite}$)),?architecture(amd64),?or(?essential,?priority(required)))"
)
# apt's own control file calls it important, the archive's index required; an image without it could not be extended.
ALWAYS = ("apt",)

# The machine's configuration stays in force (proxies, certificates, timeouts) but for these: key, value.
SETTINGS = (
    ("APT::Architecture", "amd64"),
    ("APT::Architectures::", "amd64"),
    ("APT::Default-Release", ""),
    ("APT::Get::AllowUnauthenticated", "false"),
    ("APT::Install-Recommends", "false"),
    ("APT::Install-Suggests", "false"),
    ("APT::Sandbox::User", ""),  # any user may do this, so nobody has to become another
    ("APT::Update::Error-Mode", "any"),  # half an index chooses other packages
    ("Acquire::AllowInsecureRepositories", "false"),
    ("Acquire::ForceHash", "SHA256"),  # of what is printed: apt's default is MD5 there
    ("Acquire::Languages", "none"),
    ("Dir::State", "{aside}/state"),
    ("Dir::State::lists", "{aside}/state/lists"),
    ("Dir::State::extended_states", "{aside}/state/extended_states"),
    ("Dir::State::status", "{aside}/status"),
    ("Dir::Cache", "{aside}/cache"),
    ("Dir::Cache::archives", "{aside}/cache/archives"),
    ("Dir::Etc::sourcelist", "{aside}/sources.list"),
    ("Dir::Etc::sourceparts", "/dev/null"),
    ("Dir::Etc::preferences", "/dev/null"),
    ("Dir::Etc::preferencesparts", "/dev/null"),
)
# Lists that would be added to, and commands of the machine's that tidy its own directories.
INVOKED = ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
CLEARED = ("APT::Architectures", *(f"APT::Update::{when}" for when in INVOKED))

PRINTED = re.compile(
    r"'[^']+' (?P<file>(?P<package>[^_\s]+)_(?P<version>[^_\s]+)_(?P<arch>[^_\s]+)\.deb) \d+ (?P<hash>\S+)"
)
UNVERIFIED = re.compile(r"BADSIG|ERRSIG|NO_PUBKEY|KEYEXPIRED|(EXP|REV)KEYSIG|EXPSIG|is not signed|[Ss]ignature")
REACH = f"check that Debian's mirror can be reached (apt-get update), the clock, and the keyring of Debian: {REMEDY}"
RENEW = "check the clock and the proxy, and renew Debian's keys: apt-get install debian-archive-keyring"


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
    """The packages of a base in order, and the sources.list that it will have, of Debian's own mirror."""

    debs: tuple[Deb, ...]
    sources: str


class Unverified(WorldFault):
    """A mirror's signature is bad, missing, expired or by an unknown key, as far as keyring and clock here can say."""


def resolve(suite: str, packages: Sequence[str], context: Context) -> Choice:
    """Choose the packages of a base that is made here, once a day, and download each into the store.

    When the mirror cannot be reached, an older choice is better than none, and the user is told its day. Raises
    WorldFault where there is none, and Unverified or Unwritable even if there is one.
    """

    def choose() -> Choice:
        listed = mirrors.default_sources(suite, context.environ)
        names = (MINBASE.format(suite=suite), *ALWAYS, *packages)
        return Choice(_choose_from_mirrors(listed, suite, ("install", "--", *names), context), listed)

    return _daily([suite, packages], context, choose)


def named(suite: str, names: Sequence[str], context: Context) -> tuple[Deb, ...]:
    """Choose single packages without what they depend on, once a day, and download each into the store.

    This needs no mmdebstrap on a machine whose own apt knows the suite. Raises WorldFault as `resolve` does.
    """

    def choose() -> Choice:
        listed = mirrors.machine_sources(suite, context.environ) or mirrors.default_sources(suite, context.environ)
        # The sources are not kept: a lock names no mirror of one machine.
        return Choice(_choose(context.store, listed, ("download", "--", *names), context.environ), "")

    return _daily([suite, "alone", names], context, choose).debs if names else ()


def _daily(inputs: Sequence[object], context: Context, choose: Callable[[], Choice]) -> Choice:
    store, today = context.store, context.today.isoformat()
    key = key_of([*inputs, MINBASE, ALWAYS, fingerprint.sources()])
    record = store.record("debs", key)
    known = Choice(tuple(Deb(*fields) for fields in record["debs"]), record["sources"]) if record else None
    if record and known and record["day"] == today and not missing(store, known.debs):
        return known
    try:
        found = choose()
    except WorldFault as fault:
        if record is None or known is None or isinstance(fault, Unverified | Unwritable):
            raise
        context.progress.say(f"note: Debian's packages as of {record['day']}: {fault.fact}: {fault.value}")
        return known
    plain = {"day": today, "debs": [astuple(deb) for deb in found.debs], "sources": found.sources}
    store.write_record("debs", key, plain)
    return found


def missing(store: Store, debs: Sequence[Deb]) -> list[Deb]:
    """Return the packages that the store does not have whole."""
    return [deb for deb in debs if not store.whole(deb.sha256, deb.filename)]


def _choose_from_mirrors(listed: str, suite: str, selection: Sequence[str], context: Context) -> tuple[Deb, ...]:
    """Choose from Debian's own mirror; where that cannot be reached, from those of the machine's apt, with a note.

    In this order, so that everybody who reaches Debian's own mirror gets the same image.
    """
    store, environ = context.store, context.environ
    try:
        return _choose(store, listed, selection, environ)
    except (Unverified, Unwritable):
        raise
    except WorldFault:
        near = mirrors.machine_sources(suite, environ)
        if set(mirrors.addresses(near)) <= set(mirrors.addresses(listed)):
            raise
        places = " and ".join(mirrors.addresses(near))
        context.progress.say(f"note: Debian's own mirror does not answer; its packages come from {places}")
        return _choose(store, near, selection, environ)


def _choose(store: Store, listed: str, selection: Sequence[str], environ: Mapping[str, str]) -> tuple[Deb, ...]:
    """Return the packages that apt-get takes, and download them; `selection` is its command with the names."""
    with store.aside(directory=True) as place:
        aside = place.resolve()
        _lay_out(aside, listed)
        _apt(store, aside, ("update",), environ)
        found = chosen(_apt(store, aside, ("--print-uris", *selection), environ))
        if lacking := missing(store, found):
            for deb in (deb for deb in found if deb not in lacking):  # apt does not download what it finds here
                shutil.copyfile(store.place(deb.sha256, deb.filename), aside / ARCHIVES / deb.filename)
            _apt(store, aside, ("--yes", "--download-only", *selection), environ)
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


def _lay_out(aside: Path, listed: str) -> None:
    for name in ("state/lists/partial", f"{ARCHIVES}/partial"):
        (aside / name).mkdir(parents=True)
    (aside / "status").touch()
    (aside / "sources.list").write_text(mirrors.signed(listed))
    (aside / "apt.conf").write_text(configuration(aside))


def configuration(aside: Path) -> str:
    """Return what apt reads after the machine's own configuration (apt.conf(5))."""
    cleared = [f"#clear {key};" for key in CLEARED]
    return "\n".join([*cleared, *(f'{key} "{value.format(aside=aside)}";' for key, value in SETTINGS), ""])


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


def _apt(store: Store, aside: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    # `apt-get download` writes into the directory that it is started in.
    command = ["env", f"--chdir={aside}/{ARCHIVES}", "apt-get", f"--config-file={aside}/apt.conf", "--quiet=2"]
    line, env = [*command, *arguments], {**environ, "LC_ALL": "C.UTF-8"}
    done = process.run(line, env, REMEDY, tick=lambda: require_room(store.root))
    if re.search("enough free space|No space left", done.err):
        raise disk_fault(store.root, OSError(errno.ENOSPC, done.err))
    if done.code and UNVERIFIED.search(done.err):
        raise Unverified("what Debian's mirror sent has no good signature", done.complaint, RENEW)
    if done.code:
        raise WorldFault("apt could not choose Debian's packages", done.complaint, REACH)
    return done.out
