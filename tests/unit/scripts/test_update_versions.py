"""What an index says -> the rows that the table lacks."""

from __future__ import annotations

import datetime
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest
from packaging.version import Version

from images.host import pip_config
from images.host.errors import WorldFault
from images.plan import catalog
from scripts import update_versions
from scripts.versions import package_index, resolvable
from scripts.versions.package_index import File, Releases
from tests.support.streams import full, unread

TEXT = catalog.TABLE.read_text()


def wheel(name: str, day: str, yanked: str | None = None) -> File:
    return File(f"{name}-manylinux_2_28_x86_64.whl", datetime.date.fromisoformat(day), yanked)


WINDOWS = File("torch-2.99.0-cp311-cp311-win_amd64.whl", datetime.date(2026, 12, 1), None)
SDIST = File("torch-2.99.0.tar.gz", datetime.date(2026, 12, 1), None)


def index(**releases: Any) -> dict[str, Releases]:
    intel = {"impi-rt": {"2021.19.0": [wheel("impi", "2026-10-16")], "2022.0.0": [wheel("impi", "2027-01-01")]}}
    intel["intel-openmp"] = {"2026.2.0": [wheel("o", "2026-10-16")], "2026.3.0": [wheel("o", "2026-10-17", "broken")]}
    every = {"torch": {}, "transformers": {}, **intel, **releases}
    return {name: {Version(text): files for text, files in found.items()} for name, found in every.items()}


def added(made: str) -> list[str]:
    lines = update_versions.diff(TEXT, made, "versions.toml").splitlines()
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize(
    ("project", "releases", "expected"),
    [
        ("transformers", {"99.0.0": [wheel("t", "2026-11-20")]}, ['+"99.0.0" = 2026-11-20']),
        ("transformers", {"4.46.99": [wheel("t", "2026-11-20")]}, ['+"4.46.99" = 2026-11-20']),
        ("transformers", {"5.23.0": [wheel("t", "2026-11-13")]}, []),
        ("transformers", {"4.29.0": [wheel("t", "2023-05-10")]}, []),
        (
            "transformers",
            {"5.22.1": [wheel("t", "2026-10-30", 'a "bad" one')]},
            ['-"5.22.1" = 2026-10-30', '+"5.22.1" = { released = 2026-10-30, reason = "a \\"bad\\" one" }'],
        ),
        (
            "torch",
            {"2.15.98": [wheel("torch-2.15.98-cp311-cp311", "2026-11-19")]},
            ['+"2.15.98" = { released = 2026-11-19, impi = "2021.19.0", openmp = "2026.2.0" }'],
        ),
        (
            "torch",
            {"2.7.99": [wheel("torch-2.7.99-cp311-cp311", "2026-11-19")]},
            [
                '+"2.7.99" = { released = 2026-11-19, bindings = "2.7.0", ipex = "2.7.0", '
                'impi = "2021.19.0", openmp = "2026.2.0" }'
            ],
        ),
        ("torch", {"2.15.99": [wheel("torch-2.15.99-cp311-cp311", "2026-11-19", "broken")]}, []),
        ("torch", {"2.15.99": [WINDOWS], "2.99.0": [WINDOWS, SDIST]}, []),
        ("transformers", {"1!1.0": [wheel("t", "2026-11-20")]}, ['+"1!1.0" = 2026-11-20']),
    ],
)  # fmt: skip
def test_rows_are_proposed(project: str, releases: Any, expected: list[str], tmp_path: Path) -> None:
    made = update_versions.proposed(TEXT, index(**{project: releases}))

    assert added(made) == expected
    path = tmp_path / "versions.toml"
    path.write_text(made)
    catalog.load(path)


def test_a_new_line_of_torch_gets_its_table(tmp_path: Path) -> None:
    files = [wheel(f"torch-2.99.0-cp3{minor}-cp3{minor}", "2026-12-01") for minor in (12, 13)]
    path = tmp_path / "versions.toml"

    path.write_text(update_versions.proposed(TEXT, index(torch={"2.99.0": files})))

    row = max(catalog.load(path).torch.values(), key=lambda row: row.version)
    assert (str(row.version), row.python, row.backend) == ("2.99.0", ("3.12", "3.13"), "gloo")
    assert row.intel == ("impi-rt==2021.19.0", "intel-openmp==2026.2.0")


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        ({"2.99.0": [WINDOWS]}, ["torch 2.99.0 has no wheels for Linux yet: its row comes when they are there"]),
        (
            {"2.13.0": [wheel("t", "2026-07-08", "bad")]},
            ["torch 2.13.0 is withdrawn (bad): its row stays until it is removed by hand"],
        ),
        ({"2.13.0": [wheel("t", "2026-07-08", "bad"), SDIST]}, []),
        ({"1.9.0": [WINDOWS], "2.15.99": [wheel("t", "2026-11-19", "bad")]}, []),
    ],
)
def test_what_of_torch_changes_no_row_is_said(releases: Any, expected: list[str]) -> None:
    found = index(torch=releases)

    assert list(update_versions.notes(TEXT, found["torch"])) == expected
    assert added(update_versions.proposed(TEXT, found)) == []


