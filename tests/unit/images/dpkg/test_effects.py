"""What single scripts of packages do to a tree, file by file, and the cache of libraries."""

from __future__ import annotations

import base64
import hashlib
import struct

import pytest

from images.debian import deb
from images.debian.deb import Package
from images.dpkg import effects
from images.dpkg.tree import DIRECTORY, FILE, LINK, PackageTree
from images.platforms import AMD64, ARM64, PLATFORMS, Platform
from tests.support.elf import library
from tests.support.packages import package
from tests.support.stand_in import Directory, Files, layer


def tree_of(files: Files, name: str = "tool", script: str = "") -> tuple[PackageTree, Package]:
    """Unpack a package with a script."""
    tree, unpacked = PackageTree(), deb.parse_package(package(name, layer(files), {"postinst": script}), "")
    tree.unpack(unpacked)
    return tree, unpacked


SHELLS = "usr/share/debianutils/shells"


def test_shells_are_listed_once_each_also_by_its_real_directory() -> None:
    """Those of the package first and as they stand there, of others by the names of their files."""
    tree, unpacked = tree_of({
        f"./{SHELLS}": b"# a comment\n/bin/sh\n/usr/bin/sh\n\n",
        f"./{SHELLS}.d/dash": b"/bin/dash # another\n/bin/sh\n", f"./{SHELLS}.d/bash": b"/bin/bash\n",
    })  # fmt: skip

    effects.shells(tree, unpacked)

    more = "/bin/bash\n/usr/bin/bash\n/bin/dash \n/usr/bin/dash \n"
    assert tree.text("etc/shells") == "# a comment\n/bin/sh\n/usr/bin/sh\n\n" + more
    assert tree.text("var/lib/shells.state") == "/bin/sh\n/usr/bin/sh\n" + more


def test_what_is_made_has_its_mode_and_group() -> None:
    tree, unpacked = tree_of({"./usr/a": b"text", "./usr/there": Directory(0o700)})
    tree.entries["usr/a"].mode = 0o640
    effects.copy(tree, unpacked, "usr/a", "etc/a")
    effects.file(tree, unpacked, "etc/b")
    effects.file(tree, unpacked, "etc/c", "", 0o600)
    for given in (("usr/d",), ("usr/mail", 0o2775, 8), ("usr/there", 0o755)):
        effects.directory(tree, unpacked, *given)
    effects.link(tree, unpacked, "etc/e", "../usr/a")
    tree.complete()

    entries = {path: (one.kind, one.mode, one.gid) for path, one in tree.entries.items() if "/" in path}
    assert entries == {
        "usr/a": (FILE, 0o640, 0), "etc/a": (FILE, 0o640, 0), "etc/b": (FILE, 0o644, 0), "etc/c": (FILE, 0o600, 0),
        "usr/d": (DIRECTORY, 0o755, 0), "usr/mail": (DIRECTORY, 0o2775, 8), "usr/there": (DIRECTORY, 0o700, 0),
        "etc/e": (LINK, 0o777, 0),
    }  # fmt: skip
    assert {(tree.entries[above].kind, tree.entries[above].mode) for above in ("usr", "etc")} == {(DIRECTORY, 0o755)}


ACCOUNTS: Files = {
    "./usr/share/base-passwd/passwd.master": b"root:*:0:0:root:/root:/bin/bash\n_apt:*:42:65534::/nonexistent:/x\n",
    "./usr/share/base-passwd/group.master": b"root:*:0:\n", "./usr/bin/agent": b"",
}  # fmt: skip


def test_a_group_has_its_program_and_a_user_that_is_there_stays() -> None:
    tree, unpacked = tree_of(ACCOUNTS)
    effects.accounts(tree, unpacked, "")
    effects.group(tree, unpacked, "_ssh", 101, "usr/bin/agent")
    effects.user(tree, unpacked, "_apt", 7, "/elsewhere")
    effects.user(tree, unpacked, "apt", 43, "/home", "a comment", "!*")

    assert tree.text("etc/group") == "root:x:0:\n_ssh:x:101:\n"
    assert tree.text("etc/gshadow") == "root:*::\n_ssh:!::\n"
    assert (tree.entries["usr/bin/agent"].gid, tree.entries["etc/gshadow"].mode, tree.entries["etc/gshadow"].gid) == (
        101,
        0o640,
        42,
    )
    assert tree.text("etc/passwd").splitlines()[1:] == [
        "_apt:x:42:65534::/nonexistent:/x", "apt:x:43:65534:a comment:/home:/usr/sbin/nologin",
    ]  # fmt: skip
    assert tree.text("etc/shadow").splitlines()[-1] == "apt:!*:19723::::::"


