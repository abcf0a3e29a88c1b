"""Wheels that stand in for those of the oneCCL stack: the same paths and scripts that do the same, nothing compiled.

The layout is that of IPEX 2.4.0 on PyPI, and of the bindings as intel/torch-ccl v2.4.0+cpu+rc0 makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import wheels

IPEX, BINDINGS = "intel_extension_for_pytorch", "oneccl_bindings_for_pytorch"
MPI_LIBRARIES = tuple(
    f"opt/mpi/lib/{name}.so{suffix}"
    for name in ("libmpi", "libmpicxx", "libmpifort")
    for suffix in ("", ".12", ".12.0", ".12.0.0")
)
FABRIC = ("libfabric.so", "libfabric.so.1", *(f"prov/lib{name}-fi.so" for name in ("psm3", "rxm", "shm", "tcp")))
ABOVE = {"accelerate": "1.0.1", "datasets": "2.20.0", "transformers": "4.46.0"}
PROGRAMS = ("hydra_bstrap_proxy", "hydra_nameserver", "hydra_pmi_proxy", "mpiexec", "mpiexec.hydra")

# What cmake/setvars.sh.in of oneCCL 2021.12 does: it takes its own folder for the root, asks ps, and sources vars.sh.
SETVARS = """\
shell="$(ps -p "$$" -o comm=)"
here="$(cd "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)"
CCL_ROOT="$(cd "$here/.." && pwd -P)"; export CCL_ROOT
export I_MPI_ROOT="$CCL_ROOT/opt/mpi"
source "$CCL_ROOT/env/vars.sh"
export FI_PROVIDER_PATH="$I_MPI_ROOT/libfabric/lib/prov:/usr/lib64/libfabric"
export LD_LIBRARY_PATH="$I_MPI_ROOT/lib:$I_MPI_ROOT/libfabric/lib:$LD_LIBRARY_PATH"
export PATH="$I_MPI_ROOT/bin:$CCL_ROOT/bin:$PATH"
"""
VARS = 'export LD_LIBRARY_PATH="$CCL_ROOT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\n'
MPIRUN = '#!/bin/sh\nexec mpiexec.hydra "$@"\n'
HYDRA = '#!/bin/sh\necho "Intel MPI below $I_MPI_ROOT"\n'


def wheel(folder: Path, name: str, version: str, files: Mapping[str, bytes], requires: Sequence[str] = ()) -> Path:
    """Write a wheel for Python 3.11."""
    return wheels.write(folder, name, version, files, requires, tag="cp311-cp311-linux_x86_64")


def runtime(package: str, maker: str) -> dict[str, bytes]:
    """List what an installation of oneCCL has: itself, Intel MPI and libfabric; `maker` shows in the bytes."""
    libraries = [*MPI_LIBRARIES, *(f"opt/mpi/libfabric/lib/{name}" for name in FABRIC)]
    files = {path: f"{path.partition('.so')[0]} of {maker}".encode() for path in libraries}
    files |= {f"lib/libccl.so{suffix}": f"oneCCL of {maker}".encode() for suffix in ("", ".1", ".1.0")}
    files |= {f"opt/mpi/bin/{name}": HYDRA.encode() for name in PROGRAMS}
    files |= {"opt/mpi/bin/mpirun": MPIRUN.encode(), "opt/mpi/etc/tuning_generic_ofi.dat": b"tuning"}
    files |= {"env/setvars.sh": SETVARS.encode(), "env/vars.sh": VARS.encode()}
    return {f"{package}/{path}": data for path, data in files.items()}


def bindings(folder: Path, version: str = "2.4.0+cpu") -> Path:
    """Write the bindings; importing them says on stdout what the real ones say."""
    module = f'import os\n\ncwd = os.path.dirname(os.path.abspath(__file__))\n__version__ = "{version}"\n'
    files = {
        f"{BINDINGS}/__init__.py": module.encode() + b'print("Warning: Cannot load xpu CCL.")\n',
        f"{BINDINGS}/lib/liboneccl_bindings_for_pytorch.so": b"bindings",
    }
    return wheel(folder, "oneccl_bind_pt", version, {**files, **runtime(BINDINGS, "the bindings")})


def ipex(folder: Path, version: str = "2.4.0") -> Path:
    """Write IPEX."""
    files = {
        f"{IPEX}/__init__.py": f'__version__ = "{version}+cpu"\n'.encode(),
        f"{IPEX}/bin/ipex_cpp_test": b"a test program",
        f"{IPEX}/lib/libccl.a": b"a static library",
        f"{IPEX}/lib/libintel-ext-pt-cpu.so": b"operators",
    }
    requires = ("psutil", "numpy", "packaging")
    return wheel(folder, IPEX, version, {**files, **runtime(IPEX, "IPEX")}, requires)


def plain(folder: Path, name: str, version: str) -> Path:
    """Write a package that does nothing but be imported."""
    return wheel(folder, name, version, {f"{name}/__init__.py": f'__version__ = "{version}"\n'.encode()})


def stack(folder: Path) -> Path:
    """Fill a folder with the stack of torch 2.4.0, and with what would load the real torch, or half of PyPI."""
    for name, version in (("torch", "2.4.0+cpu"), *ABOVE.items()):
        plain(folder, name, version)
    ipex(folder)
    bindings(folder)
    return folder