@pytest.mark.parametrize("package", ["impi-rt", "intel-openmp"])
def test_a_torch_older_than_all_that_goes_with_it_is_refused(package: str) -> None:
    found = index(torch={"2.15.98": [wheel("torch-2.15.98-cp311-cp311", "2026-11-19")]})
    found[package] = {Version("2030.1"): [wheel(package, "2030-01-01")]}

    with pytest.raises(WorldFault) as caught:
        update_versions.proposed(TEXT, found)

    assert caught.value.value == f"{package}, 2026-11-19" and caught.value.remedy


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Write a table, for which an index has one release more."""
    path = tmp_path / "versions.toml"
    path.write_text(TEXT)
    known = index(transformers={"99.0.0": [wheel("t", "2026-11-20")]})
    monkeypatch.setattr(package_index, "releases", lambda _, name: known[name])
    monkeypatch.setattr(pip_config, "read", lambda _: pip_config.Sources())
    return path


@pytest.mark.parametrize("write", [False, True])
def test_nothing_is_written_unasked(write: bool, capsys: pytest.CaptureFixture[str], table: Path) -> None:
    code = update_versions.main(["--table", str(table), *(["--write"] if write else [])], {})

    assert code == 0
    assert '+"99.0.0" = 2026-11-20' in capsys.readouterr().out
    assert (table.read_text() != TEXT) is write


def test_a_full_disk_leaves_the_table_as_it_was(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, table: Path
) -> None:
    def refuse(place: Path, *_: object, **__: object) -> None:
        place.open("w").close()  # what a full disk leaves: a file without its content
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", refuse)

    assert update_versions.main(["--table", str(table), "--write"], {}) == 1
    assert capsys.readouterr().err == f"error: No space left on device: {table}\n  try: --table FILE\n"
    assert table.read_text() == TEXT and list(table.parent.iterdir()) == [table]


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_a_number_of_jobs_that_is_none_is_refused(jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert update_versions.main(["--check", f"--jobs={jobs}"], {}) == 2
    assert "--jobs" in capsys.readouterr().err


@pytest.mark.parametrize("what", [[], ["--check"]])
@pytest.mark.parametrize(
    ("url", "value"),
    [
        ("http://[::1", "--index http://[:..."),
        ("http://host:y/simple", "--index http://host:.../simple"),
        ("http://u:secret@host:y/simple", "--index host:y/simple"),
        ("", "--index ''"),
        (" ", "--index ' '"),
    ],
)
def test_an_index_that_is_no_address_is_refused(
    what: list[str], url: str, value: str, capsys: pytest.CaptureFixture[str], table: Path
) -> None:
    assert update_versions.main(["--table", str(table), *what, "--index", url], {}) == 2
    assert capsys.readouterr().err == f"error: that is not an address: {value}\n  try: https://HOST/PATH\n"


def test_an_interrupt_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, table: Path
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(package_index, "releases", interrupt)

    assert update_versions.main(["--table", str(table), "--write"], {}) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert table.read_text() == TEXT


@pytest.mark.parametrize(("stream", "said"), [(full, "No space left on device"), (unread, "Broken pipe")])
@pytest.mark.parametrize("check", [False, True])
def test_what_cannot_be_printed_is_no_fault_of_the_table(
    stream: Callable[[], TextIO], said: str, check: bool, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, table: Path,
) -> None:  # fmt: skip
    plan = resolvable.chosen(catalog.load(table))[0]
    monkeypatch.setattr(resolvable, "outcomes", lambda *_: [resolvable.Outcome(plan)])
    out, words = stream(), ["--check"] if check else []
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        assert update_versions.main(["--table", str(table), *words], {"XDG_CACHE_HOME": str(table.parent)}) == 1
    out.close()  # as Python does at its end: nothing more is said

    assert capsys.readouterr().err == f"error: {said}: stdout\n  try: {update_versions.READ}\n"