@pytest.mark.parametrize(
    "script",
    ["", "cat > /etc/hosts.other <<EOF\nx\nEOF\n", "cat > /etc/hosts <<EOF\nx\n", "cat > /etc/hosts\nx\nEOF\n"],
)
def test_a_script_that_does_not_write_a_file_is_another_one(script: str) -> None:
    tree, unpacked = tree_of({}, script=script)
    with pytest.raises(ValueError, match="it does not write /etc/hosts"):
        effects.heredoc(tree, unpacked, "etc/hosts")


def test_paths_are_diverted_and_configuration_is_remembered_one_after_the_other() -> None:
    tree, unpacked = tree_of({"./usr/a": b"a", "./usr/b": b"b"})
    for name in ("a", "b"):
        effects.divert(tree, unpacked, f"/{name}", f"/{name}.real")
        effects.configuration(tree, unpacked, f"usr/{name}", f"etc/d/{name}")

    assert tree.text("var/lib/dpkg/diversions") == "/a\n/a.real\ntool\n/b\n/b.real\ntool\n"
    assert tree.text("var/lib/ucf/registry") == "tool \t /etc/d/a\ntool \t /etc/d/b\n"
    sums = [f"{hashlib.md5(text).hexdigest()}  /etc/d/{text.decode()}\n" for text in (b"a", b"b")]
    assert tree.text("var/lib/ucf/hashfile") == "".join(sums)
    assert tree.text("var/lib/ucf/cache/:etc:d:b") == "b"


def test_an_alternative_lists_all_its_slaves() -> None:
    tree, unpacked = tree_of({"./usr/bin/mawk": b""})
    effects.alternative(
        tree, unpacked, "awk", "usr/bin/awk", "usr/bin/mawk", 5, "nawk /usr/bin/nawk /usr/bin/mawk",
        effects.page("awk", "mawk", "man8"), effects.page("awk", "mawk", language="de"),
    )  # fmt: skip

    assert tree.text("var/lib/dpkg/alternatives/awk").splitlines() == [
        "auto", "/usr/bin/awk", "nawk", "/usr/bin/nawk", "awk.8.gz", "/usr/share/man/man8/awk.8.gz",
        "awk.de1.gz", "/usr/share/man/de/man1/awk.1.gz", "", "/usr/bin/mawk", "5", "/usr/bin/mawk",
        "/usr/share/man/man8/mawk.8.gz", "/usr/share/man/de/man1/mawk.1.gz", "",
    ]  # fmt: skip
    assert {path for path, entry in tree.entries.items() if entry.kind == LINK and "/" in path} == {
        "usr/bin/awk", "etc/alternatives/awk", "usr/bin/nawk", "etc/alternatives/nawk",
    }  # fmt: skip


def element(tag: int, *parts: bytes) -> bytes:
    """Write an element of DER."""
    value = b"".join(parts)
    size = len(value)
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, size] if size < 0x80 else [tag, 0x80 | len(long), *long]) + value


def certificate(*names: tuple[int, bytes], has_version: bool = True) -> str:
    """Write what counts of a certificate: the subject is the fifth part, or the sixth behind a version."""
    kind = element(6, b"\x55\x04\x03")
    subject = element(48, *(element(49, element(48, kind, element(*name))) for name in names))
    before = [element(0xA0, element(2, b"\2"))] if has_version else []
    signed = element(48, *before, element(2, b"\1"), element(48), element(48, b"issuer"), element(48), subject)
    text = base64.b64encode(element(48, signed, element(48), element(3, b"signature"))).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


def digits(*names: tuple[int, bytes], has_version: bool = True) -> str:
    return effects.subject_hash(certificate(*names, has_version=has_version).encode())


