"""What an index says -> the rows that the table lacks."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from images.plan import catalog
from scripts import update_versions
from scripts.versions.package_index import File, Releases

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
        (
            "transformers",
            {
                "99.0.0": [wheel("t", "2026-11-20")],
                "4.46.99": [wheel("t", "2026-11-20")],
                "1!1.0": [wheel("t", "2026-11-20")],
                "5.22.1": [wheel("t", "2026-10-30", 'a "bad" one')],
                # what the table has, and what is older than its first
                "5.23.0": [wheel("t", "2026-11-13")],
                "4.29.0": [wheel("t", "2023-05-10")],
            },
            [
                '+"99.0.0" = 2026-11-20',
                '+"4.46.99" = 2026-11-20',
                '+"1!1.0" = 2026-11-20',
                '-"5.22.1" = 2026-10-30',
                '+"5.22.1" = { released = 2026-10-30, reason = "a \\"bad\\" one" }',
            ],
        ),
        (
            "torch",
            {
                "2.15.98": [wheel("torch-2.15.98-cp311-cp311", "2026-11-19")],
                "2.7.99": [wheel("torch-2.7.99-cp311-cp311", "2026-11-19")],
                # withdrawn, or without wheels for Linux
                "2.15.99": [wheel("torch-2.15.99-cp311-cp311", "2026-11-19", "broken")],
                "2.15.97": [WINDOWS],
                "2.99.0": [WINDOWS, SDIST],
            },
            [
                '+"2.15.98" = { released = 2026-11-19, impi = "2021.19.0", openmp = "2026.2.0" }',
                '+"2.7.99" = { released = 2026-11-19, bindings = "2.7.0", ipex = "2.7.0", '
                'impi = "2021.19.0", openmp = "2026.2.0" }',
            ],
        ),
    ],
)
def test_rows_are_proposed(project: str, releases: Any, expected: list[str], tmp_path: Path) -> None:
    made = update_versions.proposed(TEXT, index(**{project: releases}))

    assert sorted(added(made)) == sorted(expected)
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
        (
            {
                "2.99.0": [WINDOWS],
                "2.13.0": [wheel("t", "2026-07-08", "bad")],
                "1.9.0": [WINDOWS],
                "2.15.99": [wheel("t", "2026-11-19", "bad")],
            },
            [
                "torch 2.99.0 has no wheels for Linux yet: its row comes when they are there",
                "torch 2.13.0 is withdrawn (bad): its row stays until it is removed by hand",
            ],
        ),
        ({"2.13.0": [wheel("t", "2026-07-08", "bad"), SDIST]}, []),
    ],
)
def test_what_of_torch_changes_no_row_is_said(releases: Any, expected: list[str]) -> None:
    found = index(torch=releases)

    assert list(update_versions.notes(TEXT, found["torch"])) == expected
    assert added(update_versions.proposed(TEXT, found)) == []
