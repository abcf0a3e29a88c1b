"""The tables and pictures of docs/architecture.md, and what the program prints."""

from __future__ import annotations

import re

import pytest

from scripts import architecture
from scripts.pages.imports import find_modules, read_program
from scripts.pages.layers import FLOWS, LAYERS


@pytest.mark.parametrize("program", LAYERS)
def test_a_table_has_every_module_once(program: str) -> None:
    rows = architecture.table(program)[2:]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[2])]
    found = [name.partition(".")[2] or name for name in find_modules(program)]

    assert sorted(names) == sorted(found)


def test_a_table_says_how_long_modules_are_if_asked() -> None:
    lines = {module.name: module.lines for module in read_program("manifests")}

    assert f"| `fields` | `fields` {lines['fields']} | — |" in architecture.table("manifests", lines=True)


@pytest.mark.parametrize("program", FLOWS)
def test_a_flow_has_an_arrow_for_each_step(program: str) -> None:
    drawn = architecture.flow_picture(program)

    assert drawn[:2] == ["```mermaid", "flowchart LR"] and drawn[-1] == "```"
    assert len(drawn) == len(FLOWS[program]) + 3
    assert "__main__" not in "".join(drawn)


def test_only_the_parts_of_one_program_are_written() -> None:
    parts = ("flow of images", "packages of images", "modules of images", "modules of entrypoint")
    text = "".join(f"<!-- {name} -->\nold {name}\n<!-- end -->\n" for name in parts)

    written = architecture.fill(text, ["images"])

    assert re.findall(r"old .*", written) == ["old modules of entrypoint"]


def test_it_prints_all_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert architecture.main([]) == 0

    assert re.findall(r"(?m)^(\w+): \d+ modules", capsys.readouterr().out) == list(LAYERS)
