"""What is cleaned out of a Debian root file system, and the packages that it is made of."""

from __future__ import annotations

import io
import os
import tarfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from images.base import debian
from images.base.debian import DIRTY, cleaned, scripts_environment
from images.debs import unshared
from images.debs.apt import Deb
from images.host import process
from images.host.errors import Damaged, WorldFault
from images.host.process import Result
from images.host.store import Store
from images.lock.lock import Debian
from images.oci.layer import EPOCH


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests say the same to every user."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.parametrize(
    ("path", "dirty"),
    [
        ("etc/ssh/ssh_host_rsa_key", True),
        ("etc/ssh/sshd_config", False),
        ("etc/machine-id", True),
        ("etc/resolv.conf", True),
        ("etc/hostname", True),
        ("usr/bin/hostname", False),
        ("var/log/dpkg.log", True),
        ("var/log", False),
        ("var/cache/ldconfig/aux-cache", True),
        ("var/lib/dpkg/status", False),
        ("var/lib/dpkg/status-old", True),
        ("etc/shadow-", True),
        ("etc/shadow", False),
        ("dev/null", True),
        ("dev", False),
    ],
)
def test_what_belongs_to_one_machine_is_left_out_of_the_base(path: str, dirty: bool) -> None:
    assert bool(DIRTY.match(path)) is dirty


def test_scripts_of_packages_see_nothing_else_of_the_user() -> None:
    """Bytes of the base must not depend on the shell that it is built from."""
    same = {"PATH": "/opt/bin", "TMPDIR": "/big"}
    users = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONOPTIMIZE": "2", "SOURCE_DATE_EPOCH": "1", "TZ": "Asia/Tokyo"}
    seen = scripts_environment({**same, **users, "LC_ALL": "tr_TR.UTF-8", "PERL5LIB": "/home/me", "HOME": "/home/me"})
    assert seen == scripts_environment(same)
    assert seen["PATH"].split(":")[0] == "/opt/bin"
    assert seen["TMPDIR"] == "/big"
    assert "TMPDIR" not in scripts_environment({"PATH": "/opt/bin"})


def tar_of(members: list[tuple[tarfile.TarInfo, bytes]]) -> tarfile.TarFile:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return tarfile.open(fileobj=io.BytesIO(out.getvalue()))