LONG = "x" * 200


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((12, b"A  b "), (19, b"a b"), True),
        ((12, b"\ta\v\nb"), (20, b"a b"), True),
        ((30, "a\u00e9".encode("utf-16-be")), (12, "A\u00e9".encode()), True),
        ((28, "ab".encode("utf-32-be")), (26, b"AB"), True),
        ((20, b"\xe9"), (12, "\u00e9".encode()), True),
        ((12, "\u00c9".encode()), (12, "\u00e9".encode()), False),  # letters of ASCII alone are made small
        ((12, b"ab"), (12, b"a b"), False),
        ((12, "\u00a0a".encode()), (12, b"a"), False),  # nor is this a blank
        ((4, b"A"), (4, b"a"), False),  # what is no text stays
        ((4, b"a"), (12, b"a"), False),
        ((12, LONG.upper().encode()), (22, LONG.encode()), True),
        ((12, LONG.encode()), (12, LONG[1:].encode()), False),
    ],
)
def test_subjects_are_compared_as_openssl_does(one: tuple[int, bytes], other: tuple[int, bytes], *, same: bool) -> None:
    assert (digits(one) == digits(other)) is same
    assert (digits(one, other) == digits(other, one)) is same
    assert digits(one) == digits(one, has_version=False)


@pytest.mark.parametrize("size", [4, 100, 127, 128, 300])
def test_a_hash_of_a_subject_is_the_first_bytes_of_its_sha1_from_the_last(size: int) -> None:
    """What OpenSSL hashes is the subject without its outermost element."""
    inner = element(49, element(48, element(6, b"\x55\x04\x03"), element(12, b"r" * size)))
    assert digits((19, b"R" * size)) == hashlib.sha1(inner).digest()[:4][::-1].hex()


def test_what_is_no_certificate_is_said() -> None:
    whole = base64.b64decode("".join(certificate((12, b"a")).splitlines()[1:-1]))
    cut = base64.b64encode(whole[:-1])
    for text in (b"", b"-----BEGIN CERTIFICATE-----\n-----END", b"-----BEGIN CERTIFICATE-----\n" + cut + b"\n-----END"):
        with pytest.raises((LookupError, ValueError)):
            effects.subject_hash(text)


def test_all_certificates_of_a_package_are_trusted() -> None:
    base = "usr/share/ca-certificates"
    script = "cat > /etc/ca-certificates.conf <<EOF\n# a list\nEOF\n"
    files = {name: certificate((12, name.encode())) for name in ("b/Z.crt", "a (1).crt", "a,2.crt")}
    more: Files = {f"./{base}/{name}": text.encode() for name, text in files.items()}
    tree, unpacked = tree_of({**more, f"./{base}/README": b"no certificate"}, script=script)

    effects.trust(tree, unpacked)

    assert tree.text("etc/ca-certificates.conf") == "# a list\na (1).crt\na,2.crt\nb/Z.crt\n"
    bundle = "".join(files[name] for name in ("a (1).crt", "a,2.crt", "b/Z.crt"))
    assert tree.text("etc/ssl/certs/ca-certificates.crt") == bundle
    links = {path: entry.link for path, entry in tree.entries.items() if path.startswith("etc/ssl") and entry.link}
    assert links == {
        "etc/ssl/certs/Z.pem": f"/{base}/b/Z.crt", "etc/ssl/certs/a_=1=.pem": f"/{base}/a (1).crt",
        "etc/ssl/certs/a_2.pem": f"/{base}/a,2.crt",
        **{f"etc/ssl/certs/{digits((12, name.encode()))}.0": pem for name, pem in (
            ("b/Z.crt", "Z.pem"), ("a (1).crt", "a_=1=.pem"), ("a,2.crt", "a_2.pem"),
        )},
    }  # fmt: skip


# /etc/ld.so.cache, read as elf/dl-cache.c of glibc reads it.

BANNER = b"GNU C Library (Debian GLIBC 2.36-9+deb12u4) stable release version 2.36."


