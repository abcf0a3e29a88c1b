"""A rank that `launch` started: what its command is given, and what is reported of its end."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from entrypoint.cluster import rank
from entrypoint.cluster.rank import FAILED, SUPERVISED, supervise


@pytest.mark.parametrize(("code", "reports"), [(0, []), (7, [FAILED + b"3 node1 7\n"])])
def test_a_rank_is_supervised_once_and_its_failure_is_reported(
    monkeypatch: pytest.MonkeyPatch, code: int, reports: list[bytes]
) -> None:
    given: list[Mapping[str, str]] = []
    written: list[tuple[int, bytes]] = []

    def run_child(argv: list[str], environ: Mapping[str, str], numbers: object) -> int:
        given.append(environ)
        return code

    monkeypatch.setattr(rank, "run_child", run_child)
    monkeypatch.setattr("socket.gethostname", lambda: "node1")
    monkeypatch.setattr(os, "write", lambda number, data: written.append((number, data)))

    assert supervise(["python3"], {SUPERVISED: "1", "HOME": "/h"}, 3) == code
    assert given == [{"HOME": "/h"}]
    assert written == [(2, report) for report in reports]
