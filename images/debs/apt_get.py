"""How apt-get is run: in directories of its own, with the machine's proxies, and by Debian's keys alone."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from images.debs import mirrors
from images.debs.mirrors import REMEDY
from images.host import process
from images.host.disk.faults import Unwritable, disk_fault, require_room
from images.host.errors import WorldFault
from images.host.store import Store

ARCHIVES = "cache/archives"  # where apt downloads to

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
    # An image of Debian packs lists and keeps no index of them: three calls would unpack and index them three times.
    ("Acquire::GzipIndexes", "false"),
    ("Dir::Cache::pkgcache", "{aside}/cache/pkgcache.bin"),
    ("Dir::Cache::srcpkgcache", "{aside}/cache/srcpkgcache.bin"),
    ("Dir::Etc::sourcelist", "{aside}/sources.list"),
    ("Dir::Etc::sourceparts", "/dev/null"),
    ("Dir::Etc::preferences", "/dev/null"),
    ("Dir::Etc::preferencesparts", "/dev/null"),
)
# Lists that would be added to, and commands of the machine's that tidy its own directories.
INVOKED = ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
CLEARED = ("APT::Architectures", *(f"APT::Update::{when}" for when in INVOKED))

# To see whether a mirror answers again: one attempt of 5 seconds, which brings no list of packages.
BRIEFLY = (
    "--option=Acquire::Retries=0", "--option=Acquire::http::Timeout=5", "--option=Acquire::https::Timeout=5",
    "--option=Acquire::IndexTargets::deb::Packages::DefaultEnabled=false",
)  # fmt: skip

UNVERIFIED = re.compile(r"BADSIG|ERRSIG|NO_PUBKEY|KEYEXPIRED|(EXP|REV)KEYSIG|EXPSIG|is not signed|[Ss]ignature")
REACH = f"check that Debian's mirror can be reached (apt-get update), the clock, and the keyring of Debian: {REMEDY}"
RENEW = "check the clock and the proxy, and renew Debian's keys: apt-get install debian-archive-keyring"


class Unverified(WorldFault):
    """A mirror's signature is bad, missing, expired or by an unknown key, as far as keyring and clock here can say."""


def lay_out(aside: Path, listed: str) -> None:
    """Make what apt-get needs in a new directory; `listed` is the sources.list."""
    for name in ("state/lists/partial", f"{ARCHIVES}/partial"):
        (aside / name).mkdir(parents=True)
    (aside / "status").touch()
    (aside / "sources.list").write_text(mirrors.signed(listed))
    (aside / "apt.conf").write_text(configuration(aside))


def configuration(aside: Path) -> str:
    """Return what apt reads after the machine's own configuration (apt.conf(5))."""
    cleared = [f"#clear {key};" for key in CLEARED]
    return "\n".join([*cleared, *(f'{key} "{value.format(aside=aside)}";' for key, value in SETTINGS), ""])


def answers(store: Store, listed: str, environ: Mapping[str, str]) -> bool:
    """Return whether the mirrors of a sources.list answer, within some seconds, with what Debian has signed.

    Raises Unwritable as `run` does.
    """
    try:
        with store.aside(directory=True) as place:
            lay_out(place.resolve(), listed)
            run(store, place.resolve(), ("update", *BRIEFLY), environ)
    except Unwritable:
        raise
    except WorldFault:
        return False
    return True


def run(store: Store, aside: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Run apt-get in a directory that was laid out, and return what it printed.

    Raises WorldFault where it fails, Unverified for a bad signature, and Unwritable for a full disk.
    """
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
