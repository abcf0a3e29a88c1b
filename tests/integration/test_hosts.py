"""Hosts that reach each other: their keys, Hydra's ssh, and the network between them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from multinode_image.machine.files import which
from multinode_image.machine.network import find_free_port, is_free, is_here, list_ipv4
from multinode_image.mpi.keys import MODERN, find_keys, keygen
from multinode_image.mpi.launch import launch
from multinode_image.world.ranks import PORTS
from tests.support.harness import ROOT
from tests.support.starts import make_facts


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


SECONDS = 30
SOURCE = """
import os, sys
from multinode_image import timeouts
from multinode_image.mpi import launch
timeouts.RANKS_END = 1.7
sys.exit(launch.run_hydra(["sh", "-c", sys.argv[1]], os.environ))
"""
STUBBORN = "trap '' TERM INT; echo ready; while :; do sleep 0.1; done"


def start(script: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SOURCE, script], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize(
    ("script", "code", "error"),
    [("exit 7", 7, False), ("kill -9 $$", 137, False), ("exit 255", 1, True), ("kill -PIPE $$", 1, True)],
)
def test_hydra_gives_the_exit_code_or_has_lost_a_node(script: str, code: int, error: bool) -> None:
    job = start(script)

    _, err = job.communicate(timeout=SECONDS)

    assert (job.returncode, "hydra has lost a node" in err) == (code, error)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_further_signals_give_a_stubborn_job_no_more_time(number: signal.Signals, code: int) -> None:
    job = start(STUBBORN)
    assert job.stdout and job.stdout.readline() == "ready\n"
    began = time.monotonic()

    while job.poll() is None and time.monotonic() < began + SECONDS:
        job.send_signal(number)
        time.sleep(0.5)

    assert job.returncode == code
    assert time.monotonic() - began < 10
    job.communicate(timeout=SECONDS)


HYDRA = """#!/bin/sh
echo "$@" > {0}/argv
cat {1} > {0}/hosts
env > {0}/environ
exit 7
"""


@pytest.mark.usefixtures("foreground")
def test_hydra_is_started_with_the_hosts_and_what_all_ranks_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mpiexec.hydra").write_text(HYDRA.format(tmp_path, '"$3"'))
    (tmp_path / "mpiexec.hydra").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile", "I_MPI_PERHOST": "1"}

    facts = make_facts(environ, root=str(tmp_path))

    code = launch(["--hosts", "127.0.0.1:2", "true"], {**environ, "MULTINODE_SET": "A=1", "A": "1"}, facts)

    assert code == 7
    words = (tmp_path / "argv").read_text().split()
    assert words[:2] == ["-disable-auto-cleanup", "-machinefile"]
    assert words[3:] == ["-n", "2", "python3", "-I", "-S", str(tmp_path), "true"]
    assert (tmp_path / "hosts").read_text() == "127.0.0.1:2\n"
    assert not Path(words[2]).exists()
    given = dict(line.split("=", 1) for line in (tmp_path / "environ").read_text().splitlines())
    assert given["MULTINODE_WORLD_SIZE"] == "2" and given["MULTINODE_SUPERVISED"] == "1" and given["I_MPI_PIN"] == "0"
    assert not given.keys() & {"A", "I_MPI_HYDRA_HOST_FILE", "I_MPI_PERHOST"}


def test_the_kernel_lists_the_addresses_of_this_machine() -> None:
    assert ("lo", "127.0.0.1") in list(list_ipv4())


def test_a_port_that_is_listened_on_is_not_free() -> None:
    """One that Linux gives nobody: another process may get those of port 0 at any time."""
    port = find_free_port(PORTS, os.getpid() % len(PORTS))
    assert port
    with socket.create_server(("", port)):
        assert not is_free(port)
    assert is_free(port)


def has_ipv6() -> bool:
    """Return whether loopback has an address of IPv6: many containers have none."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_this_machine_is_here() -> None:
    hosts = ("localhost", "127.0.0.1", "127.0.1.1", "0.0.0.0", *(["::1"] if has_ipv6() else ()))
    assert all(is_here(host) for host in hosts)
    assert not any(is_here(host) for host in ("203.0.113.9", "nobody.invalid", "", "\udc80", "a" * 70, "a..b"))
