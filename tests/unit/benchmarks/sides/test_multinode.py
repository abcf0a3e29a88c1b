"""What build.py is started with, and which store it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks.host.commands import build_py
from benchmarks.sides import multinode
from benchmarks.sides.multinode import WHOLE, Multinode


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Sequence[str], Mapping[str, str]]]:
    """List the commands and their variables."""
    found: list[tuple[Sequence[str], Mapping[str, str]]] = []

    def call(command: Sequence[str], environ: Mapping[str, str]) -> str:
        found.append((command, environ))
        return '{"unpacked": 1}'

    monkeypatch.setattr(multinode, "call", call)
    return found


def test_a_build_writes_a_new_layout(tmp_path: Path, called: list[tuple[Sequence[str], Mapping[str, str]]]) -> None:
    side = Multinode(tmp_path)
    (side.layout("5.23.0") / "old").mkdir(parents=True)

    assert side.build("5.23.0", "--no-bytecode") == {"unpacked": 1}

    words = [*WHOLE, "--transformers", "5.23.0", "--no-load", "--output", f"{tmp_path}/layout-5.23.0/", "--no-bytecode"]
    assert called == [(build_py(*words, "--json"), {"XDG_CACHE_HOME": f"{tmp_path}/cache"})]
    assert not side.layout("5.23.0").exists()


def test_a_shared_store_is_that_of_the_user(
    tmp_path: Path, called: list[tuple[Sequence[str], Mapping[str, str]]]
) -> None:
    Multinode(tmp_path, shared=True).run("--tag", "a:1")

    assert called == [(build_py(*WHOLE, "--tag", "a:1", "--json"), {})]
