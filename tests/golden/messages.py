"""The words of every refusal of a start, once, for somebody who reads them together."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.golden.data import as_json
from tests.support.refusals import REFUSED
from tests.support.starts import Container


def produce() -> dict[str, str]:
    """Return one file: what is typed -> the lines of the message."""
    with tempfile.TemporaryDirectory() as home:
        container = Container(Path(home)).furnish()
        said = {}
        for row in REFUSED:
            refusal = container.start(row.argv_in(home), row.variables).refusal
            said[str(row)] = str(refusal).replace(home, "HOME").splitlines()
    return {"starts.json": as_json(said)}
