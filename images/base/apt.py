"""Which Debian packages a base is made of: chosen by apt in folders of its own, each kept by its sha256."""

from __future__ import annotations

import datetime
import errno
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from images.host import fingerprint, process
from images.host.errors import WorldFault
from images.host.store import Store, disk_fault, key_of, sha256

# mmdebstrap knows where a suite comes from. It writes that down first, is made to show it, and fails before it begins.
MARK = "SOURCE: "
SHOW = f'sed "s/^/{MARK}/" "$1/etc/apt/sources.list" >&2; false'
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

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
    ("Dir::State", "{folder}/state"),
    ("Dir::State::lists", "{folder}/state/lists"),
    ("Dir::State::extended_states", "{folder}/state/extended_states"),
    ("Dir::State::status", "{folder}/status"),
    ("Dir::Cache", "{folder}/cache"),
    ("Dir::Cache::archives", "{folder}/cache/archives"),
    ("Dir::Etc::sourcelist", "{folder}/sources.list"),
    ("Dir::Etc::sourceparts", "/dev/null"),
    ("Dir::Etc::preferences", "/dev/null"),
    ("Dir::Etc::preferencesparts", "/dev/null"),
)
# Lists that would be added to, and commands of the machine's that look after its own folders.
CLEARED = (
    "APT::Architectures",
    "APT::Update::Pre-Invoke",
    "APT::Update::Post-Invoke",
    "APT::Update::Post-Invoke-Success",
)

PRINTED = re.compile(
    r"'[^']+' (?P<file>(?P<package>[^_\s]+)_(?P<version>[^_\s]+)_(?P<arch>[^_\s]+)\.deb) \d+ (?P<hash>\S+)"
)
REMEDY = "sudo apt-get install mmdebstrap debian-archive-keyring (on Debian or Ubuntu)"


@dataclass(frozen=True, order=True)
class Deb:
    """A Debian package: name, version, architecture, its file's name and sha256."""

    package: str
    version: str
    architecture: str
    filename: str
    sha256: str


class Wanted(Protocol):
    """What a base is made of: a suite, and the packages that are asked for by name."""

    @property
    def suite(self) -> str:
        """Return the name of the suite, such as bookworm."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the names of packages."""


@dataclass(frozen=True)
class Choice:
    """The packages of a base in order, and the sources.list that it will have: where they came from."""

    debs: tuple[Deb, ...]
    sources: str


def resolve(store: Store, row: Wanted, today: datetime.date, environ: Mapping[str, str]) -> Choice:
    """Choose the packages of a base, once a day, and bring each into the store; answer them in order.

    When the mirror cannot be reached, an older choice is better than none. Raises WorldFault where there is none.
    """
    key = key_of([fingerprint.sources(), row.suite, row.packages])
    record = store.record("debs", key)
    known = Choice(tuple(Deb(*fields) for fields in record["debs"]), record["sources"]) if record else None
    if record and known and record["day"] == today.isoformat() and not missing(store, known.debs):
        return known
    try:
        sources = default_sources(row.suite, environ)
        found = Choice(_choose(store, row, sources, environ), sources)
    except WorldFault:
        if known is None:
            raise
        return known
    plain = {"day": today.isoformat(), "debs": [astuple(deb) for deb in found.debs], "sources": found.sources}
    store.write_record("debs", key, plain)
    return found


def missing(store: Store, debs: Sequence[Deb]) -> list[Deb]:
    """Name the packages that the store does not have whole."""
    return [deb for deb in debs if not store.whole(deb.sha256, deb.filename)]


def default_sources(suite: str, environ: Mapping[str, str]) -> str:
    """Ask mmdebstrap for the sources.list of a suite (sources.list(5)): archive, updates, security."""
    path = environ.get("PATH", "") + ":/usr/sbin:/sbin"
    command = ["mmdebstrap", "--mode=chrootless", "--variant=custom", f"--setup-hook={SHOW}", suite, "/dev/null"]
    done = process.run(command, {**environ, "PATH": path, "LC_ALL": "C.UTF-8"}, REMEDY)
    lines = [line.removeprefix(MARK) for line in done.err.splitlines() if line.startswith(MARK)]
    if not lines:
        raise WorldFault("mmdebstrap does not know that suite", f"{suite}: {complaint(done)}", REMEDY)
    return "".join(f"{line}\n" for line in lines)


def _choose(store: Store, row: Wanted, sources: str, environ: Mapping[str, str]) -> tuple[Deb, ...]:
    wanted = (MINBASE.format(suite=row.suite), *ALWAYS, *row.packages)
    with store.aside(folder=True) as folder:
        _lay_out(folder, sources)
        _apt(folder, ("update",), environ)
        found = chosen(_apt(folder, ("--print-uris", "install", *wanted), environ))
        lacking = missing(store, found)
        if lacking:
            _download(store, folder, [deb for deb in found if deb not in lacking], wanted, environ)
            for deb in lacking:
                _ingest(store, folder / "cache/archives" / deb.filename, deb)
    return found


def _lay_out(folder: Path, sources: str) -> None:
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(signed(sources))
    (folder / "apt.conf").write_text(configuration(folder))


def signed(sources: str) -> str:
    """Name Debian's keyring in every source: apt's own need not be Debian's."""
    return re.sub(r"(?m)^deb (?!\[)", f"deb [signed-by={KEYRING}] ", sources)


def configuration(folder: Path) -> str:
    """Write what apt reads after the machine's own configuration (apt.conf(5))."""
    cleared = [f"#clear {key};" for key in CLEARED]
    return "\n".join([*cleared, *(f'{key} "{value.format(folder=folder)}";' for key, value in SETTINGS), ""])


def chosen(printed: str) -> tuple[Deb, ...]:
    """Read what `apt-get --print-uris` answers, one line a package: URI, file name, size, hash.

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


def _download(
    store: Store, folder: Path, present: Sequence[Deb], wanted: Sequence[str], environ: Mapping[str, str]
) -> None:
    """Let apt download what is not in the store, by giving it what is."""
    for deb in present:
        shutil.copyfile(store.place(deb.sha256, deb.filename), folder / "cache/archives" / deb.filename)
    _apt(folder, ("--yes", "--download-only", "install", *wanted), environ)


def _ingest(store: Store, path: Path, deb: Deb) -> None:
    if not path.is_file() or sha256(path) != deb.sha256:
        raise WorldFault("apt did not download what it chose", deb.filename, "run it again")
    store.keep(path, deb.sha256, deb.filename)


def _apt(folder: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    command = ["apt-get", f"--config-file={folder}/apt.conf", "--quiet=2", *arguments]
    done = process.run(command, {**environ, "LC_ALL": "C.UTF-8"}, REMEDY)
    if re.search("enough free space|No space left", done.err):
        raise disk_fault(folder.parents[1], errno.ENOSPC)
    if done.code:
        remedy = (
            "check that Debian's mirror can be reached (apt-get update), the clock, and that the keyring is there: "
        )
        raise WorldFault("apt could not choose Debian's packages", complaint(done), remedy + REMEDY)
    return done.out


def complaint(done: process.Result) -> str:
    """Say why apt or mmdebstrap failed: its lines marked as errors, else its last one."""
    said = [line for line in done.err.splitlines() if line.startswith("E:")] or done.err.strip().splitlines()[-1:]
    return " ".join(said) or f"exit code {done.code}"
