"""Debian's suites: the number of each, which scripts of packages are known, and what they do, as rows; none is run."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from images.debian.deb import Package
from images.dpkg import effects
from images.dpkg.effects import DPKG
from images.dpkg.tree import PackageTree
from images.host.errors import WorldFault
from images.host.files import write_whole
from images.platforms import PLATFORMS, Platform

KNOWN = Path(__file__).with_name("scripts.json")
RUN_FIRST = ("preinst", "postinst")  # what a first installation runs
# What one script has in different words for each machine.
MACHINES = re.compile("|".join(f"{platform.multiarch}|:{platform.architecture}" for platform in PLATFORMS))


class Script(NamedTuple):
    """A script of a package: what it is called (PACKAGE.SCRIPT), its key, the version of its package, and its text."""

    name: str
    key: str
    version: str
    text: str


def scripts(package: Package) -> list[Script]:
    """Return the scripts of a package that its first installation runs."""
    names = [name for name in RUN_FIRST if name in package.control]
    return [Script(f"{package.name}.{n}", script_key(package, n), package.version, package.text(n)) for n in names]


def script_key(package: Package, name: str) -> str:
    """Return the sha256 of a script without comments, blank lines, the version of its package and the machine."""
    text = MACHINES.sub("MACHINE", package.text(name).replace(package.version, "VERSION"))
    lines = (line.strip() for line in text.splitlines())
    kept = "\n".join(line for line in lines if line and not line.startswith("#"))
    return hashlib.sha256(kept.encode()).hexdigest()


@functools.cache
def read_known() -> Mapping[str, Sequence[str]]:
    """Return the keys of the known scripts, by their names."""
    return dict(json.loads(KNOWN.read_text()))


def add_known(more: Iterable[Script]) -> None:
    """Write some scripts more into scripts.json, a line for each key; they are known from then on."""
    known = {name: [*keys] for name, keys in read_known().items()}
    for script in more:
        known.setdefault(script.name, []).append(script.key)
    rows = (f'"{name}": [' + ",\n".join(f'"{one}"' for one in keys) + "]" for name, keys in sorted(known.items()))
    write_whole(KNOWN, ("{\n" + ",\n".join(rows) + "\n}\n").encode())
    read_known.cache_clear()


def list_unknown(packages: Iterable[Package]) -> list[Script]:
    """Return the scripts of packages that are not known."""
    known = read_known()
    return [one for package in packages for one in scripts(package) if one.key not in known.get(one.name, ())]


def require_known(packages: Iterable[Package]) -> None:
    """Raise WorldFault where a package has a script that is not known."""
    if strange := [f"{one.name} of {one.version}" for one in list_unknown(packages)]:
        remedy = "a newer release of multinode, or the lock of an earlier image (--lock): no script of a package is run"
        raise WorldFault("Debian's packages have scripts that are not known here", ", ".join(strange), remedy)


# The name of a package, a function of effects.py, and what that is called with after the tree and the package.
Row = tuple[Any, ...]


class Suite(NamedTuple):
    """A suite: its number (https://www.debian.org/releases/), and its own rows for a platform."""

    number: str
    rows: Callable[[Platform], tuple[Row, ...]]


def apply(tree: PackageTree, packages: Mapping[str, Package], suite: str, platform: Platform) -> None:
    """Do what the rows of a suite say of packages, given by name, as far as these have a script that would.

    Raises WorldFault for a suite that has no row, and where a file is not there, or not as it should be.
    """
    for name, effect, *given in rows(suite, platform):
        package = packages.get(name)
        if package is None or not any(script in package.control for script in RUN_FIRST):
            continue
        try:
            effect(tree, package, *given)
        except (LookupError, ValueError) as error:
            remedy = "a newer release of multinode, or the lock of an earlier image (--lock)"
            value = f"{name} {package.version}: {error}"
            raise WorldFault("a Debian package lacks what its install script needs", value, remedy) from error


def rows(suite: str, platform: Platform) -> list[Row]:
    """Return the rows of a suite in their order: the lists of accounts first, which others add to.

    No other effect reads what one has written. Order matters only where several rows add lines to one list: it is that
    of the table. Raises WorldFault for a suite that is not among SUITES.
    """
    if suite not in SUITES:
        remedy = f"one of {', '.join(SUITES)}, or a newer release of multinode"
        raise WorldFault("what scripts of that suite do is not known here", suite, remedy)
    return sorted((*TABLE, *SUITES[suite].rows(platform)), key=lambda row: row[1] is not effects.accounts)


PAGES = ("de", "es", "fr", "it", "ja", "pl", "sl")  # languages of the page which(1)

# A row counts where the package has a script.
TABLE: tuple[Row, ...] = (
    ("base-passwd", effects.accounts, "0"),
    ("apt", effects.user, "_apt", 42, "/nonexistent"),  # base-passwd has it since 3.6.1
    ("openssh-server", effects.configuration, "usr/share/openssh/sshd_config", "etc/ssh/sshd_config"),
    ("openssh-client", effects.group, "_ssh", 101, "usr/bin/ssh-agent"),
    ("base-files", effects.copy, "usr/share/base-files/dot.profile", "root/.profile"),
    ("base-files", effects.copy, "usr/share/base-files/dot.bashrc", "root/.bashrc"),
    ("base-files", effects.copy, "usr/share/base-files/profile", "etc/profile"),
    ("base-files", effects.copy, "usr/share/base-files/motd", "etc/motd"),
    *(("base-files", effects.directory, path) for path in (
        "mnt", "srv", "opt", "etc/opt", "var/opt", "media", "usr/local/share/man", "usr/local/bin", "usr/local/games",
        "usr/local/lib", "usr/local/include", "usr/local/sbin", "usr/local/src", "usr/local/etc",
    )),
    # Scripts of other packages, such as a JRE's, make links there, and fail where dpkg left the directory out.
    *(("base-files", effects.directory, f"usr/share/man/man{section}") for section in range(1, 9)),
    ("base-files", effects.directory, "var/mail", 0o2775, 8),
    ("base-files", effects.link, "var/spool/mail", "../mail"),
    ("base-files", effects.link, "var/run", "/run"),
    ("base-files", effects.link, "var/lock", "/run/lock"),
    ("base-files", effects.link, "usr/local/man", "share/man"),
    ("base-files", effects.link, "etc/dpkg/origins/default", "debian"),
    ("libc-bin", effects.copy, "usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
    ("readline-common", effects.copy, "usr/share/readline/inputrc", "etc/inputrc"),
    ("libpam-modules", effects.file, "etc/security/opasswd", "", 0o600),
    ("libpam-modules", effects.file, "etc/environment"),
    ("libpam-runtime", effects.pam),
    ("login", effects.file, "etc/subuid"),
    ("login", effects.file, "etc/subgid"),
    ("libwrap0", effects.heredoc, "etc/hosts.allow"),
    ("libwrap0", effects.heredoc, "etc/hosts.deny"),
    ("tzdata", effects.link, "etc/localtime", "/usr/share/zoneinfo/Etc/UTC"),
    ("ucf", effects.file, "var/lib/ucf/hashfile"),
    ("ucf", effects.file, "var/lib/ucf/registry"),
    ("debianutils", effects.shells),
    ("debianutils", effects.alternative, "which", "usr/bin/which", "usr/bin/which.debianutils", 0,
        effects.page("which", "which.debianutils"),
        *(effects.page("which", "which.debianutils", language=code) for code in PAGES),
    ),
    ("mawk", effects.alternative, "awk", "usr/bin/awk", "usr/bin/mawk", 5,
        effects.page("awk", "mawk"), "nawk /usr/bin/nawk /usr/bin/mawk", effects.page("nawk", "mawk"),
    ),
    ("util-linux", effects.alternative, "pager", "usr/bin/pager", "bin/more", 50, effects.page("pager", "more")),
    ("tar", effects.alternative, "rmt", "usr/sbin/rmt", "usr/sbin/rmt-tar", 50, effects.page("rmt", "rmt-tar", "man8")),
    ("python3", effects.file, "etc/python3/debian_config",
        "[DEFAULT]\n# how to byte-compile (comma separated: standard, optimize)\nbyte-compile = standard\n",
    ),
    ("ca-certificates", effects.directory, "usr/local/share/ca-certificates"),
    ("ca-certificates", effects.trust),
)  # fmt: skip


def _bookworm(_: Platform) -> tuple[Row, ...]:
    return (
        ("dash", effects.divert, "/bin/sh", "/bin/sh.distrib"),
        ("openssh-server", effects.user, "sshd", 100, "/run/sshd"),
        ("python3.11-minimal", effects.directory, "usr/local/lib/python3.11/dist-packages"),
        ("tzdata", effects.file, "etc/timezone", "Etc/UTC\n"),
    )


def _trixie(platform: Platform) -> tuple[Row, ...]:
    libraries, loader = f"/lib/{platform.multiarch}", f"/{platform.loader}"
    others = [name for name in ("lib32", "lib64", "libo32", "libx32") if not platform.loader.startswith(f"{name}/")]
    return (
        ("base-files", effects.directory, "usr/local/libexec"),
        *(("base-files", effects.divert, f"/{name}", f"/.{name}.usr-is-merged") for name in others),
        ("dpkg", effects.file, f"{DPKG}/arch-native", f"{platform.architecture}\n"),
        ("libc6", effects.divert, loader, f"{loader}.usr-is-merged"),
        *(("libreadline8t64", effects.divert, f"{libraries}/{name}", f"{libraries}/{name}.usr-is-merged") for name in (
            "libhistory.so.8", "libhistory.so.8.2", "libreadline.so.8", "libreadline.so.8.2",
        )),
        ("libwtmpdb0", effects.link, "var/lib/wtmpdb/wtmp.db", "../../log/wtmp.db"),
        ("netbase", effects.heredoc, "etc/hosts"),
        ("netbase", effects.heredoc, "etc/networks"),
        ("openssh-server", effects.sysusers, "openssh-server"),
        ("python3.13-minimal", effects.directory, "usr/local/lib/python3.13/dist-packages"),
    )  # fmt: skip


# What the scripts of one suite do beyond TABLE.
SUITES: Mapping[str, Suite] = {"bookworm": Suite("12", _bookworm), "trixie": Suite("13", _trixie)}
