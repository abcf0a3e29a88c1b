"""What the scripts of packages do to an empty system, each as a function on a tree; suites.py says which does what."""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from collections.abc import Callable

from images.debian import control
from images.debian.deb import Package
from images.dpkg import certificates
from images.dpkg.tree import FILE, Entry, PackageTree
from images.oci.writing.tars import EPOCH

DAYS = EPOCH // 86400
DPKG = "var/lib/dpkg"
NOLOGIN = "/usr/sbin/nologin"

# What a script does to a tree: called with that, the package, and the rest of a row.
Effect = Callable[..., None]

PAM, PAM_MODULE = "usr/share/pam", "pam_unix.so"
PAM_KINDS = ("auth", "account", "password", "session", "session-noninteractive")


def accounts(tree: PackageTree, _: Package, least: str) -> None:
    """Make users and groups of Debian's lists (base-passwd(8)), without a password.

    `least` is what pwconv of the suite writes for the days before a password may be changed: 0, or nothing.
    """
    for name, shadow, tail in (("passwd", "shadow", f"{DAYS}:{least}:99999:7:::"), ("group", "gshadow", ":")):
        rows = [line.split(":") for line in tree.text(f"usr/share/base-passwd/{name}.master").splitlines()]
        tree.file(f"etc/{name}", "".join(":".join([row[0], "x", *row[2:]]) + "\n" for row in rows))
        tree.file(f"etc/{shadow}", "".join(f"{row[0]}:*:{tail}\n" for row in rows), 0o640, 42)


def user(tree: PackageTree, _: Package, name: str, uid: int, home: str, comment: str = "", password: str = "!") -> None:
    """Add a user of a service in the group nogroup, who cannot log in, unless base-passwd has it."""
    if f"\n{name}:" not in tree.text("etc/passwd"):
        _append(tree, "etc/passwd", f"{name}:x:{uid}:65534:{comment}:{home}:{NOLOGIN}\n")
        _append(tree, "etc/shadow", f"{name}:{password}:{DAYS}::::::\n")


def group(tree: PackageTree, _: Package, name: str, gid: int, program: str) -> None:
    """Add a group, and give it a program that is run as this group."""
    _append(tree, "etc/group", f"{name}:x:{gid}:\n")
    _append(tree, "etc/gshadow", f"{name}:!::\n")
    tree.entries[program].gid = gid


def sysusers(tree: PackageTree, package: Package, name: str) -> None:
    """Add the users and groups of a package's list (sysusers.d(5)) that are not there, as systemd-sysusers(8) does.

    Each has the highest number that neither a user nor a group has. Raises ValueError for another kind of line.
    """
    for line in tree.text(f"usr/lib/sysusers.d/{name}.conf").splitlines():
        if not (words := shlex.split(line, comments=True)):
            continue
        kind, account, number, comment, home = [*words, "-", "-", "-", "-"][:5]
        if f"\n{account}:" in "\n" + tree.text("etc/passwd" if kind == "u" else "etc/group"):
            continue
        if (kind, number) == ("u", "-:nogroup"):
            user(tree, package, account, _free_number(tree), home, comment, "!*")
        elif (kind, number) == ("g", "-"):
            _append(tree, "etc/group", f"{account}:x:{_free_number(tree)}:\n")
            _append(tree, "etc/gshadow", f"{account}:!*::\n")
        else:
            raise ValueError(f"/usr/lib/sysusers.d/{name}.conf has a line that is not known here: {line}")


def _free_number(tree: PackageTree) -> int:
    """Return the highest number of a system account (SYS_UID_MAX of login.defs(5)) that no user and no group has."""
    lines = (tree.text("etc/passwd") + tree.text("etc/group")).splitlines()
    taken = {int(line.split(":")[2]) for line in lines}
    return max(set(range(100, 1000)) - taken)


def _append(tree: PackageTree, path: str, text: str) -> None:
    """Write to the end of a file, which may not be there yet."""
    old = tree.entries.get(path, Entry(FILE, 0o644))
    tree.file(path, old.data + text.encode(), old.mode, old.gid)


def copy(tree: PackageTree, _: Package, source: str, place: str) -> None:
    """Copy a file."""
    tree.file(place, tree.entries[source].data, tree.entries[source].mode)


def directory(tree: PackageTree, _: Package, path: str, mode: int = 0o755, gid: int = 0) -> None:
    """Make a directory."""
    tree.directory(path, mode, gid)


def link(tree: PackageTree, _: Package, path: str, target: str) -> None:
    """Make a symbolic link."""
    tree.link(path, target)


def file(tree: PackageTree, _: Package, path: str, text: str = "", mode: int = 0o644) -> None:
    """Write a file where there is none."""
    if path not in tree.entries:
        tree.file(path, text, mode)


