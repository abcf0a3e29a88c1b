"""What the two wheels of a ccl stack share, and which paths lead to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.layers import oneccl
from images.layers.oneccl import GUIDE, MPI
from images.model import BINDINGS, IPEX
from tests.support import ccl_wheels

MODULE = ccl_wheels.BINDINGS
SITE = "usr/local/lib/python3.11/dist-packages"


@pytest.fixture
def wheels(tmp_path: Path) -> dict[str, Path]:
    return {BINDINGS: ccl_wheels.bindings(tmp_path), IPEX: ccl_wheels.ipex(tmp_path)}


@pytest.mark.parametrize("lacking", [BINDINGS, IPEX])
def test_one_wheel_alone_shares_nothing(wheels: dict[str, Path], lacking: str) -> None:
    del wheels[lacking]

    assert oneccl.shared_files(wheels, MODULE, trimmed=True) == {}


# From oneCCL 2021.12 on Intel MPI is in opt/mpi, before in the package itself (cmake/setvars.sh.in).
@pytest.mark.parametrize(("root", "mpi"), [("opt/mpi/", "/opt/mpi"), ("", "")])
def test_programs_are_found_wherever_the_wheel_has_them(root: str, mpi: str) -> None:
    names = [f"{MODULE}/{root}bin/{name}" for name in ("mpirun", "mpiexec.hydra", "mpicc")]

    assert oneccl.links([*names, f"{MODULE}/__init__.py"], MODULE, SITE) == {
        "usr/local/bin/mpirun": f"../lib/python3.11/dist-packages/{MODULE}/{root}bin/mpirun",
        "usr/local/bin/mpiexec.hydra": f"../lib/python3.11/dist-packages/{MODULE}/{root}bin/mpiexec.hydra",
        MPI: f"../lib/python3.11/dist-packages/{MODULE}{mpi}",
        f"{GUIDE}/{MODULE}": f"../../python3.11/dist-packages/{MODULE}",
    }


def test_in_the_guides_python_its_folder_is_no_link() -> None:
    assert oneccl.links([f"{MODULE}/__init__.py"], MODULE, GUIDE) == {}