def read_cache(data: bytes) -> tuple[list[tuple[int, str, str]], bytes]:
    """Return the rows of a cache, flags, name and path, and what the extension says that wrote it."""
    magic, count, size, flags, extension = struct.unpack_from("<20sIIB3xI", data)
    assert (magic, flags, extension % 4) == (b"glibc-ld.so.cache1.1", 2, 0)

    def text(at: int) -> str:
        assert 48 + 24 * count <= at < 48 + 24 * count + size
        return data[at : data.index(0, at)].decode()

    rows = [struct.unpack_from("<iIIIQ", data, 48 + 24 * number) for number in range(count)]
    assert {row[3:] for row in rows} <= {(0, 0)}
    mark, sections, kind, _, at, length = struct.unpack_from("<6I", data, extension)
    assert (mark, sections, kind, at + length) == (0xEAA42174, 1, 0, len(data))
    return [(flag, text(name), text(path)) for flag, name, path, *_ in rows], data[at:]


def with_machine(data: bytes, platform: Platform) -> bytes:
    return data[:18] + struct.pack("<H", platform.elf) + data[20:]


@pytest.mark.parametrize("platform", PLATFORMS, ids=str)
def test_the_cache_has_each_library_by_its_name_and_the_newest_first(platform: Platform) -> None:
    other = ARM64 if platform == AMD64 else AMD64
    shown, more = f"lib/{platform.multiarch}", "opt/more"
    place = f"usr/{shown}"
    libraries = {
        f"{place}/libc.so.6": library("libc.so.6") + BANNER,
        f"{place}/libz.so.1.2.13": library("libz.so.1"),
        f"{place}/libz.so.10": library("libz.so.10"),
        f"{place}/libz.so.9": library("libz.so.9"),
        f"{place}/libplain.so": library(),
        f"{place}/libstatic.so": bytes(64).join((b"\x7fELF", b"")),
        "usr/lib/libtop.so": library("libtop.so"),
        f"{place}/libodd.so": library("../libodd.so.1"),
        f"{place}/ld-linux.so.2": library("ld-linux.so.2"),
        f"{more}/libz.so.9": library("libz.so.9"),
        f"{place}/deeper/libdeep.so": library("libdeep.so"),
        f"{place}/plugin.so": library("plugin.so"),
        f"{place}/libarchive.a": library("libarchive.a"),
    }
    tree, _ = tree_of({f"./{path}": with_machine(data, platform) for path, data in libraries.items()})
    tree.file(f"{place}/libother.so", with_machine(library("libother.so"), other))
    tree.file(f"{place}/libscript.so", "/* GNU ld script */" + " " * 20)
    tree.file(f"{place}/libshort.so", b"\x7fELF")
    tree.link(f"{place}/libnowhere.so", "nothing")
    tree.link(f"{place}/libz.so", "libz.so.9")
    tree.file("etc/ld.so.conf.d/a.conf", f"# a comment\n\n/{more}\n/{shown}\n/{place}\n")

    effects.write_cache(tree, platform)

    rows, generator = read_cache(tree.entries["etc/ld.so.cache"].data)
    assert generator == b"ldconfig (Debian GLIBC 2.36-9+deb12u4) stable release version 2.36"
    assert {flag for flag, *_ in rows} == {platform.cache_flags}
    assert [row[1:] for row in rows] == [
        ("libz.so.10", f"/{shown}/libz.so.10"), ("libz.so.9", f"/{more}/libz.so.9"),
        ("libz.so.9", f"/{shown}/libz.so.9"), ("libz.so.1", f"/{shown}/libz.so.1"),
        ("libtop.so", "/lib/libtop.so"), ("libplain.so", f"/{shown}/libplain.so"),
        ("libodd.so", f"/{shown}/libodd.so"),
        ("libc.so.6", f"/{shown}/libc.so.6"), ("ld-linux.so.2", f"/{shown}/ld-linux.so.2"),
    ]  # fmt: skip
    assert tree.entries["etc/ld.so.cache"].data.count(b"libz.so.10\0") == 1, "a text that another ends in is there once"
    assert tree.entries[f"{place}/libz.so.1"].link == "libz.so.1.2.13"
    assert tree.entries[f"{place}/libz.so.9"].kind == FILE, "what is there stays"


def test_without_a_c_library_of_debian_there_is_no_cache() -> None:
    for data in (None, b"another C library"):
        tree = PackageTree()
        if data:
            tree.file("usr/lib/x86_64-linux-gnu/libc.so.6", data)
        with pytest.raises(LookupError):
            effects.write_cache(tree, AMD64)
