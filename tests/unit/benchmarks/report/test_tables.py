"""What is printed of a part, from figures made by hand."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from benchmarks.build import against
from benchmarks.figures.file import PARTS
from benchmarks.figures.measured import Figures
from benchmarks.figures.promises import PROMISES
from benchmarks.report import tables
from benchmarks.report.rows import TABLES
from benchmarks.settings import scenes
from benchmarks.start import entrypoint
from tests.support.figures import part
from tests.support.harness import ROOT

# Figures of the comparison with Dockerfiles are named by these and by what is built.
SIDES, FIELDS = ("ours", "expert", "guide", "expert buildx"), ("built", "pushed", "size", "sent")


def test_what_was_missed_and_what_was_not_measured_is_said() -> None:
    figures = Figures(missing={"oneCCL": "MULTINODE_CCL is not set"})
    figures.add("apart 12x384", 5.0)
    figures.add("together 12x384", 10.0)

    text = tables.whole("settings", part(figures))

    assert "| ≥ 0.95 | 0.50 | **missed** |" in text
    assert "| ≥ 2.00 | — | not measured |" in text
    assert "Not measured: oneCCL (MULTINODE_CCL is not set)." in text


def literals(package: str) -> list[str]:
    """List the texts in the modules of a package, what is put into them left open."""
    found = []
    for path in sorted(Path(ROOT, "benchmarks", package).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                pieces = (str(each.value) if isinstance(each, ast.Constant) else "*" for each in node.values)
                found.append("".join(pieces))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def names(name: str) -> set[str]:
    """Return the figures that the tables and promises of a part name."""
    cells = [cell for table in TABLES[name] for row in table.rows for cell in row.cells if cell]
    texts = {text for cell in cells for text in ((cell,) if isinstance(cell, str) else cell)}
    promised = {
        text for promise in PROMISES if promise.part == name for text in (promise.figure, promise.against) if text
    }
    return {text for text in texts | promised if "*" not in text}


@pytest.mark.parametrize("name", PARTS)
def test_every_figure_of_a_table_is_measured_somewhere(name: str) -> None:
    """A misspelt name would leave a row out without a word."""
    made = {f"{command}{kind}" for command in entrypoint.COMMANDS for kind in ("", " processor")}
    made |= {
        f"{model} {scene.name} {mode}" for model in scenes.MODELS for scene in scenes.SCENES for mode in scenes.MODES
    }
    made |= {f"{side} {row} {field}" for side in SIDES for row in against.ROWS for field in FIELDS}
    patterns = [re.escape(text).replace(r"\*", ".+") for text in literals(name) if text.strip("* ")]

    assert [each for each in sorted(names(name) - made) if not any(re.fullmatch(one, each) for one in patterns)] == []
