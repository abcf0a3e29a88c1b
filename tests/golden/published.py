"""What a registry gets beside an image, whose digests `verify` compares: the provenance and the SBOM of one lock, and
the manifests and entries of lists by which both are attached.

The lock has one of each kind of file. Its tools are none, for those of a lock are other ones with each release.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from unittest import mock

from images.base.base import BaseImage
from images.check import provenance, sbom
from images.debian.deb import Debian
from images.lock import lockfile
from images.lock.lock import Examples, Lock, UserPackages
from images.plan.user_files import UserFile
from images.store.blobs import sha256
from images.store.store import Store
from images.wheels.archive import Wheel
from tests.golden.data import as_json
from tests.support import wheels
from tests.support.bases import MANIFEST, base
from tests.support.locks import DAY, TINI, artifact, lock
from tests.support.stand_in import PACKAGES, SYSTEM

DIGEST = f"sha256:{'d' * 64}"
STATUS = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.35-0ubuntu3.8\n"
METADATA = """\
Metadata-Version: 2.4
Name: six
Version: 1.17.0
Summary: Python 2 and 3
Home-page: https://six.example
Project-URL: Source, https://six.example/source
License: MIT
License-Expression: MIT OR Apache-2.0
Classifier: License :: OSI Approved :: MIT License
Requires-Dist: torch
"""
SIX = {"six.py": b"1", "six-1.17.0.dist-info/METADATA": METADATA.encode()}
CONTROL = "Package: tini\nVersion: 0.19\nArchitecture: amd64\nMaintainer: Somebody <a@host.example>\nSource: tini-src\n"


def make_lock() -> Lock:
    """Return a lock with one of each kind of file, on a base of others."""
    return lock(
        [artifact("torch", "2.13.0+cpu"), artifact("transformers", "5.23.0"), artifact("six", "1.17.0")],
        python="3.10", base=MANIFEST.digest, base_image=BaseImage(MANIFEST, ("torch",), "host/a/b:1"),
        debian=Debian("bookworm", ("tini",), "", (TINI,)), examples=Examples("examples.tar", "c" * 64),
        user_packages=UserPackages(("six==1.17.0",), ("six",)), env=("A=1",),
        user_files=(UserFile("run.py", "8" * 64), UserFile("link", target="run.py")), undated=("six",),
    )  # fmt: skip


def produce() -> dict[str, str]:
    """Return both documents, and how they are attached."""
    below = base(SYSTEM, PACKAGES, {"var/lib/dpkg/status": STATUS.encode()})
    with tempfile.TemporaryDirectory() as place, mock.patch.object(lockfile, "tools", lambda content: {}):
        store, path = Store(Path(place, "store")), wheels.write(Path(place), "six", "1.17.0", SIX)
        kept = store.keep(path, digest := sha256(path), path.name)
        locked = make_lock()
        bill = sbom.write_sbom(locked, [Wheel("six", "1.17.0", digest, kept)], below, store, {TINI: CONTROL})
        statement = provenance.write_statement(locked, DIGEST)
        attached = [(json.loads(one.manifest), one.entry) for one in provenance.write_documents(locked, bill, b"{}")]
        lockfile.format_lock.cache_clear()  # what it keeps has no tools
    assert str(DAY) in statement
    return {"provenance.json": statement, "sbom.json": bill, "attached.json": as_json(attached)}
