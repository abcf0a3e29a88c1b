"""Any text in a manifest is read back as it was, and what has lines is a block that people can review."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from manifests.yaml_writer import write_yaml
from tests.support.manifests import LOADER

# Pieces of scripts, beside characters of any kind.
PIECES = [
    "a",
    "b: c",
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n",
    "#",
    "- ",
    "---",
    "...",
    "|",
    "'",
    '"',
    "\\n",
    "é",
    "語",
    "\U0001f600",
]
HELD = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
ANY = st.text(st.one_of(st.sampled_from("a \t\n"), st.characters(exclude_categories=["Cs"])), max_size=12)
# What no block can hold, and what a reviewer would not see.
QUOTED = "\x00 \x07 \x1b[1A \r \x7f \x85 \u2028 \u2029 \ufeff \uffff \u202e \u2066 \u200f"


def nest(text: str) -> list[dict[str, Any]]:
    """Put a text wherever a manifest has one, with a document behind it."""
    spec = {"args": [text, text], "env": [{"name": "A", "value": text}], "last": text}
    return [{"data": {"train.py": text, "more": text}}, {"spec": spec}, {"kind": "Job", "text": text}]


def write_script(text: str) -> str:
    """Return a ConfigMap as it is printed."""
    return write_yaml([{"data": {"train.py": text}}])


@pytest.mark.parametrize("loader", [yaml.SafeLoader, LOADER])
@given(text=st.one_of(HELD, ANY))
@example("a  \n")
@example("\ta\n")
@example("\n \n\t\n")
@example(" \n")
@example("a\n\n ")
@example("a\n\t")
def test_any_text_is_read_back(loader: Any, text: str) -> None:
    objects = nest(text)

    assert [*yaml.load_all(write_yaml(objects), loader)] == objects


@given(text=HELD)
def test_what_has_lines_is_a_block(text: str) -> None:
    lines = text.split("\n")

    printed = write_script(text)

    assert ("  train.py: |" in printed) is (len(lines) > 1)
    if len(lines) > 1:
        indented = "".join(f"    {line}\n" if line else "\n" for line in lines)
        assert indented.rstrip("\n") in printed


@pytest.mark.parametrize("text", QUOTED.split(" "))
def test_what_a_block_cannot_hold_is_escaped(text: str) -> None:
    printed = write_script(f"a\n{text}\n")

    assert '  train.py: "a\\n' in printed and printed.isascii() and printed.replace("\n", "").isprintable()


def test_a_changed_line_is_one_line_of_a_difference() -> None:
    script = "import os\n\nfor name in os.environ:  # “all”\n\tprint(name)  \n"

    before, after = (write_script(each).splitlines() for each in (script, script.replace("print", "repr")))

    assert [line for line in after if line not in before] == ["    \trepr(name)  "]
    assert not any(re.search(r"\\[ntxu]", line) for line in after)
