"""Where keys are found, what is said where there is none, and the port of sshd."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.files import make_private
from entrypoint.mpi import keys as module
from entrypoint.mpi.keys import Keys, find_keys, read_ssh_port, write_client


@pytest.fixture(autouse=True)
def private_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy keys below the test's own directory: /tmp/multinode-UID is a container's."""
    monkeypatch.setattr(module, "make_private", lambda place: make_private(f"{tmp_path}/private{place}"))


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this process a home of the test's."""
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    return tmp_path / "own"


def test_a_key_in_the_home_is_found_where_that_home_cannot_be_written(tmp_path: Path, own_home: Path) -> None:
    (own_home / ".ssh").mkdir(parents=True)
    (own_home / ".ssh/authorized_keys").write_text("ssh-ed25519 AAAA\n")

    keys = find_keys({"MULTINODE_SSH_KEYS": str(tmp_path / "keys"), "HOME": "/tmp/home-1000"})

    assert Path(keys.authorized).read_text() == "ssh-ed25519 AAAA\n"


def test_without_a_key_all_places_and_the_way_to_make_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="ssh-keygen") as caught:
        find_keys({"MULTINODE_SSH_KEYS": str(tmp_path / "keys"), "HOME": str(tmp_path)})

    assert caught.value.value == f"looked in {tmp_path}/keys and {tmp_path}/.ssh and {tmp_path}/own/.ssh"
    assert f"chmod 644 id_ed25519, and mount the file in {tmp_path}/keys on" in caught.value.remedy


@pytest.mark.parametrize(
    "operated", [{"K_MPI_JOB_ROLE": "worker"}, {"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"}]
)
def test_below_an_operator_its_own_key_has_to_be_mounted_elsewhere(tmp_path: Path, operated: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="sshAuthMountPath: /etc/multinode/ssh"):
        find_keys({**operated, "MULTINODE_SSH_KEYS": str(tmp_path / "keys"), "HOME": str(tmp_path)})


def test_a_directory_with_authorized_keys_alone_is_enough_for_a_worker(tmp_path: Path) -> None:
    (tmp_path / "authorized_keys").write_text("ssh-ed25519 AAAA\n")

    keys = find_keys({"MULTINODE_SSH_KEYS": str(tmp_path)})

    assert keys.private is None
    assert Path(keys.authorized).read_text() == "ssh-ed25519 AAAA\n"


@pytest.mark.parametrize("mounted", ["{}/keys", "{}/keys/"])
def test_a_directory_that_cannot_be_searched_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: str
) -> None:
    (tmp_path / "keys").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path != f"{tmp_path}/keys")  # root may search every one

    with pytest.raises(Refusal, match="the directory of the ssh key cannot be read") as caught:
        find_keys({"MULTINODE_SSH_KEYS": mounted.format(tmp_path)})
    assert "chmod a+rx the directory on the host" in caught.value.remedy


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_where_the_key_should_be_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "id_rsa")
    answer = threading.Thread(target=write_late, args=(tmp_path / "id_rsa",), daemon=True)
    answer.start()

    with pytest.raises(Refusal, match="cannot be read"):
        find_keys({"MULTINODE_SSH_KEYS": str(tmp_path)})


def write_late(path: Path) -> None:
    """End the wait of whoever reads a pipe, so that a test fails rather than hangs."""
    with contextlib.suppress(OSError):
        path.write_text("")


@pytest.mark.parametrize(("value", "line"), [("", "yes"), ("accept-new", "accept-new")])
def test_how_host_keys_are_checked(tmp_path: Path, value: str, line: str) -> None:
    keys = Keys(str(tmp_path), f"{tmp_path}/id", "ssh-ed25519 AAAA me\n", f"{tmp_path}/authorized_keys")

    config = Path(write_client(keys, {"MULTINODE_SSH_HOST_KEYS": value}, 2222)).read_text().splitlines()

    assert f"StrictHostKeyChecking {line}" in config


@pytest.mark.parametrize("value", ["off\nProxyCommand x", "maybe", " ", "no"])
def test_another_way_to_check_host_keys_is_refused(tmp_path: Path, value: str) -> None:
    keys = Keys(str(tmp_path), f"{tmp_path}/id", "", "")
    with pytest.raises(Refusal, match="accept-new") as caught:
        write_client(keys, {"MULTINODE_SSH_HOST_KEYS": value}, 2222)
    assert caught.value.code == 2


def test_the_client_talks_only_to_holders_of_the_mounted_key(tmp_path: Path) -> None:
    keys = Keys(str(tmp_path), f"{tmp_path}/id", "ssh-ed25519 AAAA me\n", f"{tmp_path}/authorized_keys")

    config = Path(write_client(keys, {}, 2222)).read_text().splitlines()

    assert {"StrictHostKeyChecking yes", "Port 2222", f"UserKnownHostsFile {tmp_path}/known_hosts"} <= set(config)
    assert "GlobalKnownHostsFile /dev/null" in config  # the image's own may know other keys
    known = (tmp_path / "known_hosts").read_text()
    assert known == "@cert-authority * ssh-ed25519 AAAA me\n* ssh-ed25519 AAAA me\n"


@pytest.mark.parametrize("text", ["0", "65536", "ssh", "-1", "000001999999999999"])
def test_what_is_no_port_for_ssh_is_refused(text: str) -> None:
    assert read_ssh_port({}) == 2222
    with pytest.raises(Refusal, match="MULTINODE_SSH_PORT"):
        read_ssh_port({"MULTINODE_SSH_PORT": text})
