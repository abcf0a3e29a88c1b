"""Files of an index -> the newest release of a day, and what was withdrawn."""

from __future__ import annotations

import datetime

import pytest
from packaging.version import Version

from scripts.versions.package_index import File, newest, yanked

DAY = datetime.date(2030, 1, 2)
WHEEL = "torch-9.0-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("reasons", "said"),
    [(["broken"], "broken"), (["broken", "old"], "broken"), (["broken", None], None), ([None], None)],
)
def test_a_release_is_withdrawn_with_its_last_file(reasons: list[str | None], said: str | None) -> None:
    assert yanked([File(WHEEL, DAY, reason) for reason in reasons]) == said


@pytest.mark.parametrize(("days", "version"), [(0, "9.0"), (1, "9.1"), (9, "9.1")])
def test_the_newest_release_is_of_the_day_itself_or_before(days: int, version: str) -> None:
    after = [DAY + datetime.timedelta(days=number) for number in range(4)]
    found = {
        Version("9.0"): [File(WHEEL, after[0], None)],
        Version("9.1"): [File(WHEEL, after[2], None), File(WHEEL, after[1], None)],
        Version("9.2"): [File(WHEEL, after[0], "broken")],
        Version("9.3"): [File("torch-9.3-cp311-cp311-win_amd64.whl", after[0], None)],
    }

    assert newest({"torch": found}, "torch", DAY + datetime.timedelta(days=days)) == Version(version)