def entry(name: str, mtime: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mtime, info.uname = mtime, "builder"
    return info


def test_times_are_clamped_in_the_tar_and_in_bytecode() -> None:
    late, early = EPOCH + 500, EPOCH - 500
    pyc = b"\xa7\r\r\n" + bytes(4) + late.to_bytes(4, "little") + b"1234code"
    members = [(entry("./a.py", late), b"code"), (entry("./__pycache__/a.pyc", late), pyc), (entry("./b", early), b"")]

    made = {info.name: (info, data.read() if data else b"") for info, data in cleaned(tar_of(members))}

    assert made["a.py"][0].mtime == EPOCH
    assert made["b"][0].mtime == early
    assert made["__pycache__/a.pyc"][1] == pyc[:8] + EPOCH.to_bytes(4, "little") + pyc[12:]
    assert {info.uname for info, _ in made.values()} == {""}


def test_bytecode_that_is_checked_by_a_hash_stays_as_it_is() -> None:
    """There bytes 8 to 16 are the hash of the source (PEP 552)."""
    pyc = b"\xa7\r\r\n" + (1).to_bytes(4, "little") + b"\xff" * 8 + b"code"

    [(_, data)] = cleaned(tar_of([(entry("./a.pyc", EPOCH), pyc)]))

    assert data and data.read() == pyc


@pytest.mark.parametrize(("mode", "kept"), [(0o4755, 0o755), (0o2755, 0o755), (0o1777, 0o1777), (0o644, 0o644)])
def test_no_program_of_a_base_runs_as_another_user(mode: int, kept: int) -> None:
    su = entry("./usr/bin/su", 0)
    su.mode = mode
    [(info, _)] = cleaned(tar_of([(su, b"elf")]))
    assert info.mode == kept


GONE = Deb("tini", "0.19.0-1", "amd64", "tini_0.19.0-1_amd64.deb", "5a" * 32)


@pytest.mark.parametrize("content", [None, b"damaged"])
def test_a_damaged_package_is_removed_and_named(tmp_path: Path, content: bytes | None) -> None:
    store = Store(tmp_path)
    place = store.place(GONE.sha256, GONE.filename)
    if content:
        place.parent.mkdir(parents=True)
        place.write_bytes(content)

    with pytest.raises(Damaged) as fault:
        debian.make(store, Debian("bookworm", (), "", (GONE,)), "3.11", {})

    assert (fault.value.value, place.exists()) == (str(place), False)
    assert not list((tmp_path / "aside").iterdir())


def test_a_base_that_must_not_be_installed_is_only_taken_from_the_store(tmp_path: Path) -> None:
    recipe = Debian("bookworm", ("python3",), "deb somewhere\n", (Deb("a", "1", "all", "a.deb", "0" * 64),))

    with pytest.raises(debian.Unmade):
        debian.make(Store(tmp_path), recipe, "3.11", {}, install=False)


@pytest.mark.parametrize(
    ("there", "allowed", "start"),
    [(True, True, ["unshare", "--mount", "mmdebstrap"]), (True, False, ["mmdebstrap"]), (False, True, ["mmdebstrap"])],
)
def test_mounts_go_with_mmdebstrap_where_that_is_allowed(
    there: bool, allowed: bool, start: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[list[str], bool]] = []

    def run(command: list[str], *_: object, apart: bool = False) -> Result:
        ran.append((command, apart))
        return Result(0 if allowed and command[-1] == "--version" else 1, "", "E: no room")

    monkeypatch.setattr(process, "run", run)
    (tmp_path / "unshare").touch(0o755 if there else 0o644)
    with pytest.raises(WorldFault, match="mmdebstrap could not make the base: E: no room"):
        debian.make(Store(tmp_path), Debian("bookworm", (), "", ()), "3.11", {"PATH": str(tmp_path)})

    command, apart = ran[-1]
    assert (command[: len(start)], command[len(start)], apart) == (start, "--variant=minbase", True)


def test_no_base_is_begun_where_temporary_files_lie_on_a_disk_without_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hardened machine mounts /tmp so: mmdebstrap failed after the downloads, with the command lines of dpkg."""
    ran: list[object] = []
    monkeypatch.setattr(process, "run", lambda command, *_, **__: ran.append(command))
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC if path == tmp_path else 0))

    with pytest.raises(WorldFault) as caught:
        debian.make(Store(tmp_path / "s"), Debian("bookworm", (), "", ()), "3.11", {"TMPDIR": str(tmp_path)})

    assert caught.value.fact == "programs cannot be started in the directory of temporary files"
    assert (caught.value.value, ran) == (f"{tmp_path} (noexec)", [])
    assert caught.value.remedy == "set TMPDIR to one where they can"


def test_no_base_is_begun_by_a_user_who_cannot_make_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    monkeypatch.setattr(process, "run", lambda command, *_, **__: ran.append(command))
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(unshared, "fault", lambda _, uid: WorldFault(f"not {uid}", "x", "y"))

    with pytest.raises(WorldFault, match="not 1234"):
        debian.make(Store(tmp_path), Debian("bookworm", (), "", ()), "3.11", {})
    assert ran == []


@pytest.mark.parametrize(("made", "may"), [(False, False), (True, False), (False, True)])
def test_a_user_who_cannot_make_a_base_may_take_one_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool, may: bool
) -> None:
    def make(*_: object, **__: object) -> None:
        if not made:
            raise debian.Unmade("not made", "x", "y")

    monkeypatch.setattr(debian, "make", make)
    monkeypatch.setattr(unshared, "fault", lambda *_: None if may else WorldFault("no range", "x", "y"))

    with nullcontext() if made or may else pytest.raises(WorldFault, match="no range"):
        debian.require_makeable(Store(tmp_path), Debian("bookworm", (), "", ()), "3.11", {})
