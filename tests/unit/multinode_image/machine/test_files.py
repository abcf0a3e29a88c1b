"""Files, disks and certificates of a machine as a container has them."""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from multinode_image.errors import Refusal
from multinode_image.machine import files, limits, places
from multinode_image.machine.files import (
    MOST,
    can_write,
    make_private,
    read_text,
    which,
    write_in_private,
    write_private,
)
from multinode_image.machine.limits import Disk, find_disk, find_full
from multinode_image.machine.places import point_to, read_bundle, trust_certificate

CERTIFICATE = "/etc/multinode/ca.pem"
BEGIN = "-----BEGIN CERTIFICATE-----"


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", f"{tmp_path}/a\0b"):
        assert read_text(str(path)) is None


def test_bytes_that_are_no_text_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\xff")
    assert read_text(str(tmp_path / "file")) == "a\ufffd"


def test_what_has_no_end_is_read_only_so_far(tmp_path: Path) -> None:
    with (tmp_path / "device").open("wb") as file:
        file.truncate(MOST + 1)
    assert len(read_text(str(tmp_path / "device")) or "") == MOST


def test_a_directory_that_can_be_made_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert can_write(f"{tmp_path}/a/b/c")
    assert not can_write(f"{tmp_path}/file/a")


def test_a_private_directory_is_closed_to_others_and_so_is_each_one_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(0o777)
    for name in ("new/below", "open/below"):
        assert make_private(f"{tmp_path}/{name}", str(tmp_path)) == f"{tmp_path}/{name}"
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")} == {0o700}
    with pytest.raises(ValueError, match="subpath"):
        make_private(f"{tmp_path}/other", f"{tmp_path}/new")


def prepare_link(place: Path) -> None:
    """Prepare a directory of the user's own somewhere else, as the target of a link."""
    place.with_name("elsewhere").mkdir()
    place.symlink_to(place.with_name("elsewhere"))


def prepare_directory(place: Path) -> None:
    """Prepare a directory as another user does, with what the user looks for already in it."""
    (place / "ssh").mkdir(parents=True)
    os.chown(place, OTHER, OTHER)


OTHER = 54321


@pytest.mark.parametrize("prepare", [prepare_link, prepare_directory, Path.touch])
@pytest.mark.parametrize("wanted", ["mine", "mine/ssh", "mine/ssh/deeper"])
def test_what_somebody_else_has_prepared_is_not_private(
    tmp_path: Path, prepare: Callable[[Path], None], wanted: str
) -> None:
    """Who owns a directory on the way can exchange what is in it as soon as it was found to be good."""
    if os.geteuid() != 0 and prepare is prepare_directory:
        pytest.skip("only root makes a directory of another user")
    prepare(tmp_path / "mine")
    with pytest.raises(Refusal, match="belongs to somebody else") as caught:
        make_private(f"{tmp_path}/{wanted}", str(tmp_path))
    assert f"{tmp_path}/mine of uid" in caught.value.value and caught.value.code == 1


def test_a_private_file_has_its_bytes_and_is_closed_to_others(tmp_path: Path) -> None:
    path = Path(write_private(f"{tmp_path}/file", "a\udcff"))
    assert path.read_bytes() == b"a\xff"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_processes_of_one_number_do_not_write_into_one_file(tmp_path: Path) -> None:
    (tmp_path / f"file.{os.getpid()}").mkdir()  # another container is writing it
    write_private(f"{tmp_path}/file", "text")
    assert (tmp_path / "file").read_text() == "text"


def test_the_directory_of_a_private_file_is_closed_as_well(tmp_path: Path) -> None:
    for text in ("first", "second"):
        write_in_private(f"{tmp_path}/mine/file", text, str(tmp_path))
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o700
    assert (tmp_path / "mine/file").read_text() == "second"


