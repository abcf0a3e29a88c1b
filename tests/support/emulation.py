"""Programs for arm64 on a machine of another kind: qemu, started by its name or by the kernel."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from images.debian import packages
from images.pip_config import Sources
from images.platforms import AMD64
from images.store.store import Store
from tests.support import locks
from tests.support.harness import call

# The release of Debian 12, 7.2, refuses what tini asks of the kernel (PR_SET_CHILD_SUBREAPER).
SUITE, PACKAGE, PROGRAM = "trixie", "qemu-user", "usr/bin/qemu-aarch64"
# Graviton2 and Altra. Left alone, qemu imitates a processor with SVE, and multiplies 20 times as slowly.
PLAIN = "neoverse-n1"

KERNEL = Path("/proc/sys/fs/binfmt_misc")
NAME = f"multinode-arm64-{os.getpid()}"
# Begin of a program for arm64, and which bits of it count: scripts/qemu-binfmt-conf.sh in QEMU. F: the kernel opens
# qemu now, and so it is found in every container.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"


def fetch(place: Path) -> Path:
    """Take qemu out of Debian's package into a directory; it is linked statically, so any Linux on x86-64 runs it."""
    store = Store(place / "store")
    context = replace(locks.context(store, Sources(), os.environ), today=datetime.date.today())
    [deb] = packages.resolve_single(SUITE, [PACKAGE], AMD64, context)
    taken = f"dpkg-deb --fsys-tarfile '{packages.require_package(store, deb)}' | tar -xC '{place}' ./{PROGRAM}"
    assert call(["sh", "-c", taken]).code == 0
    return place / PROGRAM


@contextmanager
def registered(program: Path) -> Iterator[None]:
    """Let the kernel start programs for arm64 by qemu, as long as the block lasts; skip where it cannot."""
    if os.geteuid() != 0:
        pytest.skip("only root tells the kernel about qemu")
    if not (KERNEL / "register").exists():
        call(["mount", "-t", "binfmt_misc", "binfmt_misc", str(KERNEL)])
    try:
        (KERNEL / "register").write_text(f":{NAME}:M::{MAGIC}:{MASK}:{program}:F")
    except OSError as error:
        pytest.skip(f"the kernel takes no other programs: {error}")
    try:
        yield
    finally:
        (KERNEL / NAME).write_text("-1")
