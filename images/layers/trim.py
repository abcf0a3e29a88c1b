"""What is left out of the image, and why; --no-trim brings it back."""

from __future__ import annotations

import re
from typing import NamedTuple


class Row(NamedTuple):
    """Files of one project that nobody needs at run time: a pattern over paths as in the wheel, and the reason."""

    project: str
    pattern: str
    reason: str


TABLE = (
    Row("torch", r"torch/test/", "test programs: 86 MB"),
    Row("torch", r"torch/bin/(?!torch_shm_manager$)", "test and code-generation programs: 52 MB"),
    Row("torch", r".*\.(a|lib)$", "static libraries"),
    Row("impi-rt", r"data/bin/(IMB-|(impi_)?cpuinfo$)", "benchmark programs: 14 MB"),
    Row("impi-rt", r"data/(bin/mpitune_fast$|opt/mpi/tune_fast/)", "the tuner: 20 MB"),
    Row("impi-rt", r"data/lib/(libmpcp|mpi/libmpi_ze_hooks)", "copies between GPUs: 62 MB"),
    Row("impi-rt", r"data/opt/mpi/etc/(coll\.fatbin|.*\.spv)$", "programs for GPUs"),
    Row("impi-rt", r"data/(share/java/|lib/libmpijava)", "bindings for Java"),
    Row("impi-rt", r"data/lib/libmpi(fort)?_(abi|ilp64)", "other ABIs of MPI: no caller here"),
    Row("impi-rt", r"data/lib/libmpifort", "bindings for Fortran"),
    Row("impi-rt", r"data/etc/conda/", "activation under conda"),
    Row("intel-openmp", r"data/lib/libomptarget", "offloading to GPUs: 135 MB"),
    Row("intel-openmp", r"data/opt/compiler/", "offloading and compiling"),
    Row(
        "intel-openmp", r"data/lib/(libarcher|libiomp5_db|libiompstubs5|.*\.(a|dbg)$|pkgconfig/)", "debugging, linking"
    ),
    Row("intel-cmplr-lib-ur", r"data/", "runtime of accelerators; the OpenMP for CPUs does not load it"),
    Row("umf", r"data/", "memory of accelerators"),
    Row("tcmlib", r"data/", "coordination with TBB; off unless TCM_ENABLE=1"),
    Row("intel-extension-for-pytorch", r".*\.a$", "static libraries: 13 MB"),
    Row("intel-extension-for-pytorch", r"[^/]+/bin/ipex_cpp_test$", "a test program"),
    Row("intel-extension-for-pytorch", r"[^/]+/opt/mpi/lib/libmpifort", "bindings for Fortran: 5 MB"),
    Row("oneccl-bind-pt", r"[^/]+/(opt/mpi/)?lib/libmpifort", "bindings for Fortran: 5 MB"),
    Row("pyarrow", r"pyarrow/(tests|include|src)/|.*\.(pxd|pyx)$", "tests and headers: 8 MB"),
    Row("pyarrow", r"pyarrow/(lib(arrow_flight|arrow_python_flight)|_?flight)", "remote tables: 28 MB"),
    Row("numpy", r"numpy/(.*/)?tests/", "tests"),
    Row("scipy", r"scipy/(.*/)?tests/", "tests"),
    Row("scikit-learn", r"sklearn/(.*/)?tests/", "tests"),
    Row("pandas", r"pandas/tests/", "tests"),
    Row("networkx", r"networkx/(.*/)?tests/", "tests"),
    Row("sympy", r"sympy/(.*/)?tests/", "tests"),
    Row("nltk", r"nltk/test/", "tests"),
    Row("lxml", r"lxml/includes/", "headers"),
)


def pattern(project: str) -> re.Pattern[str] | None:
    """Join the rows of a project to one pattern over its paths, or None."""
    rows = [f"(?:{row.pattern})" for row in TABLE if row.project == project]
    return re.compile("|".join(rows)) if rows else None
