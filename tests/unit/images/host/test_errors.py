"""The form of every message."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import UserFault, require_text, system_fault


@given(st.text(), st.text(), st.text())
def test_a_message_has_two_lines_whatever_the_value(fact: str, value: str, remedy: str) -> None:
    first, second = str(UserFault(fact, value, remedy)).split("\n")

    assert first.startswith("error: ") and second.startswith("  try: ")


@pytest.mark.parametrize("value", ["M\udcc3\udcbcller", "M\udcfcller", "\u661f\udcff"])
def test_a_name_that_is_not_utf8_is_refused(value: str) -> None:
    require_text("Müller \u661f", "")
    with pytest.raises(UserFault, match="that is not UTF-8: XDG"):
        require_text(value, f"XDG {value}")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENAMETOOLONG, 2), (errno.ENOTDIR, 2), (errno.EISDIR, 2), (errno.ELOOP, 2),
        (errno.ENOSPC, 1), (errno.EACCES, 1), (errno.EPIPE, 1), (errno.EIO, 1),
    ],
)  # fmt: skip
def test_a_name_that_no_file_can_have_is_the_users_mistake(number: int, code: int) -> None:
    fault = system_fault(OSError(number, os.strerror(number), "/a/b"))

    assert (fault.exit_code, fault.value, bool(fault.remedy)) == (code, "/a/b", True)
