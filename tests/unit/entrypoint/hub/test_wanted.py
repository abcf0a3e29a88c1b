"""What a task wants from the hub."""

from __future__ import annotations

import pytest

from entrypoint.hub.wanted import Wanted


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (Wanted("weights", "ours/bert", None, "main", None), "model ours/bert"),
        (Wanted("files", "ours/words", None, None, None), "model ours/words"),
        (Wanted("dataset", "nyu-mll/glue", "mrpc", None, None), "dataset nyu-mll/glue mrpc"),
    ],
)
def test_what_is_fetched_is_named_with_its_kind(wanted: Wanted, text: str) -> None:
    assert wanted.text == text
