"""A directory of ours on a volume of others: who has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from multinode_image.errors import LATER
from multinode_image.results.shared import Busy, make_shared
from tests.support.harness import ROOT

# Takes the lock, says so, and becomes another program, which starts a child that outlives it.
HOLDER = """\
import os, sys
from multinode_image.results.shared import make_shared
make_shared(sys.argv[1]).lock(0)
print("has it", flush=True)
os.execvp("sh", ["sh", "-c", "sleep 300 >/dev/null & exec sleep 300"])
"""


def test_who_has_it_keeps_it_until_he_ends(tmp_path: Path) -> None:
    """The lock stays where he becomes another program, and goes with him, whatever his children do."""
    place = tmp_path / "output" / "_multinode"
    command = [sys.executable, "-c", HOLDER, str(place)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"has it\n"
        try:
            file = make_shared(str(place))
            with pytest.raises(Busy) as error:
                file.lock(0)
            assert error.value.code == LATER and error.value.value.endswith(os.uname().nodename)
            holder.kill()
            assert file.lock(20) is not None
        finally:
            os.killpg(holder.pid, 9)
