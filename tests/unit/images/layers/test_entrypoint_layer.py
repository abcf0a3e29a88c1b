"""The line that every Python of an image reads when it starts."""

from __future__ import annotations

import atexit
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.faults.peers import VARIABLE
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


def test_it_is_lines_that_site_runs() -> None:
    lines = AT_END.splitlines()

    assert len(lines) == 2
    assert [line for line in lines if not line.startswith("import ")] == []


@pytest.mark.parametrize(("value", "there"), [("300", True), ("300", False), ("", True), (None, True)])
def test_a_rank_of_several_nodes_watches_its_peers(
    monkeypatch: pytest.MonkeyPatch, value: str | None, there: bool
) -> None:
    ran: list[tuple[str, str]] = []
    monkeypatch.setattr(runpy, "run_path", lambda path, run_name: ran.append((path, run_name)))
    monkeypatch.setattr(os.path, "exists", lambda _: there)
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)

    exec(AT_END.splitlines()[1], {})

    assert len(ran) == bool(value and there)
    for path, name in ran:
        assert f'if __name__ == "{name}":' in (ROOT / path.removeprefix(f"/{HOME}/")).read_text()


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """Run the line, and return what is called at the end."""
    registered: list[Callable[[], object]] = []
    monkeypatch.setattr(atexit, "register", lambda function, *words: registered.append(lambda: function(*words)))
    exec(AT_END, {})
    (end,) = registered
    return end


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("imported", [True, False])
def test_the_program_runs_where_it_is_there_and_torch_was_imported(
    monkeypatch: pytest.MonkeyPatch, at_exit: Callable[[], object], there: bool, imported: bool
) -> None:
    ran: list[tuple[str, str]] = []
    monkeypatch.setattr(runpy, "run_path", lambda path, run_name: ran.append((path, run_name)))
    monkeypatch.setattr(os.path, "exists", lambda _: there)
    if imported:
        monkeypatch.setitem(sys.modules, DISTRIBUTED, object())
    else:
        monkeypatch.delitem(sys.modules, DISTRIBUTED, raising=False)

    at_exit()

    assert len(ran) == (there and imported)
    for path, name in ran:
        assert f'if __name__ == "{name}":' in (ROOT / path.removeprefix(f"/{HOME}/")).read_text()
