"""The root file systems that are made of packages of each suite: every entry, and the texts that scripts would write.

The packages have what the rows of images/dpkg/suites.py read, and one of each thing that dpkg treats in its own way.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from images.debian.deb import Debian
from images.dpkg import effects, rootfs, suites
from images.dpkg.tree import PackageTree
from images.oci import compression
from images.platforms import AMD64, ARM64, Platform
from tests.golden import entries
from tests.golden.data import as_json
from tests.support.elf import library
from tests.support.packages import package
from tests.support.stand_in import Directory, Files, layer

SYSTEMS: Mapping[str, Platform] = {"bookworm": AMD64, "trixie": ARM64}
# Texts are in the golden data of files below these, unless they are copies.
WRITTEN = ("etc/", "var/lib/")
OTHERS = re.compile(r"/info/|ld\.so\.cache|\.crt$")
# Made by openssl, as is the hash: the subject has capitals, an umlaut, and blanks in front and after another.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBxTCCAWugAwIBAgIUC9SfOS3B8gBnSJ6PJtdicbmqks8wCgYIKoZIzj0EAwIw
ODELMAkGA1UEBhMCREUxGjAYBgNVBAoMESAgR3LDtsOfZSAgT2YgIEEgMQ0wCwYD
VQQDDARSb290MB4XDTI2MTEyNTE5NTUxMVoXDTI2MTEyNjE5NTUxMVowODELMAkG
A1UEBhMCREUxGjAYBgNVBAoMESAgR3LDtsOfZSAgT2YgIEEgMQ0wCwYDVQQDDARS
b290MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEGSDsNNOBKyyVmWn0Yz/Usc1
NoybOOdfKKcHkSnrpSn2AoTdjclV2kH4JBmvK1h9CaQ0cd2WO4VG/t3Vk4Pw/KNT
MFEwHQYDVR0OBBYEFNholaV7HGE11KcL72m3Kj+/mq6HMB8GA1UdIwQYMBaAFNho
laV7HGE11KcL72m3Kj+/mq6HMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwID
SAAwRQIhAMM5PTO0e7yeg4UFxV+RuSYUmwLHaFrusbIXSQoK5sk3AiBcb2M/bHyP
fbJ1xmDfGnVeOKKi0SBmt+9e3t82/JUAAA==
-----END CERTIFICATE-----
"""
PROFILE = "".join(
    f"{kind}-Type: Primary\n{kind}-Initial:\n\t[success=end default=ignore]\tpam_unix.so nullok\n"
    for kind in ("Auth", "Account", "Password")
) + "Session-Type: Additional\nSession-Initial:\n\trequired\tpam_unix.so\n"  # fmt: skip
ACCOUNTS = "root:*:0:0:root:/root:/bin/bash\nmail:*:8:8:mail:/var/mail:/usr/sbin/nologin\n"
LISTS = """\
g _ssh -
u sshd -:nogroup "sshd user" /run/sshd
"""
# Fields of a package that dpkg writes in an order of its own, and one that it does not know.
FIELDS = (
    "Breaks", "Bugs", "Conflicts", "Depends", "Enhances", "Homepage", "Installed_Size", "Origin", "Pre_Depends",
    "Priority", "Protected", "Recommends", "Replaces", "Section", "Source", "Suggests",
)  # fmt: skip
# Files of one machine or moment, which no image has.
CLEANED = (
    "./dev/null", "./etc/hostname", "./etc/machine-id", "./etc/resolv.conf", "./etc/ssh/ssh_host_rsa_key", "./run/x",
    "./var/cache/apt/x", "./var/cache/ldconfig/x", "./var/lib/apt/lists/x", "./var/log/x.log",
)  # fmt: skip

BANNER = b"GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36."


def elf(soname: str, platform: Platform) -> bytes:
    """Return a library for a platform."""
    return library(soname).replace(AMD64.elf.to_bytes(2, "little"), platform.elf.to_bytes(2, "little"), 1)


