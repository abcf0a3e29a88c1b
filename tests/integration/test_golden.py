"""The layers of four images, and what is said of builds that cannot be, are what they were.

tests/golden says how they are made and renewed.
"""

from __future__ import annotations

import json

import pytest

from tests.golden import data, images, refusals, refused_builds


@pytest.mark.parametrize("name", images.IMAGES)
def test_an_image_is_what_it_was(name: str) -> None:
    described = images.described(images.IMAGES[name])

    different = data.difference("images", f"{name}.json", described)
    assert not different, f"{different}\n{data.REMEDY}"


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, rows in refused_builds.GROUPS.items() for name in rows]
)
def test_a_refused_build_says_what_it_said(group: str, name: str) -> None:
    known = json.loads(data.recorded("refusals")[f"{group}.json"])

    assert refused_builds.refused(refused_builds.GROUPS[group][name]) == known[name], data.REMEDY


def test_no_golden_data_are_left_over() -> None:
    groups = {**refusals.REFUSALS, **refused_builds.GROUPS}

    assert data.recorded("images").keys() == {f"{name}.json" for name in images.IMAGES}
    assert data.recorded("refusals").keys() == {f"{name}.json" for name in groups}
    for group, rows in refused_builds.GROUPS.items():
        assert json.loads(data.recorded("refusals")[f"{group}.json"]).keys() == rows.keys()
