"""What the scripts of packages would have done on an empty system, as a table: none of them is ever run."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any

from images.debian import certificates, control
from images.debian.deb import Package
from images.debian.maintainer_scripts import RUN_FIRST
from images.debian.tree import FILE, Entry, Tree
from images.host.errors import WorldFault
from images.oci.tars import EPOCH
from images.platforms import Platform

DAYS = EPOCH // 86400
DPKG = "var/lib/dpkg"
NOLOGIN = "/usr/sbin/nologin"

PAM, PAM_MODULE = "usr/share/pam", "pam_unix.so"
PAM_KINDS = ("auth", "account", "password", "session", "session-noninteractive")

# What a script does to a tree: called with that, the package, and the rest of a row.
Effect = Callable[..., None]
Row = tuple[Any, ...]  # the name of a package, an effect, and what that is called with


def apply(tree: Tree, packages: Mapping[str, Package], suite: str, platform: Platform) -> None:
    """Do what the rows of a suite say of packages, given by name, as far as these have a script that would.

    Raises WorldFault for another suite than those of OF_SUITES, and where a file is not there, or not as it should be.
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
            raise WorldFault("a Debian package has not what its script needs", value, remedy) from error


def rows(suite: str, platform: Platform) -> list[Row]:
    """Return the rows of a suite in their order: the lists of accounts first, which others add to.

    No other effect reads what one has made, so that only lines which several rows add to one list have an order, that
    of the table. Raises WorldFault for a suite that has no rows.
    """
    if suite not in OF_SUITES:
        remedy = f"one of {', '.join(OF_SUITES)}, or a newer release of multinode"
        raise WorldFault("what scripts of that suite do is not known here", suite, remedy)
    return sorted((*TABLE, *OF_SUITES[suite](platform)), key=lambda row: row[1] is not accounts)


def accounts(tree: Tree, _: Package) -> None:
    """Make users and groups of Debian's lists (base-passwd(8)), all of them without a password."""
    for name, shadow, tail in (("passwd", "shadow", f"{DAYS}:0:99999:7:::"), ("group", "gshadow", ":")):
        rows = [line.split(":") for line in tree.text(f"usr/share/base-passwd/{name}.master").splitlines()]
        tree.file(f"etc/{name}", "".join(":".join([row[0], "x", *row[2:]]) + "\n" for row in rows))
        tree.file(f"etc/{shadow}", "".join(f"{row[0]}:*:{tail}\n" for row in rows), 0o640, 42)


def user(tree: Tree, _: Package, name: str, uid: int, home: str, comment: str = "", password: str = "!") -> None:
    """Add a user of a service in the group nogroup, who cannot log in, unless base-passwd has it."""
    if f"\n{name}:" not in tree.text("etc/passwd"):
        _append(tree, "etc/passwd", f"{name}:x:{uid}:65534:{comment}:{home}:{NOLOGIN}\n")
        _append(tree, "etc/shadow", f"{name}:{password}:{DAYS}::::::\n")


def group(tree: Tree, _: Package, name: str, gid: int, program: str) -> None:
    """Add a group, and give it a program that is run as this group."""
    _append(tree, "etc/group", f"{name}:x:{gid}:\n")
    _append(tree, "etc/gshadow", f"{name}:!::\n")
    tree.entries[program].gid = gid


def _append(tree: Tree, path: str, text: str) -> None:
    """Write to the end of a file, which may not be there yet."""
    old = tree.entries.get(path, Entry(FILE, 0o644))
    tree.file(path, old.data + text.encode(), old.mode, old.gid)


def copy(tree: Tree, _: Package, source: str, place: str) -> None:
    """Copy a file."""
    tree.file(place, tree.entries[source].data, tree.entries[source].mode)


def directory(tree: Tree, _: Package, path: str, mode: int = 0o755, gid: int = 0) -> None:
    """Make a directory."""
    tree.directory(path, mode, gid)


def link(tree: Tree, _: Package, path: str, target: str) -> None:
    """Make a symbolic link."""
    tree.link(path, target)


def file(tree: Tree, _: Package, path: str, text: str = "", mode: int = 0o644) -> None:
    """Write a file where there is none."""
    if path not in tree.entries:
        tree.file(path, text, mode)


def heredoc(tree: Tree, package: Package, path: str) -> None:
    """Write what the script itself would write by `cat > PATH <<EOF`."""
    pattern = rf"cat > /{re.escape(path)} <<(-?)EOF\n(.*?)^[ \t]*EOF$"
    found = re.search(pattern, package.text("postinst"), re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"it does not write /{path}")
    tree.file(path, re.sub("^\t+", "", found[2], flags=re.MULTILINE) if found[1] else found[2])


def divert(tree: Tree, package: Package, path: str, other: str) -> None:
    """Note that a package has a path in place of all others; it has it by now."""
    _append(tree, f"{DPKG}/diversions", f"{path}\n{other}\n{package.name}\n")