def files_of(name: str, platform: Platform) -> Files:
    """Return what a package has beside the files that a row names."""
    libraries = f"./usr/lib/{platform.multiarch}"
    texts: dict[str, dict[str, bytes | str | Directory | None]] = {
        "base-passwd": {
            "./usr/share/base-passwd/passwd.master": ACCOUNTS.encode(),
            "./usr/share/base-passwd/group.master": b"root:*:0:\nshadow:*:42:\nmail:*:8:\n",
        },
        "openssh-server": {"./usr/lib/sysusers.d/openssh-server.conf": LISTS.encode()},
        "openssh-client": {"./usr/bin/ssh-agent": b"#!an agent"},
        "debianutils": {
            "./usr/share/debianutils/shells": b"# shells\n/bin/sh\n", "./usr/bin/which.debianutils": b"#!which",
            "./usr/share/debianutils/shells.d/dash": b"/bin/dash # a shell\n\n/usr/bin/dash\n",
        },
        "libpam-runtime": {
            "./usr/share/pam-configs/unix": PROFILE.encode(), "./usr/share/pam-configs/mkhomedir": b"",
            **{f"./usr/share/pam/common-{kind}": b"# first\n$x_primary\n# then\n$x_additional\n"
               for kind in effects.PAM_KINDS},
        },
        "ca-certificates": {f"./usr/share/ca-certificates/mozilla/{name}.crt": CERTIFICATE.encode()
                            for name in ("B", "A (1)")},
        "mawk": {"./usr/bin/mawk": b"#!awk"},
        "util-linux": {"./bin/more": b"#!more"},
        "tar": {"./usr/sbin/rmt-tar": b"#!rmt"},
        "libc-bin": {"./etc/ld.so.conf.d/x.conf": f"# more\n/usr/lib/{platform.multiarch}\n/opt/lib\n".encode()},
        "libc6": {
            f"{libraries}/libc.so.6": elf("libc.so.6", platform) + BANNER, f"{libraries}/liba.so.10": b"no library",
            f"{libraries}/libz.so.1.3": elf("libz.so.1", platform), f"{libraries}/libz-1.20.so": elf("", platform),
        },
        "tool": {
            "./": Directory(), "./bin": Directory(0o750), "./bin/tool": b"#!a tool", "./sbin/other": Directory(0o2755),
            "./usr/share/doc/tool/README": b"left out", "./usr/share/doc/tool/copyright": b"kept",
            "./usr/share/doc/file": b"left out", "./usr/share/man/man1/tool.1": b"left out",
            "./usr/lib/python3.11/a.py": b"1", "./tmp/x": b"left out", "./etc/tool.conf": b"text",
            "./usr/share/doc/link": "tool", **dict.fromkeys(CLEANED, b"left out"),
        },
    }  # fmt: skip
    return texts.get(name, {})


def packages_of(suite: str, platform: Platform) -> dict[str, bytes]:
    """Return one package for each that a suite has a row of, and some more."""
    rows = suites.rows(suite, platform)
    heredocs = [f"etc/{name}" for name in ("hosts.allow", "hosts.deny", "hosts", "networks", "ca-certificates.conf")]
    script = "".join(f'cat > "$DPKG_ROOT/{path}" <<-EOF\n\t# {path}\n\tEOF\n' for path in heredocs)
    contents = {}
    for name in sorted({*(name for name, *_ in rows), "libc6", "tool"}):
        copied = [row[2] for row in rows if row[0] == name and row[1] in (effects.copy, effects.configuration)]
        files: Files = {**{f"./{path}": f"{path}\n".encode() for path in copied}, **files_of(name, platform)}
        control = {"postinst": script, "triggers": f"interest /usr/{name}\ninterest-noawait {name}\n"}
        if name == "tool":
            control = {"conffiles": "/etc/tool.conf\n", "prerm": "exit\n"}
        more = {"Essential": "yes", "Multi_Arch": "same"} if name == "dash" else {"Provides": f"{name}-x (= 1)"}
        more |= dict.fromkeys(FIELDS, "x") if name == "tool" else {}
        architecture = "all" if name == "tzdata" else platform.architecture
        contents[name] = package(name, layer(files), control, Architecture=architecture, **more)
    return contents


def make(suite: str, platform: Platform, place: Path) -> PackageTree:
    """Make the tree of the packages of a suite, whose scripts are not known."""
    paths = []
    for name, content in packages_of(suite, platform).items():
        paths.append(place / f"{name}.deb")
        paths[-1].write_bytes(content)
    recipe = Debian(suite, ("tool", "mawk-x"), f"deb {suite}\n", ())
    with mock.patch.object(suites, "require_known"):
        return rootfs.make_tree(recipe, paths, platform)


def described(suite: str, platform: Platform) -> dict[str, Any]:
    """Return every entry of a tree as a layer has it, and the texts of those that are written."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        rootfs.write_tree(make(suite, platform, place), place / "layer", compression.USUAL)
        read = entries.read(place / "layer")
    texts = {entry.path: entry.content for entry in read if entry.content and entry.path.startswith(WRITTEN)}
    shown = {path: text.decode().splitlines() for path, text in texts.items() if not OTHERS.search(path)}
    return {"entries": [entry.line for entry in read], "texts": shown}


def produce(*wanted: str) -> dict[str, str]:
    """Return the golden data: one file for each suite, or for those that are wanted."""
    return {f"{suite}.json": as_json(described(suite, SYSTEMS[suite])) for suite in wanted or SYSTEMS}
