"""Programs for arm64 on a machine of another kind: qemu, started by its name or by the kernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("qemu-aarch64-static", "qemu-aarch64")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
needed = pytest.mark.skipif(PROGRAM is None, reason="no qemu for arm64 (apt-get install qemu-user-static)")

KERNEL = Path("/proc/sys/fs/binfmt_misc")
NAME = "multinode-arm64"
# Begin of a program for arm64, and which bits of it count: scripts/qemu-binfmt-conf.sh in QEMU. F: the kernel opens
# qemu now, and so it is found in every container.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
OLDEST = 8  # 7.2 refuses what tini asks of the kernel (PR_SET_CHILD_SUBREAPER)


@contextmanager
def registered() -> Iterator[None]:
    """Let the kernel start programs for arm64 by qemu, as long as the block lasts; skip where it cannot."""
    if PROGRAM is None or _release(PROGRAM) < OLDEST:
        pytest.skip(f"no qemu for arm64, {OLDEST} or newer (apt-get install qemu-user-static)")
    if os.geteuid() != 0:
        pytest.skip("only root tells the kernel about qemu")
    if not (KERNEL / "register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(KERNEL)], check=False)
    try:
        (KERNEL / "register").write_text(f":{NAME}:M::{MAGIC}:{MASK}:{Path(PROGRAM).resolve()}:F")
    except OSError as error:
        pytest.skip(f"the kernel takes no other programs: {error}")
    try:
        yield
    finally:
        (KERNEL / NAME).write_text("-1")


def _release(program: str) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\d+)", said)
    return int(found[1]) if found else 0