@pytest.mark.parametrize(
    ("number", "fact", "remedy", "code"),
    [
        (errno.ENOSPC, "no space is left for private files", ":size=64m", 1),
        (errno.EDQUOT, "no space is left for private files", ":size=64m", 1),
        (errno.EROFS, "private files cannot be written", "", 2),
    ],
)
def test_where_no_private_file_can_be_the_place_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, fact: str, remedy: str, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", fail)
    (tmp_path / "mine").mkdir()
    calls: list[Callable[[], str]] = [
        lambda: write_private(f"{tmp_path}/mine/file", "text"), lambda: make_private(f"{tmp_path}/mine", str(tmp_path)),
    ]  # fmt: skip
    monkeypatch.setattr(os, "mkdir", fail)
    for make in calls:
        with pytest.raises(Refusal) as caught:
            make()
        assert (caught.value.fact, caught.value.code) == (fact, code)
        assert str(tmp_path) in caught.value.value
        assert f"--tmpfs {tmp_path}{remedy})" in caught.value.remedy
    assert [*(tmp_path / "mine").iterdir()] == []


def test_only_an_executable_file_is_a_program(tmp_path: Path) -> None:
    (tmp_path / "program").touch(0o755)
    (tmp_path / "text").touch(0o644)
    environ = {"PATH": f"/nowhere:{tmp_path}"}
    assert which("program", environ) == which(f"{tmp_path}/program", {}) == f"{tmp_path}/program"
    assert which("text", environ) is which("missing", environ) is None


def test_what_is_lent_is_private_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "TEMPORARY", str(tmp_path))
    monkeypatch.setattr(files, "make_private", partial(make_private, base=str(tmp_path)))
    with pytest.raises(KeyboardInterrupt), files.lend_private("job") as one, files.lend_private("job") as other:
        assert one != other and stat.S_IMODE(Path(one).stat().st_mode) == 0o700
        write_private(f"{one}/key", "secret")
        raise KeyboardInterrupt
    assert not Path(one).exists() and not Path(other).exists()


@pytest.mark.parametrize("number", files.ENDING)
def test_a_signal_leaves_nothing_of_what_is_lent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """As one that comes while a worker reads its key, before it has a server to pass it on to."""
    monkeypatch.setattr(files, "TEMPORARY", str(tmp_path))
    monkeypatch.setattr(files, "make_private", partial(make_private, base=str(tmp_path)))
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as ended, files.lend_private("job") as directory:
            write_private(f"{directory}/key", "secret")
            signal.raise_signal(number)
        assert ended.value.code == 128 + number and signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert not Path(directory).exists()


def test_a_signal_that_is_ignored_ends_nobody_who_is_lent_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "TEMPORARY", str(tmp_path))
    monkeypatch.setattr(files, "make_private", partial(make_private, base=str(tmp_path)))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with files.lend_private("job"):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


MOUNTINFO = """\
1 0 0:1 / / rw,relatime - overlay overlay rw
2 1 0:2 / /proc rw,nosuid - proc proc rw
3 1 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw
4 1 0:4 / /workspace/my\\040\\134\\011\\012output rw - ext4 /dev/vda rw
5 1 0:5 / /data ro,relatime - ext4 /dev/vdb rw
6 1 0:4 / /twice rw - ext4 /dev/vda rw
damaged
"""
# They have no space to run out of.
OF_THE_KERNEL = (
    "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "devtmpfs", "nsfs", "securityfs", "debugfs",
)  # fmt: skip
GB = 1 << 30


@pytest.mark.parametrize(
    ("disk", "full"),
    [
        pytest.param(Disk("/out", GB, 0), True, id="nothing"),
        pytest.param(Disk("/", 100 * GB, 2 * GB - 1), True, id="less than a 50th"),
        pytest.param(Disk("/", 100 * GB, 2 * GB), False, id="enough"),
        pytest.param(Disk("/tiny", 2 << 20, (1 << 20) - 1), True, id="small"),
        pytest.param(Disk("/tiny", 2 << 20, 1 << 20), False, id="not too small"),
        pytest.param(Disk("/lustre", 100_000 * GB, 5 * GB), False, id="much, if little of a large one"),
        pytest.param(Disk("/lustre", 100_000 * GB, 5 * GB - 1), True, id="little of a large one"),
        pytest.param(Disk("/out", GB, GB, 1000, 19), True, id="less than a 50th of the inodes"),
        pytest.param(Disk("/out", GB, GB, 1000, 20), False, id="a 50th of the inodes"),
        pytest.param(Disk("/out", GB, GB, 5, 0), True, id="no inode"),
        pytest.param(Disk("/out", GB, GB, 5, 1), False, id="an inode of few"),
        pytest.param(Disk("/out", GB, GB, 1 << 20, 99), True, id="few inodes of many"),
        pytest.param(Disk("/out", GB, GB, 1 << 20, 100), False, id="enough inodes"),
        pytest.param(Disk("/btrfs", GB, GB, 0, 0), False, id="no number of inodes"),
    ],
)
def test_a_disk_is_full(disk: Disk, full: bool) -> None:
    assert disk.is_full == full


