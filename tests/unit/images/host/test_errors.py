"""The form of every message, and what a caller adds to one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import Damaged, Fault, UserFault, WorldFault, or_else, require_text


@given(st.text(), st.text(), st.text())
def test_a_message_has_two_lines_whatever_the_value(fact: str, value: str, remedy: str) -> None:
    first, second = str(UserFault(fact, value, remedy)).split("\n")

    assert first.startswith("error: ") and second.startswith("  try: ")


@pytest.mark.parametrize("kind", [UserFault, WorldFault])
def test_a_caller_adds_another_way(kind: type[Fault]) -> None:
    with pytest.raises(kind) as caught, or_else("--examples none"):
        raise kind("cannot download the examples", "x.tar", "--examples PATH")
    assert caught.value.remedy == "--examples PATH; or --examples none"


def test_a_fault_with_another_way_stays_what_it_was() -> None:
    with pytest.raises(Damaged, match=r"the same command again; or --base debian") as caught, or_else("--base debian"):
        raise Damaged("/store/blobs/x")
    assert caught.value.value == "/store/blobs/x"


@pytest.mark.parametrize("value", ["M\udcc3\udcbcller", "M\udcfcller", "\u661f\udcff"])
def test_a_name_that_is_not_utf8_is_refused(value: str) -> None:
    require_text("Müller \u661f", "")
    with pytest.raises(UserFault, match="that is not UTF-8: XDG"):
        require_text(value, f"XDG {value}")
