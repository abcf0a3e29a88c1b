"""What the scripts of packages do to an empty system, each as a function on a tree; suites.py says which does what."""

from __future__ import annotations

import base64
import hashlib
import io
import posixpath
import re
import shlex
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from images.debian import control
from images.debian.deb import Package
from images.dpkg.tree import FILE, Entry, PackageTree
from images.foreign import libraries
from images.oci.layer_writer import EPOCH
from images.platforms import Platform

PLACE = "etc/ssl/certs"
PEM = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]*)-----END")
UTF8 = 12
STRINGS = {UTF8: "utf-8", 19: "utf-8", 20: "latin-1", 22: "utf-8", 26: "utf-8", 28: "utf-32-be", 30: "utf-16-be"}
BLANKS = " \t\n\v\f\r"
VERSION, SEQUENCE = 0xA0, 0x30
RENAMED = str.maketrans(" (),", "_==_")


def install_certificates(tree: PackageTree, base: str, names: Sequence[str]) -> None:
    """Write the bundle of certificates below a directory, and the links to each.

    Raises LookupError or ValueError for what is no certificate.
    """
    links: dict[str, tuple[str, bytes]] = {}
    bundle = b""
    for name in names:
        data = tree.entries[f"{base}/{name}"].data
        bundle += data if data.endswith(b"\n") else data + b"\n"
        pem = name.rsplit("/", 1)[-1].removesuffix(".crt").translate(RENAMED) + ".pem"
        links[pem] = f"/{base}/{name}", data
    taken: dict[str, int] = {}
    for pem, (target, data) in sorted(links.items()):
        tree.link(f"{PLACE}/{pem}", target)
        digits = subject_hash(data)
        number = taken[digits] = taken.get(digits, -1) + 1
        tree.link(f"{PLACE}/{digits}.{number}", pem)
    tree.file(f"{PLACE}/ca-certificates.crt", bundle)


def subject_hash(pem: bytes) -> str:
    """Return the 8 digits of a certificate: SHA-1 of its subject, in lower case and with single blanks.

    Raises LookupError or ValueError for what is no certificate.
    """
    match = PEM.search(pem)
    if match is None:
        raise ValueError("no certificate in a file of certificates")
    (_, certificate), *_ = _read_elements(base64.b64decode(match[1]))
    (_, signed), *_ = _read_elements(certificate)
    body = list(_read_elements(signed))
    _, subject = body[5 if body[0][0] == VERSION else 4]
    names = b"".join(_der(tag, _canonical_name(name)) for tag, name in _read_elements(subject))
    return hashlib.sha1(names, usedforsecurity=False).digest()[3::-1].hex()


def _canonical_name(name: bytes) -> bytes:
    """Write the pairs of a name as OpenSSL compares them."""
    out = b""
    for _, pair in _read_elements(name):
        kind, (tag, value) = _read_elements(pair)
        if tag in STRINGS:
            text = re.sub(f"[{BLANKS}]+", " ", value.decode(STRINGS[tag]).strip(BLANKS))
            tag, value = UTF8, "".join(letter.lower() if letter.isascii() else letter for letter in text).encode()
        out += _der(SEQUENCE, _der(*kind) + _der(tag, value))
    return out


