"""Requires-Dist of a set of projects as a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.inspection.requirements import graph


@pytest.mark.parametrize(
    ("asked", "needs"),
    [
        ({"a": ["b>=1"], "b": []}, {"b"}),
        ({"a": ["b>=1"]}, set()),
        ({"a": ["typing.extensions"], "typing-extensions": []}, {"typing-extensions"}),
        ({"a": ["b; python_version < '3.11'"], "b": []}, set()),
        ({"a": ["b; python_version >= '3.11'"], "b": []}, {"b"}),
        ({"a": ["b; python_full_version >= '3.11.1'"], "b": []}, set()),
        ({"a": ["b; sys_platform == 'win32'", "c; platform_system == 'Linux'"], "b": [], "c": []}, {"c"}),
        ({"a": ["b; platform_machine == 'x86_64'"], "b": []}, {"b"}),
        ({"a": ["b; platform_release >= '5'"], "b": []}, set()),
        ({"a": ["b; os_name ~= 'posix'", "b; 'x' in extras", "c"], "b": [], "c": []}, {"c"}),
        ({"a": ["b; extra == 'all'"], "b": []}, set()),
        ({"a": ["a[all]", "b; extra == 'all'"], "b": []}, {"b"}),
        ({"a": ["no requirement at all", "b >=", "c"], "b": [], "c": []}, {"c"}),
        ({"a": ["b; " + "(" * 3000 + "extra == ''" + ")" * 3000, "c"], "b": [], "c": []}, {"c"}),
    ],
)
def test_needs_of_a(asked: Mapping[str, Sequence[str]], needs: set[str]) -> None:
    assert graph(asked, "3.11")["a"] == needs


def test_an_extra_counts_where_another_project_asks_for_it() -> None:
    asked = {
        "datasets": ["fsspec[HTTP]>=2023"],
        "fsspec": ["aiohttp; extra == 'http'", "dask; extra == 'dask'"],
        "aiohttp": [],
        "dask": [],
    }

    assert graph(asked, "3.11")["fsspec"] == {"aiohttp"}
    assert graph({**asked, "datasets": ["fsspec"]}, "3.11")["fsspec"] == set()


def test_a_patch_release_of_python_is_looked_at() -> None:
    asked = {"a": ["b; python_full_version >= '3.11.2' and python_version == '3.11'"], "b": []}

    assert [graph(asked, python)["a"] for python in ("3.11.1", "3.11.2")] == [set(), {"b"}]


WORDS = ["python_version", "os_name", "extra", "extras", "platform_release", "'3.11'", "'x'", "'1.*'", "and", "or"]
SIGNS = ["<", "==", "===", "~=", "in", "not in", "(", ")"]
MARKERS = st.lists(st.sampled_from([*WORDS, *SIGNS])).map(" ".join) | st.builds(
    "{} {} {}".format, st.sampled_from(WORDS), st.sampled_from(SIGNS), st.sampled_from(WORDS) | st.text()
)


@given(st.lists(st.text() | MARKERS.map("b; {}".format)))
def test_any_text_is_read(texts: list[str]) -> None:
    assert graph({"a": texts, "b": []}, "3.11")["a"] <= {"b"}
