"""When a script that forms a process group gets the place of the only rank; torch is made up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from multinode_image.hooks.groups.group_of_one import PLACE, find_missing, serve_alone
from multinode_image.settings import SIZE

ALONE = {SIZE: "1"}


@pytest.mark.parametrize(
    ("url", "environ", "lent"),
    [
        ("env://", ALONE, {*PLACE}),
        ("env://?rank=0&world_size=1", ALONE, {*PLACE}),
        ("env://", {**ALONE, "MASTER_ADDR": "localhost", "MASTER_PORT": "12355"}, {"RANK", "WORLD_SIZE"}),
        # others are meant: torch says what it misses
        ("env://?rank=0&world_size=2", ALONE, set()),
        ("env://?rank=1", ALONE, set()),
        ("env://", {**ALONE, "RANK": "0"}, set()),
        ("env://", {**ALONE, "WORLD_SIZE": "2"}, set()),
        ("env://", {SIZE: "2"}, set()),
        ("env://", {SIZE: "1:4"}, set()),
        ("env://", {}, set()),
    ],
)
def test_only_a_process_that_is_alone_gets_a_place(url: str, environ: dict[str, str], lent: set[str]) -> None:
    assert find_missing(url, environ).keys() == lent


def test_a_place_is_there_while_torch_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(ALONE))
    seen: list[dict[str, str]] = []

    def meet(url: str, timeout: int) -> Iterator[int]:
        seen.append(dict(os.environ))
        yield timeout
        seen.append(dict(os.environ))

    module = SimpleNamespace(_rendezvous_handlers={"env": meet})
    serve_alone(module)

    assert list(module._rendezvous_handlers["env"]("env://", timeout=7)) == [7]
    assert seen == [{**ALONE, **PLACE}, ALONE]


def test_a_place_is_taken_back_where_torch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(ALONE))

    def meet(url: str) -> Iterator[int]:
        raise OSError(url)
        yield 0

    module = SimpleNamespace(_rendezvous_handlers={"env": meet})
    serve_alone(module)

    with pytest.raises(OSError, match="env"):
        next(module._rendezvous_handlers["env"]("env://"))
    assert os.environ == ALONE
