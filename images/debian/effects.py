"""What the scripts of packages would have done on an empty system, as a table: none of them is ever run.

Every script that was read for it is pinned in scripts.json; one that is not there is refused.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from images.debian import certificates, pam
from images.debian.deb import Package
from images.debian.tree import Tree
from images.host.errors import WorldFault
from images.model import PLATFORM, PLATFORMS
from images.oci.layer import EPOCH

KNOWN = Path(__file__).with_name("scripts.json")
RUN_FIRST = ("preinst", "postinst")  # what a first installation runs
DAYS = EPOCH // 86400
DPKG = "var/lib/dpkg"
NOLOGIN = "/usr/sbin/nologin"
# What one script has in different words for each machine.
MACHINES = re.compile("|".join(f"{each.multiarch}|:{each.architecture}" for each in PLATFORMS))


@dataclass
class Made:
    """A tree, and the package whose script would have changed it."""

    tree: Tree
    package: Package


Effect = Callable[[Made], None]


def require_known(packages: Iterable[Package]) -> None:
    """Raise WorldFault where a package has a script that nobody has read for TABLE."""
    known = _known()
    strange = [
        f"{package.name} {package.version} ({script})"
        for package in packages
        for script in RUN_FIRST
        if script in package.control and digest(package, script) not in known.get(f"{package.name}.{script}", ())
    ]
    if strange:
        remedy = "a newer release of multinode, or the lock of an earlier image (--lock): no script of a package is run"
        raise WorldFault("Debian's packages have scripts that are not known here", ", ".join(strange), remedy)


def digest(package: Package, script: str) -> str:
    """Return the sha256 of a script without comments, blank lines, the version of its package and the machine."""
    text = MACHINES.sub("MACHINE", package.text(script).replace(package.version, "VERSION"))
    lines = (line.strip() for line in text.splitlines())
    kept = "\n".join(line for line in lines if line and not line.startswith("#"))
    return hashlib.sha256(kept.encode()).hexdigest()


def apply(tree: Tree, package: Package, suite: str) -> None:
    """Do what the rows of a package in a suite say, if it has a script that would.

    Raises WorldFault where a file is not there, or not as it should be.
    """
    if not any(script in package.control for script in RUN_FIRST):
        return
    for name, effect in (*TABLE, *OF_SUITES.get(suite, ())):
        if name == package.name:
            try:
                effect(Made(tree, package))
            except (LookupError, ValueError) as error:
                remedy = "a newer release of multinode, or the lock of an earlier image (--lock)"
                value = f"{package.name} {package.version}: {error}"
                raise WorldFault("a Debian package has not what its script needs", value, remedy) from error


@functools.cache
def _known() -> dict[str, list[str]]:
    return dict(json.loads(KNOWN.read_text()))


def accounts(made: Made) -> None:
    """Make users and groups of Debian's lists (base-passwd(8)), all of them without a password."""
    tree = made.tree
    for name, shadow in (("passwd", "shadow"), ("group", "gshadow")):
        rows = [line.split(":") for line in tree.text(f"usr/share/base-passwd/{name}.master").splitlines()]
        tree.file(f"etc/{name}", "".join(":".join([row[0], "x", *row[2:]]) + "\n" for row in rows))
        tail = f"{DAYS}:0:99999:7:::" if name == "passwd" else ":"
        if name == "group":
            tree.groups |= {row[0]: int(row[2]) for row in rows}
        tree.file(f"etc/{shadow}", "".join(f"{row[0]}:*:{tail}\n" for row in rows), 0o640, 42)


def user(name: str, uid: int, home: str, comment: str = "", password: str = "!") -> Effect:
    """Add a user of a service in the group nogroup, who cannot log in."""

    def effect(made: Made) -> None:
        _add_line(made.tree, "etc/passwd", f"{name}:x:{uid}:65534:{comment}:{home}:{NOLOGIN}")
        _add_line(made.tree, "etc/shadow", f"{name}:{password}:{DAYS}::::::")

    return effect


def group(name: str, gid: int, program: str) -> Effect:
    """Add a group, and give it a program that is run as this group."""

    def effect(made: Made) -> None:
        _add_line(made.tree, "etc/group", f"{name}:x:{gid}:")
        _add_line(made.tree, "etc/gshadow", f"{name}:!::")
        made.tree.groups[name] = made.tree.entries[program].gid = gid

    return effect


def _add_line(tree: Tree, path: str, line: str) -> None:
    entry, name = tree.entries[path], line.partition(":")[0]
    if not any(known.startswith(f"{name}:") for known in tree.text(path).splitlines()):
        tree.file(path, entry.data + f"{line}\n".encode(), entry.mode, entry.gid)


def copy(source: str, place: str) -> Effect:
    """Copy a file."""

    def effect(made: Made) -> None:
        entry = made.tree.entries[source]
        made.tree.file(place, entry.data, entry.mode)

    return effect


