"""Which files of wheels are left out of the image, and why; --no-trim brings all of them back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from images.content import Content

# Projects, and of each the patterns over paths as in its wheel, with the reason why nobody needs what they match.
Table = Mapping[str, Mapping[str, str]]
Patterns = Mapping[str, re.Pattern[str]]  # by project, what the paths of its files match

TABLE: Table = {
    "torch": {
        r"torch/test/": "test programs: 86 MB",
        r"torch/bin/(?!torch_shm_manager$)": "test and code-generation programs: 52 MB",
        r".*\.(a|lib)$": "static libraries",
        r"torch/lib/lib(backend_with_compiler|jitbackend_test|torchbind_test)\.so$": "libraries of its tests",
    },
    "impi-rt": {
        r"data/bin/(IMB-|(impi_)?cpuinfo$)": "benchmark programs: 14 MB",
        r"data/(bin/mpitune_fast$|opt/mpi/tune_fast/)": "the tuner: 20 MB",
        r"data/lib/(libmpcp|mpi/libmpi_ze_hooks)": "copies between GPUs: 62 MB",
        r"data/opt/mpi/etc/(coll\.fatbin|.*\.spv)$": "programs for GPUs",
        # Only a stack without oneCCL has this wheel: there mpirun starts processes, and gloo is what they talk by. The
        # generic tables stay, which Intel MPI falls back to, for a program of MPI that somebody brings.
        r"data/opt/mpi/etc/tuning_(?!generic_)": "collectives of MPI, tuned for single processors: 24 MB",
        r"data/(share/java/|lib/libmpijava)": "bindings for Java",
        r"data/lib/libmpi(fort)?_(abi|ilp64)": "other ABIs of MPI: no caller here",
        r"data/lib/libmpifort": "bindings for Fortran",
        r"data/etc/conda/": "activation under conda",
    },
    "mpich": {
        r"data/(include|share)/|data/bin/mpi(cc|cxx|c\+\+|fort|f77|f90)": "compiling and linking",
        r"data/lib/libmpi_abi": "another ABI of MPI: no caller here",
        r"data/bin/mpiexec\.gforker$": "starts ranks on one node only, as hydra does",
    },
    "intel-openmp": {
        r"data/lib/libomptarget": "offloading to GPUs: 135 MB",
        r"data/opt/compiler/": "offloading and compiling",
        r"data/lib/(libarcher|libiomp5_db|libiompstubs5|.*\.(a|dbg)$|pkgconfig/)": "debugging, linking",
    },
    "intel-cmplr-lib-ur": {r"data/": "runtime of accelerators; the OpenMP for CPUs does not load it"},
    "umf": {r"data/": "memory of accelerators"},
    "tcmlib": {r"data/": "coordination with TBB; off unless TCM_ENABLE=1"},
    "intel-extension-for-pytorch": {
        r".*\.a$": "static libraries: 13 MB",
        r"[^/]+/bin/ipex_cpp_test$": "a test program",
        r"[^/]+/opt/mpi/lib/libmpifort": "bindings for Fortran: 5 MB",
    },
    "oneccl-bind-pt": {r"[^/]+/(opt/mpi/)?lib/libmpifort": "bindings for Fortran: 5 MB"},
    "pyarrow": {
        r"pyarrow/(tests|include|src)/|.*\.(pxd|pyx)$": "tests and headers: 8 MB",
        r"pyarrow/(lib(arrow_flight|arrow_python_flight)|_?flight)": "remote tables: 28 MB",
    },
    "tqdm": {r"images/": "pictures of its own page, as a package of this name"},
    "numpy": {r"numpy/(.*/)?tests/": "tests"},
    "scipy": {r"scipy/(.*/)?tests/": "tests"},
    "scikit-learn": {r"sklearn/(.*/)?tests/": "tests"},
    "pandas": {r"pandas/tests/": "tests"},
    "networkx": {r"networkx/(.*/)?tests/": "tests"},
    "sympy": {r"sympy/(.*/)?tests/": "tests"},
    "mpmath": {r"mpmath/tests/": "tests"},
    "nltk": {r"nltk/test/": "tests"},
    "joblib": {r"joblib/test/": "tests"},
    "multiprocess": {r"multiprocess/tests/": "tests"},
    "regex": {r"regex/tests/": "tests"},
    "pycryptodomex": {r"Cryptodome/SelfTest/": "tests"},
    "lxml": {r"lxml/includes/": "headers"},
}


def trimmed_pattern(project: str, options: Content, stay: Sequence[str] = ()) -> re.Pattern[str]:
    """Return what the paths of a project's files match that are left out; it may match none.

    The files at the paths `stay` are not left out: something imports them.
    """
    pattern = join_patterns(TABLE.get(project, {}) if options.trim else {})
    kept = "|".join(map(re.escape, stay))
    return re.compile(f"(?!(?:{kept})$)(?:{pattern.pattern})") if stay else pattern


def join_patterns(patterns: Iterable[str]) -> re.Pattern[str]:
    """Join patterns to one that matches what any of them does."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or "(?!)")
