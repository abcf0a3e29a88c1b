"""Wheels and source archives that stand in for those of the index: what the builder goes by, the same to the byte.

The names of the files are such that the rules of installation, of what is left out and of shared libraries all apply.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from tests.support import ccl_wheels
from tests.support.ccl_wheels import wheel

ENTRY_POINTS = "entry_points.txt"
LONG = "/".join(["a_directory_with_a_long_name"] * 5)  # more than the 100 bytes of a tar header

TORCH = {
    "torch/__init__.py": b"from torch import version\n",
    "torch/version.py": b"__version__ = '2.13.0+cpu'\n",
    "torch/py.typed": b"",
    "torch/lib/libtorch.so": b"a library",
    "torch/lib/libtorch_cpu.so": b"a library",  # equal files are one file with two names
    "torch/lib/libtorch.a": b"left out",
    "torch/bin/torch_shm_manager": b"a program",
    "torch/bin/protoc": b"left out",
    "torch/test/test_api": b"left out",
    f"torch/{LONG}/module.py": b"# a long path\n",
    f"torch-2.13.0+cpu.dist-info/{ENTRY_POINTS}": b"[console_scripts]\ntorchrun = torch.distributed.run:main\n",
}
IMPI = "impi_rt-2021.18.0.data/data"
INTEL_MPI = {
    f"{IMPI}/bin/mpirun": b"#!/bin/sh\nexec mpiexec.hydra\n",
    f"{IMPI}/bin/mpiexec.hydra": b"a program",
    f"{IMPI}/bin/IMB-MPI1": b"left out",
    f"{IMPI}/lib/libmpi.so.12": b"a library of MPI",
    f"{IMPI}/lib/libmpifort.so.12": b"left out",
    f"{IMPI}/lib/libfabric/libfabric.so.1": b"a library of fabrics",
    f"{IMPI}/opt/mpi/etc/tuning_generic_ofi.dat": b"tuning",
    f"{IMPI}/opt/mpi/etc/coll.fatbin": b"left out",
}
OPENMP = {
    "intel_openmp-2026.0.0.data/data/lib/libiomp5.so": b"a library of OpenMP",
    "intel_openmp-2026.0.0.data/data/lib/libomptarget.so": b"left out",
    "intel_openmp-2026.0.0.data/headers/omp.h": b"/* a header */\n",
}
NUMPY = {
    "numpy/__init__.py": b"__version__ = '2.3.0'\n",
    "numpy/core/tests/test_all.py": b"left out",
    "numpy-2.3.0.data/scripts/f2py.py": b"#!python\nimport numpy\n",
    "numpy-2.3.0.data/headers/arrayobject.h": b"/* a header */\n",
    "numpy-2.3.0.data/platlib/numpy/core/multiarray.so": b"an extension",
}
Package = tuple[str, str, tuple[str, ...]]  # name, version, what it requires

PLAIN: tuple[Package, ...] = (
    ("absl_py", "2.3.0", ()),
    ("datasets", "4.0.0", ("pyarrow", "numpy")),
    ("evaluate", "0.4.5", ()),
    ("huggingface_hub", "0.36.0", ()),
    ("nltk", "3.9.1", ()),
    ("pip", "26.0", ()),
    ("protobuf", "6.31.0", ()),
    ("psutil", "7.0.0", ()),
    ("py7zr", "1.0.0", ()),
    ("sacrebleu", "2.5.1", ()),
    ("safetensors", "0.6.0", ()),
    ("scikit_learn", "1.7.0", ()),
    ("scipy", "1.16.0", ()),
    ("sentencepiece", "0.2.0", ()),
    ("six", "1.17.0", ()),
    ("tokenizers", "0.22.0", ("huggingface_hub",)),
)
RUNTIMES: tuple[Package, ...] = (
    ("intel_cmplr_lib_ur", "2026.0.0", ("umf",)),
    ("umf", "1.1.0", ("tcmlib",)),
    ("tcmlib", "1.5.0", ()),
)
SOURCES = (("rouge-score", "0.1.2"), ("seqeval", "1.2.2"))


def of_the_newest(place: Path) -> Path:
    """Fill a directory with what torch 2.13.0 takes, with transformers 4.57.6 and 5.23.0."""
    wheel(place, "torch", "2.13.0+cpu", TORCH)
    wheel(place, "impi_rt", "2021.18.0", INTEL_MPI)
    wheel(place, "intel_openmp", "2026.0.0", OPENMP, ("intel-cmplr-lib-ur",))
    wheel(place, "numpy", "2.3.0", NUMPY)
    wheel(place, "pyarrow", "21.0.0", {"pyarrow/__init__.py": b"", "pyarrow/tests/test_all.py": b"left out"})
    for name, version, requires in RUNTIMES:
        wheel(place, name, version, {f"{name}-{version}.data/data/lib/lib{name}.so": b"left out"}, requires)
    for name, version, requires in PLAIN:
        wheel(place, name, version, {f"{name}/__init__.py": f"__version__ = '{version}'\n".encode()}, requires)
    for version in ("4.57.6", "5.23.0"):
        wheel(place, "transformers", version, _transformers(version), ("tokenizers", "safetensors"))
    wheel(place, "accelerate", "1.12.0", _accelerate("1.12.0"), ("psutil", "torch", "huggingface_hub"))
    for name, version in SOURCES:
        _source(place, name, version)
    return place


def of_ccl(place: Path) -> Path:
    """Fill a directory with what torch 2.4.0 takes for text generation, with transformers 4.46.0 and oneCCL."""
    ccl_wheels.stack(place)
    openmp = "intel_openmp-2024.2.0.data/data/lib"
    wheel(
        place, "intel_openmp", "2024.2.0", {f"{openmp}/libiomp5.so": b"OpenMP", f"{openmp}/libarcher.so": b"left out"}
    )
    for name, version in (("numpy", "1.26.4"), ("packaging", "24.1"), ("pip", "24.2"), ("protobuf", "5.27.0"),
                          ("psutil", "6.0.0"), ("pyarrow", "17.0.0"), ("sentencepiece", "0.2.0"),
                          ("setuptools", "75.2.0"), ("tqdm", "4.66.5")):  # fmt: skip
        ccl_wheels.plain(place, name, version)
    return place


def _transformers(version: str) -> Mapping[str, bytes]:
    entry = b"[console_scripts]\ntransformers = transformers.cli:main\n"
    return {
        "transformers/__init__.py": f"__version__ = '{version}'\n".encode(),
        "transformers/models/namé.json": b"{}\n",
        f"transformers-{version}.dist-info/{ENTRY_POINTS}": entry,
    }


def _accelerate(version: str) -> Mapping[str, bytes]:
    return {
        "accelerate/__init__.py": f"__version__ = '{version}'\n".encode(),
        "accelerate/commands/launch.py": b"def main():\n    pass\n",
        f"accelerate-{version}.dist-info/{ENTRY_POINTS}": b"[console_scripts]\naccelerate = accelerate.commands:main\n",
    }


def _source(place: Path, name: str, version: str) -> None:
    """Write a source archive without a setup.py: nothing runs it, its metadata are those of versions.toml."""
    package = name.replace("-", "_")
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: a stand-in\n\nIts README.\n",
        "setup.py": "raise SystemExit('this must not be run')\n",
        f"{package}/__init__.py": f"__version__ = '{version}'\n",
        f"{package}/rules/words.txt": "words\n",
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, text in files.items():
            info = tarfile.TarInfo(f"{name}-{version}/{path}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    # Not compressed: what gzip makes of it differs between releases of zlib.
    (place / f"{package}-{version}.tar.gz").write_bytes(gzip.compress(out.getvalue(), compresslevel=0, mtime=0))