def directory(path: str, mode: int = 0o755, group: str = "root") -> Effect:
    """Make a directory."""
    return lambda made: made.tree.directory(path, mode, made.tree.groups[group])


def link(path: str, target: str) -> Effect:
    """Make a symbolic link."""
    return lambda made: made.tree.link(path, target)


def file(path: str, text: str = "", mode: int = 0o644) -> Effect:
    """Write a file where there is none."""
    return lambda made: None if path in made.tree.entries else made.tree.file(path, text, mode)


def heredoc(path: str) -> Effect:
    """Write what the script itself would write by `cat > PATH <<EOF`."""
    return lambda made: made.tree.file(path, _heredoc(made, path))


def _heredoc(made: Made, path: str) -> str:
    pattern = rf"cat > /{re.escape(path)} <<(-?)EOF\n(.*?)^[ \t]*EOF$"
    found = re.search(pattern, made.package.text("postinst"), re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"it does not write /{path}")
    return re.sub("^\t+", "", found[2], flags=re.MULTILINE) if found[1] else found[2]


def divert(path: str, other: str) -> Effect:
    """Note that a package has a path in place of all others; it has it by now."""

    def effect(made: Made) -> None:
        place = f"{DPKG}/diversions"
        known = made.tree.text(place) if place in made.tree.entries else ""
        made.tree.file(place, f"{known}{path}\n{other}\n{made.package.name}\n")

    return effect


def shells(made: Made) -> None:
    """List the shells as update-shells(8) does, each also by its real directory."""
    base, found, tree = "usr/share/debianutils/shells", list[str](), made.tree
    for line in "\n".join(map(tree.text, (base, *tree.below(f"{base}.d")))).splitlines():
        if shell := line.partition("#")[0]:
            above, _, name = shell.rpartition("/")
            found += [shell, f"/{tree.real(above)}/{name}"]
    listed, known = tree.text(base), list(dict.fromkeys(found))
    tree.file("etc/shells", listed + "".join(f"{shell}\n" for shell in known if shell not in listed.splitlines()))
    tree.file("var/lib/shells.state", "".join(f"{shell}\n" for shell in known))


def alternative(name: str, place: str, target: str, priority: int, *others: str) -> Effect:
    """Choose an alternative (update-alternatives(1)); `others` are its slaves as `name place target`."""

    def effect(made: Made) -> None:
        rows = [tuple(other.split()) for other in others]
        written = ["auto", f"/{place}", *(f"{each}\n{at}" for each, at, _ in rows), ""]
        written += [f"/{target}", str(priority), *(to for _, _, to in rows), "", ""]
        made.tree.file(f"{DPKG}/alternatives/{name}", "\n".join(written))
        for each, at, to in ((name, f"/{place}", f"/{target}"), *rows):
            if made.tree.real(to) in made.tree.entries:  # a page that is left out gets no link
                made.tree.link(at.lstrip("/"), f"/etc/alternatives/{each}")
                made.tree.link(f"etc/alternatives/{each}", to)

    return effect


def page(name: str, real: str, section: str = "man1", language: str = "") -> str:
    """Return the page of an alternative as one of its slaves."""
    place, number = "/usr/share/man" + (f"/{language}" if language else ""), section[-1]
    called = f"{name}.{language}{number}.gz" if language else f"{name}.{number}.gz"
    return f"{called} {place}/{section}/{name}.{number}.gz {place}/{section}/{real}.{number}.gz"


def configuration(source: str, place: str) -> Effect:
    """Copy a file of configuration, and let ucf(1) remember it."""

    def effect(made: Made) -> None:
        data, tree = made.tree.entries[source].data, made.tree
        tree.file(place, data)
        hashed = hashlib.md5(data, usedforsecurity=False).hexdigest()
        for name, line in (("hashfile", f"{hashed}  /{place}\n"), ("registry", f"{made.package.name} \t /{place}\n")):
            known = tree.entries.get(f"var/lib/ucf/{name}")
            tree.file(f"var/lib/ucf/{name}", (known.data if known else b"") + line.encode())
        tree.file(f"var/lib/ucf/cache/{f'/{place}'.replace('/', ':')}", data)

    return effect


def trust(made: Made) -> None:
    """Trust all certificates that the package has (update-ca-certificates(8))."""
    base, path = "usr/share/ca-certificates", "etc/ca-certificates.conf"
    names = [path.removeprefix(f"{base}/") for path in made.tree.below(base) if path.endswith(".crt")]
    made.tree.file(path, _heredoc(made, path) + "".join(f"{name}\n" for name in names))
    certificates.install(made.tree, base, names)


