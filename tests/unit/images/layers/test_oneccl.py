"""What the two wheels of a ccl stack share, and which paths lead to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.layers import oneccl
from images.layers.oneccl import GUIDE, MPI
from images.model import BINDINGS, IPEX
from images.wheels import record
from tests.support import ccl_wheels

MODULE = ccl_wheels.BINDINGS
SITE = "usr/local/lib/python3.11/dist-packages"


@pytest.fixture
def wheels(tmp_path: Path) -> dict[str, Path]:
    return {BINDINGS: ccl_wheels.bindings(tmp_path), IPEX: ccl_wheels.ipex(tmp_path)}


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("lib/libccl.so", True),
        ("lib/libccl.so.1.0", True),
        ("opt/mpi/bin/mpiexec.hydra", True),
        ("opt/mpi/libfabric/lib/prov/libtcp-fi.so", True),
        ("env/setvars.sh", False),  # takes its own directory for the root
        ("__init__.py", False),
        ("lib/liboneccl_bindings_for_pytorch.so", False),  # the bindings' own
        ("opt/mpi/lib/libmpifort.so.12", False),  # left out of both
    ],
)
def test_what_both_wheels_have_is_ipexs(wheels: dict[str, Path], path: str, shared: bool) -> None:
    found = oneccl.shared_files(wheels, MODULE, trimmed=True)

    assert (f"{MODULE}/{path}" in found) is shared
    if shared:
        data = ccl_wheels.runtime(ccl_wheels.IPEX, "IPEX")[f"{ccl_wheels.IPEX}/{path}"]
        assert found[f"{MODULE}/{path}"] == record.row(f"{ccl_wheels.IPEX}/{path}", data)


def test_what_is_kept_without_trimming_is_shared_too(wheels: dict[str, Path]) -> None:
    assert f"{MODULE}/opt/mpi/lib/libmpifort.so.12" in oneccl.shared_files(wheels, MODULE, trimmed=False)


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


def test_the_environment_leads_to_what_setvars_would_find() -> None:
    found = oneccl.environment(MODULE, SITE)

    assert found["I_MPI_ROOT"] == f"/{MPI}"
    assert found["LD_LIBRARY_PATH"].split(":") == [f"/{MPI}/lib", f"/{MPI}/libfabric/lib", f"/{SITE}/{MODULE}/lib"]
    assert f"/{MPI}/libfabric/lib/prov" in found["FI_PROVIDER_PATH"].split(":")
    assert found["CCL_ATL_TRANSPORT"] == "ofi"
