"""JSON that others wrote: numbers that any code can reckon with, within bounds; or a ValueError."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given

from multinode_image.documents import DEEPEST, parse_json, parse_logged
from tests.support.harness import ROOT
from tests.support.hostile import nested, values

# Texts of no JSON that we read, whoever wrote them: each with a neighbour that is read.
REFUSED = {
    "": "0", "{": "{}", "1e309": "1e308", "-1e999": "-1e-999", str(2**64): str(2**64 - 1),
    str(-(2**63) - 1): str(-(2**63)), "9" * 5000: "9" * 19, "[" + "1," * 9 + "1]": "[" + "1," * 8 + "1]",
    "[[],[],[],[],[]]": "[[],[],[],[]]", json.dumps(nested(DEEPEST + 1)): json.dumps(nested(DEEPEST)),
    "[" * 100_000: "[[]]",
}  # fmt: skip


@pytest.mark.parametrize(("text", "neighbour"), REFUSED.items())
def test_what_cannot_be_reckoned_with_is_refused(text: str, neighbour: str) -> None:
    most = 9 if len(text) < 30 and text.startswith("[") else 1000
    for parse in (parse_json, parse_logged):
        for written, read in ((text, neighbour), (text.encode(), neighbour.encode())):
            with pytest.raises(ValueError):
                parse(written, most)
            assert parse(read, most) == json.loads(neighbour)


@pytest.mark.parametrize("data", [b"\xff", b"\xef\xbb\xbf1", "{}".encode("utf-16")])
def test_no_other_encoding_is_read(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(data)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_loss_that_is_no_number_is_read_where_it_was_logged_and_nowhere_else(word: str) -> None:
    with pytest.raises(ValueError):
        parse_json(f'{{"loss": {word}}}')
    assert not math.isfinite(parse_logged(f'{{"loss": {word}}}')["loss"])


@given(values)
def test_what_is_read_is_what_was_written(value: object) -> None:
    text = json.dumps(value)
    try:
        found = parse_json(text)
    except ValueError:
        return
    assert json.loads(text) == found


def test_nobody_else_in_the_entrypoint_reads_json() -> None:
    """Programs and hooks, which run in the Python of a training, read what this job has written itself."""
    paths = [path for path in (ROOT / "multinode_image").rglob("*.py") if not {"hooks", "programs"} & {*path.parts}]
    found = {path.name for path in paths if "json.load" in path.read_text()}

    assert found == {"documents.py"}