# Rows of one package are in the order in which they are to be done; they count where it has a script.
TABLE: tuple[tuple[str, Effect], ...] = (
    ("base-passwd", accounts),
    ("apt", user("_apt", 42, "/nonexistent")),  # base-passwd has it since 3.6.1
    ("openssh-server", configuration("usr/share/openssh/sshd_config", "etc/ssh/sshd_config")),
    ("openssh-client", group("_ssh", 101, "usr/bin/ssh-agent")),
    ("base-files", copy("usr/share/base-files/dot.profile", "root/.profile")),
    ("base-files", copy("usr/share/base-files/dot.bashrc", "root/.bashrc")),
    ("base-files", copy("usr/share/base-files/profile", "etc/profile")),
    ("base-files", copy("usr/share/base-files/motd", "etc/motd")),
    *(("base-files", directory(path)) for path in (
        "mnt", "srv", "opt", "etc/opt", "var/opt", "media", "usr/local/share/man", "usr/local/bin", "usr/local/games",
        "usr/local/lib", "usr/local/include", "usr/local/sbin", "usr/local/src", "usr/local/etc",
    )),
    # Scripts of other packages, such as a JRE's, make links there, and fail where dpkg left the directory out.
    *(("base-files", directory(f"usr/share/man/man{section}")) for section in range(1, 9)),
    ("base-files", directory("var/mail", 0o2775, "mail")),
    ("base-files", link("var/spool/mail", "../mail")),
    ("base-files", link("var/run", "/run")),
    ("base-files", link("var/lock", "/run/lock")),
    ("base-files", link("usr/local/man", "share/man")),
    ("base-files", link("etc/dpkg/origins/default", "debian")),
    ("libc-bin", copy("usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf")),
    ("readline-common", copy("usr/share/readline/inputrc", "etc/inputrc")),
    ("libpam-modules", file("etc/security/opasswd", mode=0o600)),
    ("libpam-modules", file("etc/environment")),
    ("libpam-runtime", lambda made: pam.write(made.tree)),
    ("login", file("etc/subuid")),
    ("login", file("etc/subgid")),
    ("libwrap0", heredoc("etc/hosts.allow")),
    ("libwrap0", heredoc("etc/hosts.deny")),
    ("tzdata", link("etc/localtime", "/usr/share/zoneinfo/Etc/UTC")),
    ("ucf", file("var/lib/ucf/hashfile")),
    ("ucf", file("var/lib/ucf/registry")),
    ("debianutils", shells),
    ("debianutils", alternative("which", "usr/bin/which", "usr/bin/which.debianutils", 0,
        page("which", "which.debianutils"),
        *(page("which", "which.debianutils", language=each) for each in ("de", "es", "fr", "it", "ja", "pl", "sl")),
    )),
    ("mawk", alternative("awk", "usr/bin/awk", "usr/bin/mawk", 5,
        page("awk", "mawk"), "nawk /usr/bin/nawk /usr/bin/mawk", page("nawk", "mawk"),
    )),
    ("util-linux", alternative("pager", "usr/bin/pager", "bin/more", 50, page("pager", "more"))),
    ("tar", alternative("rmt", "usr/sbin/rmt", "usr/sbin/rmt-tar", 50, page("rmt", "rmt-tar", "man8"))),
    ("python3", file("etc/python3/debian_config",
        "[DEFAULT]\n# how to byte-compile (comma separated: standard, optimize)\nbyte-compile = standard\n",
    )),
    ("ca-certificates", directory("usr/local/share/ca-certificates")),
    ("ca-certificates", trust),
)  # fmt: skip
LIBRARIES = f"/lib/{PLATFORM.multiarch}"
# What the scripts of one suite do beyond that.
OF_SUITES: dict[str, tuple[tuple[str, Effect], ...]] = {
    "bookworm": (
        ("dash", divert("/bin/sh", "/bin/sh.distrib")),
        ("openssh-server", user("sshd", 100, "/run/sshd")),
        ("python3.11-minimal", directory("usr/local/lib/python3.11/dist-packages")),
        ("tzdata", file("etc/timezone", "Etc/UTC\n")),
    ),
    "trixie": (
        ("base-files", directory("usr/local/libexec")),
        *(("base-files", divert(f"/{name}", f"/.{name}.usr-is-merged")) for name in ("lib32", "libo32", "libx32")),
        ("dpkg", file(f"{DPKG}/arch-native", f"{PLATFORM.architecture}\n")),
        ("libc6", divert(f"/lib64/{PLATFORM.loader}", f"/lib64/{PLATFORM.loader}.usr-is-merged")),
        *(("libreadline8t64", divert(f"{LIBRARIES}/{name}", f"{LIBRARIES}/{name}.usr-is-merged")) for name in (
            "libhistory.so.8", "libhistory.so.8.2", "libreadline.so.8", "libreadline.so.8.2",
        )),
        ("libwtmpdb0", link("var/lib/wtmpdb/wtmp.db", "../../log/wtmp.db")),
        ("netbase", heredoc("etc/hosts")),
        ("netbase", heredoc("etc/networks")),
        ("openssh-server", user("sshd", 999, "/run/sshd", "sshd user", "!*")),  # by systemd-sysusers
        ("python3.13-minimal", directory("usr/local/lib/python3.13/dist-packages")),
    ),
}  # fmt: skip
