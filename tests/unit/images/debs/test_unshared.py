"""What an ordinary user is told before a base is begun."""

from __future__ import annotations

import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from images.debs import unshared

UID = 1234


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have a machine on which a user may make a base: etc/, bin/ and a directory for temporary files.

    pytest's own temporary directories are closed to other users.
    """
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(("ann", "x", UID, UID, "", "/", "/bin/sh")))
    monkeypatch.setattr(unshared, "search_path", lambda environ: environ["PATH"])
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o755)
        for each in ("etc", "bin", "home/tmp"):
            (place / each).mkdir(parents=True)
        (place / "etc/subuid").write_text("bob:1:2\nann:100000:65536\n")
        (place / "etc/subgid").write_text("ann:100000:65536\n")
        (place / "bin/newuidmap").touch(mode=0o755)
        yield place


def said(machine: Path, uid: int = UID) -> str | None:
    environ = {"PATH": str(machine / "bin"), "TMPDIR": str(machine / "home/tmp")}
    found = unshared.fault(environ, uid, machine / "etc")
    return str(found) if found else None


def test_a_user_with_a_range_and_open_directories_may_make_a_base(machine: Path) -> None:
    assert said(machine) is None


@pytest.mark.parametrize("file", ["etc/subuid", "etc/subgid", "bin/newuidmap"])
def test_what_is_missing_is_named(machine: Path, file: str) -> None:
    (machine / file).unlink()

    told = said(machine)

    assert told and (f"no row of ann in {machine / file}\n" in told if "etc" in file else "no newuidmap" in told)
    assert ("usermod --add-subuids 165536-231071 --add-subgids 165536-231071 ann" in told) == ("etc" in file)
    assert said(machine, uid=0) is None


@pytest.mark.parametrize(
    ("rows", "free"),
    [
        ("", "100000-165535"),
        ("bob:1:2", "100000-165535"),
        ("bob:100000:65536", "165536-231071"),
        (f"{UID}:100000:65536", "165536-231071"),  # mmdebstrap looks for the name
        ("eve:231072:65536\nbob:100000:65536", "165536-231071"),
        ("eve:165537:10\nbob:100000:65536", "165547-231082"),
        ("containers:2147483647:2147483648", "100000-165535"),
        ("ann:100000\n# a comment", "100000-165535"),
    ],
)
@pytest.mark.parametrize("file", ["etc/subuid", "etc/subgid"])
def test_the_remedy_has_a_range_that_nobody_has(machine: Path, file: str, rows: str, free: str) -> None:
    other = "etc/subgid" if file == "etc/subuid" else "etc/subuid"
    (machine / other).write_text("ann:1:65536\n")
    (machine / file).write_text(rows)

    told = said(machine)

    assert told and f"no row of ann in {machine / file}\n" in told
    assert f"--add-subuids {free} --add-subgids {free} ann" in told


@pytest.mark.parametrize("rows", ["", f"{UID}:100000:65536\n"])
def test_no_row_helps_a_user_without_a_name(machine: Path, monkeypatch: pytest.MonkeyPatch, rows: str) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for file in ("subuid", "subgid"):
        (machine / "etc" / file).write_text(rows)

    told = said(machine)

    assert told and f"uid {UID} has no name" in told and told.endswith("\n  try: build once as root")


def test_fakechroot_takes_the_place_of_a_range(machine: Path) -> None:
    (machine / "etc/subuid").write_text("")
    (machine / "bin/fakechroot").touch(mode=0o755)

    assert said(machine) is None


@pytest.mark.parametrize("closed", ["home", "home/tmp"])
def test_a_directory_that_other_users_may_not_pass_is_named(machine: Path, closed: str) -> None:
    (machine / closed).chmod(0o700)

    assert said(machine) == (
        "error: the user ids of mmdebstrap cannot reach the directory of temporary files: "
        f"{machine / closed} (mode 700)\n"
        f"  try: set TMPDIR to another directory, such as /var/tmp, or chmod o+x {machine / closed}"
    )
