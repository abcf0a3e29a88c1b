"""The program with which hydra reaches other nodes: ssh, or that of the scheduler which hydra found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.harness import ROOT

PROGRAM = ROOT / "images/rootfs/opt/multinode/ssh"
PROXY = "/usr/local/bin/hydra_bstrap_proxy --upstream-host n0 --upstream-port 37797 --pgid 0"


def start(path: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(PROGRAM), *line.split()], env={"PATH": str(path)}, capture_output=True, text=True, check=False
    )


# What mpiexec.hydra 2021.18.0 gives to the program of I_MPI_HYDRA_BOOTSTRAP_EXEC in a job of each scheduler.
@pytest.mark.parametrize(
    ("line", "program"),
    [
        (f"-q -x node1 {PROXY} --launcher ssh --launcher-number 0", "python3 -I -S /opt/multinode ssh"),
        (f"-N 2 -n 2 --nodelist node0,node1 --input none {PROXY} --launcher slurm --launcher-number 1", "srun"),
        (f"-n 0 -- {PROXY} --launcher pbs --launcher-number 5", "pbsdsh"),
        (f"h1 {PROXY} --launcher lsf --launcher-number 2", "blaunch"),
        ("node1 true", "python3 -I -S /opt/multinode ssh"),
    ],
)
def test_hydra_reaches_nodes_as_their_scheduler_does(tmp_path: Path, line: str, program: str) -> None:
    for name in ("python3", "srun", "pbsdsh", "blaunch"):
        tmp_path.joinpath(name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        tmp_path.joinpath(name).chmod(0o755)

    done = start(tmp_path, line)

    assert done.stdout == f"{program} {line}\n"


def test_a_scheduler_s_program_that_is_missing_is_named(tmp_path: Path) -> None:
    done = start(tmp_path, f"-N 2 {PROXY} --launcher slurm")

    assert done.returncode == 1
    assert "not the program that starts its nodes: srun\n  try: export I_MPI_HYDRA_BOOTSTRAP=ssh" in done.stderr
