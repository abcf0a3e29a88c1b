"""Files of others by their paths: what cannot be had is said, and what comes into the store is what it should be."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from images.foreign.files import AGAIN
from images.host.errors import WorldFault
from tests.support.foreign_files import files


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        ({}, f"error: a file is missing: it: a\n  try: {AGAIN}"),
        ({"a": FileNotFoundError()}, f"error: a file is missing: it: a\n  try: {AGAIN}"),
        ({"a": bytes(100)}, f"error: a file is too long: it: a (more than 99 bytes)\n  try: {AGAIN}"),
    ],
)
def test_a_document_that_cannot_be_had(contents: Mapping[str, bytes | Exception], text: str) -> None:
    with pytest.raises(WorldFault) as caught:
        files(contents).read("a", 99)

    assert str(caught.value) == text


def test_a_document_may_be_as_long_as_it_may() -> None:
    assert files({"a": bytes(99)}).read("a", 99) == bytes(99)


def test_a_file_that_the_user_may_not_read_is_not_said_to_be_missing() -> None:
    with pytest.raises(PermissionError):
        files({"a": PermissionError(13, "Permission denied", "/layout/a")}).read("a", 99)
