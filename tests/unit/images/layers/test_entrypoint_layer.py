"""The line that every Python of an image reads when it starts."""

from __future__ import annotations

import atexit
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.jobs.at_end import DISTRIBUTED
from images.base.base import Site
from images.layers.entrypoint_layer import AT_END, HOME, files

ROOT = Path(__file__).parents[4]


def test_it_lies_where_this_python_imports_from() -> None:
    assert (
        files(Site("3.10", "opt/lib/python3.10/site-packages", "/opt/bin/python3"))[
            "opt/lib/python3.10/site-packages/multinode.pth"
        ]
        == AT_END.encode()
    )


def test_it_is_one_line_that_site_runs() -> None:
    assert AT_END.startswith("import ")
    assert AT_END.count("\n") == 1


def test_it_runs_the_program_at_the_end_where_torch_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Callable[[], object]] = []
    ran: list[tuple[str, str]] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(runpy, "run_path", lambda path, run_name: ran.append((path, run_name)))
    exec(AT_END, {})
    (end,) = registered

    monkeypatch.delitem(sys.modules, DISTRIBUTED, raising=False)
    end()
    assert ran == []

    monkeypatch.setitem(sys.modules, DISTRIBUTED, object())
    end()
    ((path, name),) = ran
    assert f'if __name__ == "{name}":' in (ROOT / path.removeprefix(f"/{HOME}/")).read_text()