def _read_elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and value of each element of DER (X.690)."""
    at = 0
    while at < len(data):
        tag, size, start = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, start = int.from_bytes(data[start : start + count], "big"), start + count
        if start + size > len(data):
            raise ValueError("a certificate is cut short")
        yield tag, data[start : start + size]
        at = start + size


def _der(tag: int, value: bytes) -> bytes:
    size = len(value)
    length = -(-size.bit_length() // 8)
    head = bytes([size]) if size < 0x80 else bytes([0x80 | length]) + size.to_bytes(length, "big")
    return bytes([tag]) + head + value


# /etc/ld.so.cache as ldconfig of glibc 2.36 and 2.41 writes it.
#
# Its form: sysdeps/generic/dl-cache.h, elf/cache.c and elf/stringtable.c of glibc.

ELF = b"\x7fELF"
BANNER = re.compile(rb"GNU C Library \((Debian GLIBC [^)]{1,80})\) ([a-z]{1,20} release version [0-9]+\.[0-9]+)")
MAGIC, EXTENSION, LITTLE = b"glibc-ld.so.cache1.1", 0xEAA42174, 2
HEAD, ROW = struct.Struct("<20sIIB3xI12x"), struct.Struct("<iIIIQ")

Library = tuple[str, str]  # name and path


def write_cache(tree: PackageTree, platform: Platform) -> None:
    """Write the cache, and the links by the names of libraries that are not there yet.

    Raises LookupError where there is no C library.
    """
    tree.file("etc/ld.so.cache", _rendered(_list_libraries(tree, platform), _generator(tree, platform), platform))


def _read_search_path(tree: PackageTree) -> list[str]:
    """Return where libraries are looked for, in order, each real directory once by its first name."""
    lines = [line.strip() for path in tree.below("etc/ld.so.conf.d") for line in tree.text(path).splitlines()]
    directories = [line for line in lines if line and not line.startswith("#")]
    real: dict[str, str] = {}
    for path in (*directories, "/lib"):  # which is /usr/lib in a merged /usr
        real.setdefault(tree.real(path), path)
    return list(real.values())


def _list_libraries(tree: PackageTree, platform: Platform) -> list[Library]:
    inside: dict[str, list[str]] = defaultdict(list)
    for path in tree.entries:
        inside[posixpath.dirname(path)].append(path)
    libraries: dict[Library, None] = {}
    for shown in _read_search_path(tree):
        directory = tree.real(shown)
        for path in inside[directory]:
            if name := _find_name(tree, path, platform):
                if f"{directory}/{name}" not in tree.entries:
                    tree.link(f"{directory}/{name}", posixpath.basename(path))
                libraries[name, f"{shown}/{name}"] = None
    return list(libraries)


def _find_name(tree: PackageTree, path: str, platform: Platform) -> str | None:
    """Return the name that a library is found by, None for what is none of the image's machine."""
    name, real = posixpath.basename(path), tree.real(path)
    entry = tree.entries.get(real)
    if not name.startswith(("lib", "ld-")) or ".so" not in name or entry is None or entry.kind != FILE:
        return None
    data = entry.data
    if data[:4] != ELF or len(data) < 20 or int.from_bytes(data[18:20], "little") != platform.elf:
        return None
    tags = libraries.read_section(io.BytesIO(data), ".dynamic", lambda section: section.iter_tags())
    if not tags:
        return None
    soname = next((str(tag.soname) for tag in tags if tag.entry.d_tag == "DT_SONAME"), name)
    return name if "/" in soname else soname


def _generator(tree: PackageTree, platform: Platform) -> bytes:
    """Name the ldconfig that would have written the cache: that of the C library."""
    banner = BANNER.search(tree.entries[tree.real(f"lib/{platform.multiarch}/libc.so.6")].data)
    if banner is None:
        raise LookupError("no C library of Debian")
    return b"ldconfig (" + banner[1] + b") " + banner[2]


def _rendered(libraries: list[Library], generator: bytes, platform: Platform) -> bytes:
    rows = sorted(libraries, key=lambda row: _order(row[0]), reverse=True)
    start = HEAD.size + ROW.size * len(rows)
    places: dict[str, int] = {}
    texts, last = bytearray(), ""
    # A text that another one ends in is not written again.
    for text in sorted({text for row in libraries for text in row}, key=lambda text: text[::-1], reverse=True):
        if not last.endswith(text):
            last, begin = text, start + len(texts)
            texts += text.encode() + b"\0"
        places[text] = begin + len(last) - len(text)
    end = start + len(texts)
    extension = -(-end // 4) * 4
    out = HEAD.pack(MAGIC, len(rows), len(texts), LITTLE, extension)
    out += b"".join(ROW.pack(platform.cache_flags, places[name], places[path], 0, 0) for name, path in rows)
    out += bytes(texts) + bytes(extension - end)
    return out + struct.pack("<6I", EXTENSION, 1, 0, 0, extension + 24, len(generator)) + generator


def _order(name: str) -> list[tuple[bool, int]]:
    """Return what glibc's _dl_cache_libcmp compares of a name: characters, and after all of them numbers."""
    parts = re.findall(r"[0-9]+|[^0-9]", name)
    return [(part.isdigit(), int(part) if part.isdigit() else ord(part)) for part in parts]


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
    install_certificates(tree, base, names)
