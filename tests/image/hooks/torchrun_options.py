"""What torchrun reads of its options and variables: tests/data/torchrun.json, which tests/unit builds on, is so.

With a torch at hand, `python tests/image/hooks/torchrun_options.py FILE` writes the file anew from its own lines.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from multinode_image.hooks.ends.options import ask_parser, describe

FILE = "/tests/data/torchrun.json"
ROWS: list[dict[str, Any]] = json.loads(Path(FILE).read_text()) if Path(FILE).exists() else []


def read(line: str, environ: dict[str, str]) -> dict[str, Any]:
    """Return what torchrun has read: as variables, and what each rank runs."""
    run, api = (importlib.import_module(f"torch.distributed.{name}") for name in ("run", "launcher.api"))
    asked: list[dict[str, Any]] = []

    def keep(config: Any, program: str, words: list[str], **_: object) -> None:
        program = "python3" if program == sys.executable else program
        asked.append({"described": describe(config, ask_parser(), os.environ), "program": program, "words": [*words]})

    others = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
    with (
        mock.patch.dict(os.environ, {**others, **environ}, clear=True),
        mock.patch.object(sys, "argv", line.split()),
        mock.patch.object(api, "launch_agent", keep),
        contextlib.redirect_stderr(None),
    ):
        run.main()
    return asked[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["line"])
def test_torchrun_reads_its_options_as_is_recorded(row: dict[str, Any]) -> None:
    assert {**read(row["line"], row["environ"]), "line": row["line"], "environ": row["environ"]} == row


if __name__ == "__main__":
    path = Path(sys.argv[1])
    rows = [{"line": row["line"], "environ": row["environ"]} for row in json.loads(path.read_text())]
    texts = [json.dumps({**row, **read(row["line"], row["environ"])}) for row in rows]
    path.write_text("[\n " + ",\n ".join(texts) + "\n]\n")
