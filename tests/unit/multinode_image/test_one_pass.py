"""A start reads each file once, and detects and decides once."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

import multinode_image.__main__ as program
from multinode_image import decide, situation
from multinode_image.world import table
from tests.support.launchers import left_by
from tests.support.starts import Container, kernel, network


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        (["smoke"], {}),
        (["--nproc", "2", "smoke", "--bf16"], {}),
        (["smoke"], {**left_by("intel-mpi-1")}),
        (["smoke"], {"PET_NNODES": "2", "PET_MASTER_ADDR": "pod0", "PET_NODE_RANK": "1"}),
        (["true"], {}),
    ],
)
def test_nothing_is_read_detected_or_decided_twice(tmp_path: Path, argv: list[str], environ: dict[str, str]) -> None:
    Container(tmp_path).furnish()
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), **environ}
    with (
        network(),
        kernel() as opened,
        mock.patch.object(os, "execvpe", side_effect=SystemExit),
        mock.patch("multinode_image.__main__.detect_situation", wraps=situation.detect_situation) as detected,
        mock.patch("multinode_image.__main__.decide", wraps=decide.decide) as decided,
        mock.patch("multinode_image.__main__.find_launcher", wraps=table.find_launcher) as found,
        pytest.raises(SystemExit),
    ):
        program.main(argv, environ, str(tmp_path))

    assert opened[str(tmp_path / "stack.json")] == opened["/proc/meminfo"] == 1
    assert {path: count for path, count in opened.items() if count > 1} == {}
    assert (found.call_count, detected.call_count, decided.call_count) == (1, 1, 1)


def test_a_mistake_of_ours_is_reported_to_the_job_once_and_shown(tmp_path: Path) -> None:
    with (
        mock.patch.object(program, "run", side_effect=LookupError("ours")),
        mock.patch.object(program, "report") as reported,
        pytest.raises(LookupError, match="ours"),
    ):
        program.main(["smoke"], {}, str(tmp_path))

    reported.assert_called_once_with({}, 1)
