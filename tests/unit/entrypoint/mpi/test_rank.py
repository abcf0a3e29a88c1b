"""A rank that `launch` started: what its command is given, and what is reported of its end."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from entrypoint.mpi import rank
from entrypoint.mpi.rank import FAILED, SUPERVISED, report_refused, supervise


@pytest.mark.parametrize(("code", "reports"), [(0, []), (7, [FAILED + b"3 node1 7\n"])])
def test_a_rank_is_supervised_once_and_its_failure_is_reported(
    monkeypatch: pytest.MonkeyPatch, code: int, reports: list[bytes]
) -> None:
    given: list[Mapping[str, str]] = []
    written: list[tuple[int, bytes]] = []
    bound: list[bool] = []

    def run_child(argv: list[str], environ: Mapping[str, str], numbers: object) -> int:
        assert bound  # to the proxy that has started it, before it can outlive that
        given.append(environ)
        return code

    monkeypatch.setattr(rank, "end_with_parent", lambda: bound.append(True))
    monkeypatch.setattr(rank, "run_child", run_child)
    monkeypatch.setattr("socket.gethostname", lambda: "node1")
    monkeypatch.setattr(os, "write", lambda number, data: written.append((number, data)))

    assert supervise(["python3"], {SUPERVISED: "1", "HOME": "/h"}, 3) == code
    assert given == [{"HOME": "/h"}]
    assert written == [(2, report) for report in reports]


@pytest.mark.parametrize(
    ("environ", "reports"),
    [
        ({"PMI_RANK": "1", "PMI_SIZE": "x"}, [FAILED + b"1 node1 2\n"]),
        ({}, []),
        ({"PMI_RANK": "one"}, []),
    ],
)
def test_only_who_has_a_rank_reports_that_it_was_refused(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], reports: list[bytes]
) -> None:
    written: list[bytes] = []
    monkeypatch.setattr("socket.gethostname", lambda: "node1")
    monkeypatch.setattr(os, "write", lambda _, data: written.append(data))

    report_refused(environ, 2)

    assert written == reports


def test_a_report_that_nobody_reads_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(os, "write", write)
    report_refused({"PMI_RANK": "1"}, 2)
