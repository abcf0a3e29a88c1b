"""Files that may be missing, private directories, and programs."""

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
from multinode_image.machine import files
from multinode_image.machine.files import (
    MOST,
    can_write,
    make_private,
    read_text,
    which,
    write_in_private,
    write_private,
)


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
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


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
