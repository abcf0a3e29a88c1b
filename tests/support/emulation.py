"""Programs for arm64 on a machine of another kind: qemu, started by its name or by the kernel."""

from __future__ import annotations

import shutil

import pytest

NAMES = ("qemu-aarch64-static", "qemu-aarch64")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
needed = pytest.mark.skipif(PROGRAM is None, reason="no qemu for arm64 (apt-get install qemu-user-static)")
