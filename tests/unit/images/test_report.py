"""What a finished build prints of itself."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from images import report
from images.store.store import Store
from tests.support.finished_images import SMALL, finished


@pytest.mark.parametrize("archive", ["tmp/[/x].tar", "[a].tar", "[red]a.tar", "a\\[b].tar"])
def test_a_name_is_printed_as_it_is(tmp_path: Path, archive: str) -> None:
    out = StringIO()

    report.show_outcome(
        report.Outcome((finished(Store(tmp_path), SMALL),), archive, None, (), 1.0), Console(file=out, width=100)
    )

    assert f"archive        {archive}\n" in out.getvalue()


@pytest.mark.parametrize("engine", ["docker", "podman", None])
def test_json_says_where_the_image_went(tmp_path: Path, engine: str | None) -> None:
    fields = report.outcome_fields(
        report.Outcome((finished(Store(tmp_path), SMALL),), "a.tar", engine, ("host/a:1",), 1.0)
    )

    assert (fields["archive"], fields["loaded"], fields["pushed"]) == ("a.tar", engine, ["host/a:1"])
