"""What the two wheels of a ccl stack share, and which paths lead to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from images.base.base import Base
from images.layers import oneccl
from images.layers.oneccl import GUIDE, MPI
from images.lock.lock import BINDINGS, IPEX
from images.wheels.archive import Wheel
from tests.support import ccl_wheels
from tests.support.bases import base
from tests.support.locks import artifact, lock
from tests.support.stand_in import SITE as OF_BASE
from tests.support.stand_in import SYSTEM

MODULE = ccl_wheels.BINDINGS
SITE = "usr/local/lib/python3.11/dist-packages"


@pytest.fixture
def wheels(tmp_path: Path) -> dict[str, Path]:
    return {BINDINGS: ccl_wheels.bindings(tmp_path), IPEX: ccl_wheels.ipex(tmp_path)}


@pytest.mark.parametrize("lacking", [BINDINGS, IPEX])
def test_one_wheel_alone_shares_nothing(wheels: dict[str, Path], lacking: str) -> None:
    del wheels[lacking]

    assert oneccl.shared_files(wheels, MODULE, {}) == {}


# From oneCCL 2021.12 on Intel MPI is in opt/mpi, before in the package itself (cmake/setvars.sh.in).
@pytest.mark.parametrize(("root", "mpi"), [("opt/mpi/", "/opt/mpi"), ("", "")])
def test_programs_are_found_wherever_the_wheel_has_them(root: str, mpi: str) -> None:
    names = [f"{MODULE}/{root}bin/{name}" for name in ("mpirun", "mpiexec.hydra", "mpicc")]

    assert oneccl.link_bindings([*names, f"{MODULE}/__init__.py"], MODULE, SITE) == {
        "usr/local/bin/mpirun": f"../lib/python3.11/dist-packages/{MODULE}/{root}bin/mpirun",
        "usr/local/bin/mpiexec.hydra": f"../lib/python3.11/dist-packages/{MODULE}/{root}bin/mpiexec.hydra",
        MPI: f"../lib/python3.11/dist-packages/{MODULE}{mpi}",
        f"{GUIDE}/{MODULE}": f"../../python3.11/dist-packages/{MODULE}",
    }


def test_in_the_guides_python_its_folder_is_no_link() -> None:
    assert oneccl.link_bindings([f"{MODULE}/__init__.py"], MODULE, GUIDE) == {}


def links_of(below: Base, package: str, wheels: Sequence[Wheel] = ()) -> Mapping[str, str]:
    """Return the links on a base, of a lock with one more package."""
    both = [artifact("six", "1.0"), artifact(package, "1.0")]
    planned = lock(both, python="3.10", backend="ccl", module=MODULE)
    return oneccl.add_links(below, planned, wheels).links


def test_without_bindings_there_are_no_links_to_programs() -> None:
    below = base(SYSTEM, {f"{OF_BASE}/{MODULE}/opt/mpi/bin/nothing": b""})

    assert not [path for path in links_of(below, "torch") if "/bin/" in path]


def test_the_programs_of_the_package_of_intel_mpi_stay(tmp_path: Path) -> None:
    wheels = [Wheel(BINDINGS, "2.4.0", "0" * 64, ccl_wheels.bindings(tmp_path))]

    assert "usr/local/bin/mpirun" in links_of(base(SYSTEM), "torch", wheels)
    assert "usr/local/bin/mpirun" not in links_of(base(SYSTEM), "impi-rt", wheels)
