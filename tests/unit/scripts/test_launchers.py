"""The page of launchers is as its cases say."""

from __future__ import annotations

from scripts.launchers import PAGE, read_cases, write_page


def test_the_page_is_as_the_script_writes_it() -> None:
    assert PAGE.read_text() == write_page(read_cases()), "scripts/launchers.py --write writes it anew"


def test_a_form_is_a_world_or_a_refusal() -> None:
    assert [case["form"] for case in read_cases() if bool(case.get("world")) == bool(case.get("refused"))] == []
