"""The OpenSSH of this machine: each release has its own list of what it takes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from multinode_image.machine.files import which
from multinode_image.mpi.keys import MODERN, find_keys, keygen


def make_key(place: Path) -> None:
    """Make a key; skip where there is no OpenSSH."""
    if which("ssh-keygen", os.environ) is None:
        pytest.skip("no ssh-keygen here")
    assert keygen(["-q", "-t", "ed25519", "-N", "", "-f", str(place)], os.environ).returncode == 0


@pytest.mark.parametrize("program", [["sshd", "-T", "-f"], ["ssh", "-G", "node1", "-F"]])
def test_neither_side_takes_what_is_old(tmp_path: Path, program: list[str]) -> None:
    path = which(program[0], {"PATH": "/usr/sbin:/usr/bin:/bin"})
    if path is None:
        pytest.skip(f"no {program[0]} here")
    make_key(tmp_path / "host")
    (tmp_path / "config").write_text(f"{MODERN}\n" + (f"HostKey {tmp_path}/host\n" if program[0] == "sshd" else ""))
    done = subprocess.run([path, *program[1:], f"{tmp_path}/config"], capture_output=True, text=True, check=False)
    rows = dict(line.lower().split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    names = [name for key in ("kexalgorithms", "ciphers", "macs") for name in rows[key].split(",")]
    assert "curve25519-sha256" in names and "hmac-sha2-256-etm@openssh.com" in names
    assert not [name for name in names if re.search("sha1|md5|cbc|group|nist|umac-64", name)]


def test_who_has_the_key_may_log_in(tmp_path: Path) -> None:
    (tmp_path / "mounted").mkdir()
    make_key(tmp_path / "mounted/id_ed25519")

    keys = find_keys({**os.environ, "MULTINODE_SSH_KEYS": f"{tmp_path}/mounted"}, str(tmp_path))

    public = (tmp_path / "mounted/id_ed25519.pub").read_text()
    assert keys.public.split()[:2] == public.split()[:2] and Path(keys.authorized).read_text() == keys.public
