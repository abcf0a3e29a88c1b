"""A directory of ours on a volume of others: what is opened there, and who has it."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.errors import LATER, Refusal
from entrypoint.results.shared import Busy, make_shared, open_shared
from tests.support.harness import ROOT

# Takes the lock, says so, and becomes another program, which starts a child that outlives it.
HOLDER = """\
import os, sys
from entrypoint.results.shared import make_shared
make_shared(sys.argv[1]).lock(0)
print("has it", flush=True)
os.execvp("sh", ["sh", "-c", "sleep 300 >/dev/null & exec sleep 300"])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "output" / "_multinode"


def link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize("name", ["run.json", "lock"])
@pytest.mark.parametrize("make", [link, os.mkfifo, os.mkdir])
def test_only_a_plain_file_is_opened(place: Path, make: Callable[[Path], object], name: str) -> None:
    place.mkdir(parents=True)
    make(place / name)
    own = make_shared(str(place))
    with pytest.raises(Refusal) as error:
        own.read(name) if name != "lock" else own.lock(0)
    assert error.value.value == f"{place}/{name}" and error.value.code == 1


def test_a_link_is_no_directory_of_ours(place: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    place.parent.mkdir()
    place.symlink_to(tmp_path / "private")
    for each in (make_shared, open_shared):
        with pytest.raises(Refusal, match="link"):
            each(str(place))
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700


@pytest.mark.parametrize(("mode", "expected"), [(0o2775, 0o2775), (0o700, 0o775), (0o777, 0o777)])
def test_it_keeps_the_bits_of_its_volume(place: Path, mode: int, expected: int) -> None:
    place.mkdir(parents=True)
    place.chmod(mode)
    own = make_shared(str(place))
    own.write("run.json", "text", 10**18)
    assert (place / "run.json").stat().st_mtime_ns == 10**18
    assert own.read("run.json") == "text" and own.read("none") is None
    assert stat.S_IMODE(place.stat().st_mode) == expected
    assert [each.name for each in place.iterdir()] == ["run.json"]


def test_who_has_it_keeps_it_until_he_ends(place: Path) -> None:
    """The lock stays where he becomes another program, and goes with him, whatever his children do."""
    command = [sys.executable, "-c", HOLDER, str(place)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"has it\n"
        try:
            own = make_shared(str(place))
            with pytest.raises(Busy) as error:
                own.lock(0)
            assert error.value.code == LATER and error.value.value.endswith(os.uname().nodename)
            holder.kill()
            assert own.lock(20) is not None
        finally:
            os.killpg(holder.pid, 9)


def test_an_error_of_the_volume_is_not_called_a_stranger(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its remedy is to remove what is there."""

    def fail(*_: object) -> os.stat_result:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "lstat", fail)
    with pytest.raises(OSError, match="Stale file handle"):
        open_shared(str(place))