def shells(tree: Tree, _: Package) -> None:
    """List the shells as update-shells(8) does, each also by its real directory."""
    base, found = "usr/share/debianutils/shells", list[str]()
    for line in "\n".join(map(tree.text, (base, *tree.below(f"{base}.d")))).splitlines():
        if shell := line.partition("#")[0]:
            above, name = posixpath.split(shell)
            found += [shell, f"/{tree.real(above)}/{name}"]
    listed, known = tree.text(base), list(dict.fromkeys(found))
    tree.file("etc/shells", listed + "".join(f"{shell}\n" for shell in known if shell not in listed.splitlines()))
    tree.file("var/lib/shells.state", "".join(f"{shell}\n" for shell in known))


def alternative(tree: Tree, _: Package, name: str, place: str, target: str, priority: int, *others: str) -> None:
    """Choose an alternative (update-alternatives(1)); `others` are its slaves as `name place target`."""
    rows = [tuple(other.split()) for other in others]
    written = ["auto", f"/{place}", *(f"{each}\n{at}" for each, at, _ in rows), ""]
    written += [f"/{target}", str(priority), *(to for _, _, to in rows), "", ""]
    tree.file(f"{DPKG}/alternatives/{name}", "\n".join(written))
    for each, at, to in ((name, f"/{place}", f"/{target}"), *rows):
        if tree.real(to) in tree.entries:  # a page that is left out gets no link
            tree.link(at.lstrip("/"), f"/etc/alternatives/{each}")
            tree.link(f"etc/alternatives/{each}", to)


def page(name: str, real: str, section: str = "man1", language: str = "") -> str:
    """Return the page of an alternative as one of its slaves."""
    place, number = "/usr/share/man" + (f"/{language}" if language else ""), section[-1]
    called = f"{name}.{language}{number}.gz" if language else f"{name}.{number}.gz"
    return f"{called} {place}/{section}/{name}.{number}.gz {place}/{section}/{real}.{number}.gz"