def test_full_ones_that_may_be_written_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "find_disk", lambda path: Disk(path, GB, 0 if path != "/" else GB))

    more = "".join(f"7 1 0:7 / /{kind} rw - {kind} none rw\n" for kind in OF_THE_KERNEL)

    found = find_full({"/proc/self/mountinfo": MOUNTINFO + more}.get)

    assert [disk.path for disk in found] == ["/workspace/my \\\t\noutput"]


def test_the_disk_of_a_directory_is_measured(tmp_path: Path) -> None:
    disk = find_disk(str(tmp_path))
    assert disk and disk.path == str(tmp_path) and disk.size >= disk.free
    assert find_disk(f"{tmp_path}/gone") is None


OURS = f"{BEGIN}\nours"


@pytest.mark.parametrize(
    ("files", "bundle"),
    [
        ({"/etc/ssl/certs/ca-certificates.crt": "debian\n\n"}, f"debian\n{OURS}\n"),
        ({"/etc/pki/tls/certs/ca-bundle.crt": "fedora", "/site/certifi/cacert.pem": "certifi"}, f"fedora\n{OURS}\n"),
        ({"/etc/ssl/ca-bundle.pem": "suse", "/site/certifi/cacert.pem": "certifi"}, f"suse\n{OURS}\n"),
        ({"/site/certifi/cacert.pem": "certifi"}, f"certifi\n{OURS}\n"),
        ({}, f"{OURS}\n"),
    ],
)
def test_it_is_added(files: dict[str, str], bundle: str) -> None:
    assert read_bundle("/site", {CERTIFICATE: OURS, **files}.get) == (bundle, "")


@pytest.mark.parametrize(("text", "said"), [(None, "cannot be read"), ("", "PEM"), ("\x30\x82", "PEM")])
def test_a_mount_that_is_no_certificate(text: str | None, said: str) -> None:
    bundle, fault = read_bundle("/site", lambda path: text)
    assert not bundle and said in fault


@pytest.mark.parametrize("text", [None, OURS])
def test_what_is_trusted_is_in_a_file_that_nobody_else_writes(
    text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = list[tuple[str, str]]()
    monkeypatch.setattr(places, "read_file", {CERTIFICATE: text}.get)
    monkeypatch.setattr(places, "write_in_private", lambda *given: written.append(given))

    settings, notes = trust_certificate({"CURL_CA_BUNDLE": "/mine"}, "/site")

    assert (len(settings), len(notes)) == ((0, 1) if text is None else (3, 0))
    assert [bundle for _, bundle in written] == ([] if text is None else [f"{OURS}\n"])
    assert {setting.value for setting in settings} == {path for path, _ in written}


@pytest.mark.parametrize(
    ("environ", "left_out"),
    [
        ({}, set()),
        ({"CURL_CA_BUNDLE": "/mine"}, {"REQUESTS_CA_BUNDLE"}),
        ({"SSL_CERT_FILE": "/mine"}, {"CURL_CA_BUNDLE"}),
    ],
)
def test_a_file_of_the_users_is_not_hidden(environ: dict[str, str], left_out: set[str]) -> None:
    names = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"}
    settings = point_to("/bundle", environ)
    assert {setting.name for setting in settings} == names - left_out
    assert {setting.value for setting in settings} == {"/bundle"}