def heredoc(tree: PackageTree, package: Package, path: str) -> None:
    """Write what the script itself would write by `cat > PATH <<EOF`; $DPKG_ROOT is empty (dpkg(1))."""
    pattern = rf'cat > "?(?:\$DPKG_ROOT)?/{re.escape(path)}"? <<(-?)EOF\n(.*?)^[ \t]*EOF$'
    match = re.search(pattern, package.text("postinst"), re.DOTALL | re.MULTILINE)
    if match is None:
        raise ValueError(f"it does not write /{path}")
    tree.file(path, re.sub("^\t+", "", match[2], flags=re.MULTILINE) if match[1] else match[2])


def divert(tree: PackageTree, package: Package, path: str, other: str) -> None:
    """Note that a package has a path in place of all others; it has it by now."""
    _append(tree, f"{DPKG}/diversions", f"{path}\n{other}\n{package.name}\n")


def shells(tree: PackageTree, _: Package) -> None:
    """List the shells as update-shells(8) does, each also by its real directory."""
    base, lines = "usr/share/debianutils/shells", list[str]()
    for line in "\n".join(map(tree.text, (base, *tree.below(f"{base}.d")))).splitlines():
        if shell := line.partition("#")[0]:
            above, name = posixpath.split(shell)
            lines += [shell, f"/{tree.real(above)}/{name}"]
    listed, known = tree.text(base), list(dict.fromkeys(lines))
    tree.file("etc/shells", listed + "".join(f"{shell}\n" for shell in known if shell not in listed.splitlines()))
    tree.file("var/lib/shells.state", "".join(f"{shell}\n" for shell in known))


def alternative(tree: PackageTree, _: Package, name: str, place: str, target: str, priority: int, *others: str) -> None:
    """Choose an alternative (update-alternatives(1)); `others` are its slaves as `name place target`."""
    rows = [tuple(other.split()) for other in others]
    written = ["auto", f"/{place}", *(f"{link_name}\n{at}" for link_name, at, _ in rows), ""]
    written += [f"/{target}", str(priority), *(to for _, _, to in rows), "", ""]
    tree.file(f"{DPKG}/alternatives/{name}", "\n".join(written))
    for link_name, at, to in ((name, f"/{place}", f"/{target}"), *rows):
        if tree.real(to) in tree.entries:  # a page that is left out gets no link
            tree.link(at.lstrip("/"), f"/etc/alternatives/{link_name}")
            tree.link(f"etc/alternatives/{link_name}", to)


def page(name: str, real: str, section: str = "man1", language: str = "") -> str:
    """Return the page of an alternative as one of its slaves."""
    place, number = "/usr/share/man" + (f"/{language}" if language else ""), section[-1]
    called = f"{name}.{language}{number}.gz" if language else f"{name}.{number}.gz"
    return f"{called} {place}/{section}/{name}.{number}.gz {place}/{section}/{real}.{number}.gz"


def configuration(tree: PackageTree, package: Package, source: str, place: str) -> None:
    """Copy a file of configuration, and let ucf(1) remember it."""
    data = tree.entries[source].data
    for path in (place, f"var/lib/ucf/cache/{f'/{place}'.replace('/', ':')}"):
        tree.file(path, data)
    _append(tree, "var/lib/ucf/hashfile", f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  /{place}\n")
    _append(tree, "var/lib/ucf/registry", f"{package.name} \t /{place}\n")


def pam(tree: PackageTree, _: Package) -> None:
    """Write what pam-auth-update(8) makes of Debian's own profile, the only one that is on by default."""
    if (profiles := tree.below(f"{PAM}-configs")) != [f"{PAM}-configs/{name}" for name in ("mkhomedir", "unix")]:
        raise ValueError(f"the profiles of PAM are {', '.join(profiles)}")
    profile, nothing = control.parse_fields(tree.text(f"{PAM}-configs/unix")), "[default=1]\t\t\tpam_permit.so\n"
    tree.file("var/lib/pam/seen", "unix\nmkhomedir\n")
    for kind in PAM_KINDS:
        word = kind.partition("-")[0]
        initial = profile[f"{word.capitalize()}-Initial"].strip()
        before, options = initial.split(PAM_MODULE, 1)
        line = f"{word}\t{before.replace('end', '1')}{PAM_MODULE} {options.strip()}\n"
        primary = profile[f"{word.capitalize()}-Type"] == "Primary"
        text = re.sub(r"\$\w+_primary\n", line if primary else f"{word}\t{nothing}", tree.text(f"{PAM}/common-{kind}"))
        tree.file(f"etc/pam.d/common-{kind}", re.sub(r"\$\w+_additional\n", "" if primary else line, text))
        tree.file(f"var/lib/pam/{kind}", ("" if primary else f"Module: null\n{nothing}") + f"Module: unix\n{initial}\n")


def trust(tree: PackageTree, package: Package) -> None:
    """Trust all certificates that the package has (update-ca-certificates(8))."""
    base, path = "usr/share/ca-certificates", "etc/ca-certificates.conf"
    names = [path.removeprefix(f"{base}/") for path in tree.below(base) if path.endswith(".crt")]
    heredoc(tree, package, path)
    _append(tree, path, "".join(f"{name}\n" for name in names))
    certificates.install_certificates(tree, base, names)
