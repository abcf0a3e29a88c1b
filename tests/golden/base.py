"""A base image of a few text files, the same on every machine: what a build asks of a base, and odd owners.

It has everything that images need, so that nothing is taken out of Debian's packages, which change: the layer of such
additions is not in the golden data.
"""

from __future__ import annotations

from dataclasses import asdict

from tests.golden.data import as_json
from tests.support.base_facts import facts_of
from tests.support.stand_in import LIBRARY, Directory, Files, Image

SITE = "usr/local/lib/python3.11/dist-packages"
LOADER = f"{LIBRARY}/ld-linux-x86-64.so.2"
STATUS = """\
Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u13

Package: python3.11
Status: install ok installed
Version: 3.11.2-6+deb12u6
"""
SYSTEM: Files = {
    "bin": "usr/bin",
    "lib": "usr/lib",
    "lib64": "usr/lib64",
    "sbin": "usr/sbin",
    "etc": None,
    "etc/passwd": b"root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n",
    "etc/group": b"root:x:0:\nstaff:x:50:\n",
    "etc/os-release": "../usr/lib/os-release",
    "etc/ssh": Directory(0o750),
    "home": Directory(0o711),
    "usr/lib/os-release": b'ID=debian\nVERSION_ID="12"\n',
    "usr/bin/sh": b"#! a shell",
    "usr/bin/python": "python3",
    "usr/bin/python3": "python3.11",
    "usr/bin/python3.11": b"#! an interpreter",
    "usr/bin/tini": b"#! an init",
    "usr/sbin/sshd": b"#! a server",
    LOADER: b"#!/bin/sh\nexit 0\n",
    f"{LIBRARY}/libtcmalloc.so.4": b"an allocator",
    f"{LIBRARY}/libnss_wrapper.so": b"names for users",
    "usr/local": Directory(0o2775, 0, 50),
    "usr/local/lib": Directory(0o2775, 0, 50),
    "usr/local/bin": Directory(0o2775, 0, 50),
    "usr/local/include": "/usr/include/local",
    "usr/include/local": Directory(0o755, 0, 50),
    "var/lib/dpkg/status": STATUS.encode(),
}
# Of the packages of wheels.py: accelerate in an older release, which is hidden, and psutil in the one that is planned.
PACKAGES: Files = {
    SITE: Directory(0o2775, 0, 50),
    f"{SITE}/accelerate/__init__.py": b"__version__ = '0.20.0'\n",
    f"{SITE}/accelerate/only_old.py": b"",
    f"{SITE}/accelerate/__pycache__/only_old.cpython-311.pyc": b"bytecode",
    "usr/local/bin/accelerate-old": b"#!/usr/bin/python3\n",
    **{f"usr/local/{name}/old": b"" for name in ("etc", "lib64", "sbin", "share")},  # these stay, though empty
    f"{SITE}/accelerate-0.20.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: accelerate\nVersion: 0.20.0\n",
    f"{SITE}/accelerate-0.20.0.dist-info/RECORD": (
        b"accelerate/__init__.py,,\naccelerate/only_old.py,,\n../../../bin/accelerate-old,,\n"
        b"../../../etc/old,,\n../../../lib64/old,,\n../../../sbin/old,,\n../../../share/old,,\n"
        b"accelerate-0.20.0.dist-info/METADATA,,\naccelerate-0.20.0.dist-info/RECORD,,\n"
    ),
    f"{SITE}/psutil/__init__.py": b"__version__ = '7.0.0'\n",
    f"{SITE}/psutil-7.0.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: psutil\nVersion: 7.0.0\n",
    f"{SITE}/psutil-7.0.0.dist-info/RECORD": b"psutil/__init__.py,,\n",
}
# Not compressed: what gzip makes of them differs between releases of zlib, and a label has the digest of the manifest.
PLAIN = Image([SYSTEM], "none")
# What its containers start from: variables that images keep, join with their own, replace, and leave out.
SETTINGS = {"Env": ["KEPT=a=b", "LANG=C", "LD_LIBRARY_PATH=/opt/lib", "PATH=/opt/bin:/usr/bin", "PYTHONPATH=/opt"]}
HISTORY = [{"created_by": "a system"}, {"created_by": "a label", "empty_layer": True}, {"created_by": "packages"}]
WITH_VARIABLES = Image([SYSTEM], "none", config=SETTINGS)
WITH_PACKAGES = Image([SYSTEM, PACKAGES], "none", config=SETTINGS, history=HISTORY)


def produce() -> dict[str, str]:
    """Return what is known of the base with packages, and so decides what goes on it."""
    system = {path: content for path, content in SYSTEM.items() if path != "usr/sbin/sshd"}
    return {"facts.json": as_json(asdict(facts_of({**system, "usr/local/sbin/sshd": b"#!"}, PACKAGES)))}