def configuration(tree: Tree, package: Package, source: str, place: str) -> None:
    """Copy a file of configuration, and let ucf(1) remember it."""
    data = tree.entries[source].data
    for path in (place, f"var/lib/ucf/cache/{f'/{place}'.replace('/', ':')}"):
        tree.file(path, data)
    _append(tree, "var/lib/ucf/hashfile", f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  /{place}\n")
    _append(tree, "var/lib/ucf/registry", f"{package.name} \t /{place}\n")


def pam(tree: Tree, _: Package) -> None:
    """Write what pam-auth-update(8) makes of Debian's own profile, the only one that is on by default."""
    if (found := tree.below(f"{PAM}-configs")) != [f"{PAM}-configs/{name}" for name in ("mkhomedir", "unix")]:
        raise ValueError(f"the profiles of PAM are {', '.join(found)}")
    profile, nothing = control.fields(tree.text(f"{PAM}-configs/unix")), "[default=1]\t\t\tpam_permit.so\n"
    tree.file("var/lib/pam/seen", "unix\nmkhomedir\n")
    for kind in PAM_KINDS:
        word = kind.partition("-")[0]
        said = profile[f"{word.capitalize()}-Initial"].strip()
        before, options = said.split(PAM_MODULE, 1)
        line = f"{word}\t{before.replace('end', '1')}{PAM_MODULE} {options.strip()}\n"
        primary = profile[f"{word.capitalize()}-Type"] == "Primary"
        text = re.sub(r"\$\w+_primary\n", line if primary else f"{word}\t{nothing}", tree.text(f"{PAM}/common-{kind}"))
        tree.file(f"etc/pam.d/common-{kind}", re.sub(r"\$\w+_additional\n", "" if primary else line, text))
        tree.file(f"var/lib/pam/{kind}", ("" if primary else f"Module: null\n{nothing}") + f"Module: unix\n{said}\n")


def trust(tree: Tree, package: Package) -> None:
    """Trust all certificates that the package has (update-ca-certificates(8))."""
    base, path = "usr/share/ca-certificates", "etc/ca-certificates.conf"
    names = [path.removeprefix(f"{base}/") for path in tree.below(base) if path.endswith(".crt")]
    heredoc(tree, package, path)
    _append(tree, path, "".join(f"{name}\n" for name in names))
    certificates.install(tree, base, names)


# A row counts where the package has a script.
TABLE: tuple[Row, ...] = (
    ("base-passwd", accounts),
    ("apt", user, "_apt", 42, "/nonexistent"),  # base-passwd has it since 3.6.1
    ("openssh-server", configuration, "usr/share/openssh/sshd_config", "etc/ssh/sshd_config"),
    ("openssh-client", group, "_ssh", 101, "usr/bin/ssh-agent"),
    ("base-files", copy, "usr/share/base-files/dot.profile", "root/.profile"),
    ("base-files", copy, "usr/share/base-files/dot.bashrc", "root/.bashrc"),
    ("base-files", copy, "usr/share/base-files/profile", "etc/profile"),
    ("base-files", copy, "usr/share/base-files/motd", "etc/motd"),
    *(("base-files", directory, path) for path in (
        "mnt", "srv", "opt", "etc/opt", "var/opt", "media", "usr/local/share/man", "usr/local/bin", "usr/local/games",
        "usr/local/lib", "usr/local/include", "usr/local/sbin", "usr/local/src", "usr/local/etc",
    )),
    # Scripts of other packages, such as a JRE's, make links there, and fail where dpkg left the directory out.
    *(("base-files", directory, f"usr/share/man/man{section}") for section in range(1, 9)),
    ("base-files", directory, "var/mail", 0o2775, 8),
    ("base-files", link, "var/spool/mail", "../mail"),
    ("base-files", link, "var/run", "/run"),
    ("base-files", link, "var/lock", "/run/lock"),
    ("base-files", link, "usr/local/man", "share/man"),
    ("base-files", link, "etc/dpkg/origins/default", "debian"),
    ("libc-bin", copy, "usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
    ("readline-common", copy, "usr/share/readline/inputrc", "etc/inputrc"),
    ("libpam-modules", file, "etc/security/opasswd", "", 0o600),
    ("libpam-modules", file, "etc/environment"),
    ("libpam-runtime", pam),
    ("login", file, "etc/subuid"),
    ("login", file, "etc/subgid"),
    ("libwrap0", heredoc, "etc/hosts.allow"),
    ("libwrap0", heredoc, "etc/hosts.deny"),
    ("tzdata", link, "etc/localtime", "/usr/share/zoneinfo/Etc/UTC"),
    ("ucf", file, "var/lib/ucf/hashfile"),
    ("ucf", file, "var/lib/ucf/registry"),
    ("debianutils", shells),
    ("debianutils", alternative, "which", "usr/bin/which", "usr/bin/which.debianutils", 0,
        page("which", "which.debianutils"),
        *(page("which", "which.debianutils", language=each) for each in ("de", "es", "fr", "it", "ja", "pl", "sl")),
    ),
    ("mawk", alternative, "awk", "usr/bin/awk", "usr/bin/mawk", 5,
        page("awk", "mawk"), "nawk /usr/bin/nawk /usr/bin/mawk", page("nawk", "mawk"),
    ),
    ("util-linux", alternative, "pager", "usr/bin/pager", "bin/more", 50, page("pager", "more")),
    ("tar", alternative, "rmt", "usr/sbin/rmt", "usr/sbin/rmt-tar", 50, page("rmt", "rmt-tar", "man8")),
    ("python3", file, "etc/python3/debian_config",
        "[DEFAULT]\n# how to byte-compile (comma separated: standard, optimize)\nbyte-compile = standard\n",
    ),
    ("ca-certificates", directory, "usr/local/share/ca-certificates"),
    ("ca-certificates", trust),
)  # fmt: skip


def _bookworm(_: Platform) -> tuple[Row, ...]:
    return (
        ("dash", divert, "/bin/sh", "/bin/sh.distrib"),
        ("openssh-server", user, "sshd", 100, "/run/sshd"),
        ("python3.11-minimal", directory, "usr/local/lib/python3.11/dist-packages"),
        ("tzdata", file, "etc/timezone", "Etc/UTC\n"),
    )


def _trixie(platform: Platform) -> tuple[Row, ...]:
    libraries, loader = f"/lib/{platform.multiarch}", f"/{platform.loader}"
    others = [name for name in ("lib32", "lib64", "libo32", "libx32") if not platform.loader.startswith(f"{name}/")]
    return (
        ("base-files", directory, "usr/local/libexec"),
        *(("base-files", divert, f"/{name}", f"/.{name}.usr-is-merged") for name in others),
        ("dpkg", file, f"{DPKG}/arch-native", f"{platform.architecture}\n"),
        ("libc6", divert, loader, f"{loader}.usr-is-merged"),
        *(("libreadline8t64", divert, f"{libraries}/{name}", f"{libraries}/{name}.usr-is-merged") for name in (
            "libhistory.so.8", "libhistory.so.8.2", "libreadline.so.8", "libreadline.so.8.2",
        )),
        ("libwtmpdb0", link, "var/lib/wtmpdb/wtmp.db", "../../log/wtmp.db"),
        ("netbase", heredoc, "etc/hosts"),
        ("netbase", heredoc, "etc/networks"),
        ("openssh-server", user, "sshd", 999, "/run/sshd", "sshd user", "!*"),  # by systemd-sysusers
        ("python3.13-minimal", directory, "usr/local/lib/python3.13/dist-packages"),
    )  # fmt: skip


# What the scripts of one suite do beyond that, for a platform.
OF_SUITES: Mapping[str, Callable[[Platform], tuple[Row, ...]]] = {"bookworm": _bookworm, "trixie": _trixie}
