"""Where keys are found, what is said where there is none, the port of sshd, and which ssh is run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.machine.files import make_private
from multinode_image.mpi import keys as module
from multinode_image.mpi.keys import (
    Keys,
    connect,
    find_keys,
    read_key,
    read_ssh_port,
    read_words,
    strip_preloads,
    write_client,
)


@pytest.fixture(autouse=True)
def private_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy keys below the test's own directory: /tmp/multinode-UID is a container's."""
    monkeypatch.setattr(module, "private_path", lambda name: f"{tmp_path}/private/{name}")
    monkeypatch.setattr(module, "make_private", lambda place: make_private(place, str(tmp_path)))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this process a home of the test's."""
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    return tmp_path / "own"


PUBLIC = "ssh-ed25519 BBBB me\n"
SILENT = {
    "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "check": False,
    "encoding": "utf-8", "errors": "replace",
}  # fmt: skip


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Stand in for ssh-keygen, whose exit code a test may change, and for a machine that has one address."""
    answer = {"code": 0}

    def run(words: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        assert words[:-1] == ["ssh-keygen", "-y", "-P", "", "-f"] and words[-1].endswith("/id")
        assert options.pop("env") and options == SILENT
        return subprocess.CompletedProcess(words, answer["code"], PUBLIC)

    monkeypatch.setattr(module, "is_here", lambda host: host == "127.0.0.1")
    monkeypatch.setattr(module, "subprocess", SimpleNamespace(**{**vars(subprocess), "run": run}))
    return answer


def make_key(place: Path) -> None:
    place.write_text(f"the key in {place.parent.name}\n")


def test_a_key_in_the_home_is_found_where_that_home_cannot_be_written(tmp_path: Path, home: Path) -> None:
    (home / ".ssh").mkdir(parents=True)
    key = home / ".ssh/id_ed25519"
    make_key(key)
    environ = {"MULTINODE_SSH_KEYS": str(tmp_path / "keys"), "HOME": "/tmp/home-1000"}

    keys = find_keys(environ, str(tmp_path))
    assert Path(keys.private).read_text() == key.read_text() and keys.public == PUBLIC
    assert Path(keys.authorized).read_text() == PUBLIC
    (home / ".ssh/authorized_keys").write_text("ssh-ed25519 AAAA\n")
    assert Path(find_keys(environ, str(tmp_path)).authorized).read_text() == "ssh-ed25519 AAAA\n"


@pytest.mark.parametrize("name", ["id_rsa", "id_ecdsa", "ssh-privatekey"])
def test_a_key_with_a_passphrase_is_refused(name: str, tmp_path: Path, answers: dict[str, int]) -> None:
    make_key(tmp_path / name)
    answers["code"] = 255
    with pytest.raises(Refusal, match="without a passphrase") as caught:
        find_keys({"MULTINODE_SSH_KEYS": str(tmp_path)}, str(tmp_path))
    assert caught.value.value == f"{tmp_path}/{name}"


def test_without_a_key_all_places_and_the_way_to_make_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="ssh-keygen") as caught:
        find_keys({"MULTINODE_SSH_KEYS": str(tmp_path / "keys"), "HOME": str(tmp_path)}, str(tmp_path))

    assert caught.value.value == f"looked in {tmp_path}/keys and {tmp_path}/.ssh and {tmp_path}/own/.ssh"
    assert f"in {tmp_path}/keys on every node" in caught.value.remedy
    assert [*module.places({"HOME": "/h"})] == [module.MOUNT, "/h/.ssh", f"{tmp_path}/own/.ssh"]


@pytest.mark.parametrize(
    "operated", [{"K_MPI_JOB_ROLE": "worker"}, {"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"}]
)
def test_below_an_operator_its_own_key_has_to_be_mounted_elsewhere(tmp_path: Path, operated: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="sshAuthMountPath: /etc/multinode/ssh"):
        find_keys({**operated, "MULTINODE_SSH_KEYS": str(tmp_path / "keys"), "HOME": str(tmp_path)}, str(tmp_path))


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_where_the_key_should_be_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "id_rsa")
    answer = threading.Thread(target=write_late, args=(tmp_path / "id_rsa",), daemon=True)
    answer.start()

    with pytest.raises(Refusal, match="cannot be read"):
        find_keys({"MULTINODE_SSH_KEYS": str(tmp_path)}, str(tmp_path))


def write_late(path: Path) -> None:
    """End the wait of whoever reads a pipe, so that a test fails rather than hangs."""
    with contextlib.suppress(OSError):
        path.write_text("")


def test_the_client_talks_only_to_holders_of_the_mounted_key(tmp_path: Path) -> None:
    keys = Keys(str(tmp_path), f"{tmp_path}/id", "ssh-ed25519 AAAA me\n", f"{tmp_path}/authorized_keys")

    write_client(keys, 2222)

    known = (tmp_path / "known_hosts").read_text()
    assert known == "@cert-authority * ssh-ed25519 AAAA me\n* ssh-ed25519 AAAA me\n"


@pytest.mark.parametrize("codes", [[0, 0], [1], [0, 1]])
def test_a_host_key_is_made_and_signed_by_the_mounted_key(monkeypatch: pytest.MonkeyPatch, codes: list[int]) -> None:
    asked = list[str]()

    def keygen(words: list[str], environ: object) -> subprocess.CompletedProcess[str]:
        asked.append(" ".join(words))
        return subprocess.CompletedProcess(words, codes[len(asked) - 1], "", "no\n")

    monkeypatch.setattr(module, "keygen", keygen)
    make = ["-q -t ed25519 -N  -f /d/host", "-q -s /d/id -I multinode -h /d/host.pub"]
    keys = Keys("/d", "/d/id", PUBLIC, "/d/authorized_keys")
    if any(codes):
        with pytest.raises(Refusal) as caught:
            module.make_host_key(keys, {})
        assert (caught.value.value, caught.value.code) == ("no", EXIT_OUTSIDE)
    else:
        assert module.make_host_key(keys, {}) == ["HostKey /d/host", "HostCertificate /d/host-cert.pub"]
    assert asked == make[: len(codes)]


@pytest.mark.parametrize("text", ["0", "65536", "ssh", "-1", "000001999999999999"])
def test_what_is_no_port_for_ssh_is_refused(text: str) -> None:
    assert [read_ssh_port({}), read_ssh_port({"MULTINODE_SSH_PORT": "65535"})] == [2222, 65535]
    with pytest.raises(Refusal, match="MULTINODE_SSH_PORT"):
        read_ssh_port({"MULTINODE_SSH_PORT": text})


def test_jobs_with_another_key_or_port_have_files_of_their_own(tmp_path: Path) -> None:
    """Containers of Apptainer and Charliecloud have the /tmp of their host."""
    places = {}
    for name, port in (("a", "2222"), ("b", "2222"), ("a", "2223")):
        (tmp_path / name).mkdir(exist_ok=True)
        if not (tmp_path / name / "id_ed25519").exists():
            make_key(tmp_path / name / "id_ed25519")
        environ = {"MULTINODE_SSH_KEYS": f"{tmp_path}/{name}", "MULTINODE_SSH_PORT": port}
        argv, _ = connect(["192.0.2.1", "true"], environ)
        assert connect(["192.0.2.1", "true"], environ)[0] == argv
        places[name, port] = Path(argv[2])
    assert len({*places.values()}) == 3
    for (name, port), config in places.items():
        assert f"Port {port}" in config.read_text().splitlines()
        assert (config.parent / "id").read_text() == (tmp_path / name / "id_ed25519").read_text()


PRELOADS = "/a/libtcmalloc.so.4:/b/libnss_wrapper.so"


def test_without_a_mounted_key_it_is_ssh_as_it_stands(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MULTINODE_SSH_KEYS": str(tmp_path), "LD_PRELOAD": PRELOADS}
    argv, env = connect(["192.0.2.1", "true"], environ)
    assert argv == ["ssh", "192.0.2.1", "true"]
    assert env["LD_PRELOAD"] == "/b/libnss_wrapper.so"


def test_a_command_for_this_machine_needs_no_server() -> None:
    argv, env = connect(["-q", "127.0.0.1", "echo", "$HOME;", "true"], {"LD_PRELOAD": PRELOADS})
    assert argv == ["sh", "-c", "echo $HOME; true"]
    assert env["LD_PRELOAD"] == PRELOADS


@pytest.mark.parametrize(
    ("words", "is_named"),
    [
        (["-F", "/mine", "192.0.2.1"], True),
        (["-qF", "/mine", "192.0.2.1"], True),
        (["192.0.2.1", "ls", "-F", "/workspace"], False),
        (["-l", "-F", "192.0.2.1"], False),
    ],
)
def test_only_an_option_before_the_host_names_a_configuration(words: list[str], is_named: bool, tmp_path: Path) -> None:
    make_key(tmp_path / "id_ed25519")
    argv, _ = connect(words, {"MULTINODE_SSH_KEYS": str(tmp_path)})
    if is_named:
        assert argv == ["ssh", *words]
    else:
        assert (argv[:2], argv[3:]) == (["ssh", "-F"], words)


@pytest.mark.parametrize(
    ("words", "host", "command", "options"),
    [
        (["node1"], "node1", [], ""),
        (["-q", "-x", "me@node1", "hydra", "--x"], "node1", ["hydra", "--x"], "-q -x"),
        (["-F", "/c", "-oBatchMode=yes", "-p", "22", "node1", "true"], "node1", ["true"], "-F -o -p"),
        (["-qp", "22", "--", "node1", "-v"], "node1", ["-v"], "-q -p"),
        ([], "", [], ""),
        (["-p"], "", [], ""),
        (["--what", "node1"], "", [], ""),
    ],
)
def test_host_and_command_are_read_behind_the_options_of_ssh(
    words: list[str], host: str, command: list[str], options: str
) -> None:
    assert read_words(words) == (set(options.split()), host, command)


@pytest.mark.parametrize("end", ["", "\n", "\r\n\n"])
def test_a_key_ends_with_one_line_break(end: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(f"-----END KEY-----{end}".encode())

    assert read_key(str(tmp_path / "key")) == "-----END KEY-----\n"


NSS = "/usr/lib/libnss_wrapper.so"


@pytest.mark.parametrize(
    ("preloads", "left"), [("", ""), (f"/a/libtcmalloc.so.4:{NSS}", NSS), (f"/b:{NSS}:/c:{NSS}", f"{NSS}:{NSS}")]
)
def test_ssh_is_given_no_library_but_that_of_a_name(preloads: str, left: str) -> None:
    assert strip_preloads({"A": "1", "LD_PRELOAD": preloads}) == {"A": "1", "LD_PRELOAD": left}
