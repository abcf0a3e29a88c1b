"""What is left out of the image, files, symbols and bytecode, and why; --no-trim brings all of it back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """Files of one project that nobody needs: a pattern over paths as in the wheel, and the reason."""

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
    # Only a stack without oneCCL has this wheel: there mpirun starts processes, and gloo is what they talk by. The
    # generic tables stay, which Intel MPI falls back to, for a program of MPI that somebody brings.
    Row("impi-rt", r"data/opt/mpi/etc/tuning_(?!generic_)", "collectives of MPI, tuned for single processors: 24 MB"),
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
    Row("torch", r"torch/lib/lib(backend_with_compiler|jitbackend_test|torchbind_test)\.so$", "libraries of its tests"),
    Row("tqdm", r"images/", "pictures of its own page, as a package of this name"),
    Row("numpy", r"numpy/(.*/)?tests/", "tests"),
    Row("scipy", r"scipy/(.*/)?tests/", "tests"),
    Row("scikit-learn", r"sklearn/(.*/)?tests/", "tests"),
    Row("pandas", r"pandas/tests/", "tests"),
    Row("networkx", r"networkx/(.*/)?tests/", "tests"),
    Row("sympy", r"sympy/(.*/)?tests/", "tests"),
    Row("mpmath", r"mpmath/tests/", "tests"),
    Row("nltk", r"nltk/test/", "tests"),
    Row("joblib", r"joblib/test/", "tests"),
    Row("multiprocess", r"multiprocess/tests/", "tests"),
    Row("regex", r"regex/tests/", "tests"),
    Row("pycryptodomex", r"Cryptodome/SelfTest/", "tests"),
    Row("lxml", r"lxml/includes/", "headers"),
)

# Libraries that lose what only a debugger reads: 143 MB, of which 15 are pushed. The names that other libraries and
# compilers use stay. Those of Intel are left as they are: their licence has them passed on "without modification".
SYMBOLS = (
    Row("torch", r"torch/lib/.*\.so$", "names of functions within them: 98 MB"),
    Row("pyarrow", r"pyarrow/.*\.so[.0-9]*$", "names of functions within them: 23 MB"),
    Row("scipy", r"scipy/.*\.so$", "names of functions within them: 5 MB"),
    Row("brotli", r"_brotli\.", "debug information: 4 MB of 5"),
    Row("aiohttp", r"aiohttp/.*\.so$", "debug information: 5 MB"),
    Row("pyyaml", r"yaml/.*\.so$", "debug information: 2 MB"),
    Row("regex", r"regex/.*\.so$", "debug information: 2 MB"),
    Row("xxhash", r"xxhash/.*\.so$", "debug information: 1 MB"),
    Row("multidict", r"multidict/.*\.so$", "debug information: 1 MB"),
    Row("frozenlist", r"frozenlist/.*\.so$", "debug information: 1 MB"),
    Row("pycryptodomex", r"Cryptodome/.*\.so$", "debug information: 2 MB"),
)

# Families of models that text tasks are trained with; of the others only what every task reads keeps its bytecode.
MODELS = (
    "albert|auto|bart|barthez|bartpho|bert|bertweet|big_?bird.*|bloom|camembert|canine|deberta|deberta_v2|distilbert|"
    "electra|encoder_decoder|ernie|flaubert|fnet|funnel|gemma|gemma2|gemma3|gpt2|gpt_neo|gpt_neox|gptj|led|llama|"
    "longformer|longt5|luke|m2m_100|marian|mbart|mbart50|mistral|mobilebert|modernbert|mpnet|mt5|nllb|opt|pegasus|phi|"
    "phi3|qwen2|qwen3|rembert|roberta|roberta_prelayernorm|roformer|smollm3|squeezebert|t5|umt5|xglm|xlm|xlm_roberta|"
    "xlm_roberta_xl|xlnet"
)
# Modules that neither the tasks nor the launchers import. They stay, and Python compiles one when somebody imports it.
UNCOMPILED = (
    Row("pip", r"pip/", "a command for derived images"),
    Row("setuptools", r"setuptools/|pkg_resources/", "builds packages"),
    Row("networkx", r"networkx/", "torch.compile, and torch.fx where it partitions"),
    Row("pycryptodomex", r"Cryptodome/", "archives of 7z with a password"),
    Row(
        "torch",
        r"torch/_inductor/(?!analysis/|runtime/|(__init__|_functionalize_collectives|config|cpp_builder|cpu_vec_isa|"
        r"cudagraph_utils|custom_graph_pass|exc|standalone_compile|test_operators|utils)\.py$)",
        "torch.compile, which wants a compiler: the image has none",
    ),
    Row(
        "torch",
        r"torch/testing/_internal/(?!__init__|common_dtype|logging_tensor|distributed/(__init__|fake_pg))",
        "test helpers",
    ),
    Row("torch", r"torch/_vendor/(?!__init__|packaging/)|torch/sparse/_triton", "kernels for GPUs"),
    Row("torch", r"torch/_export/(db|passes|serde|converter)|torch/distributed/(_tools|optim|pipelining)/", "export"),
    Row("torch", r"torch/ao/(ns|pruning|quantization/[^/]+)/|torch/utils/(benchmark|hipify|tensorboard)/", "tools"),
    Row("torch", r"torch/utils/cpp_ext|functorch/|torchgen/(?!(__init__|code_template|model|utils)\.)", "generators"),
    Row("numpy", r"numpy/distutils/", "builds extensions"),
    Row("scipy", r"scipy/((cluster|datasets|fftpack|odr|signal)/|_lib/(cobyqa|pyprima)/)", "beside statistics"),
    Row(
        "scikit-learn",
        r"sklearn/(cluster|covariance|decomposition|ensemble|feature_selection|gaussian_process|impute|inspection|"
        r"manifold|neighbors|neural_network|tree)/",
        "models; the tasks have its metrics",
    ),
    Row("pandas", r"pandas/plotting/_matplotlib/", "plots"),
    Row("nltk", r"nltk/(app|draw)/", "windows"),
    Row("narwhals", r"narwhals/_(arrow|dask|duckdb|ibis|pandas_like|polars|spark_like)/", "frames of other libraries"),
    Row(
        "sympy",
        r"sympy/((benchmarks|categories|codegen|combinatorics|crypto|diffgeom|holonomic|liealgebras|physics|sandbox|"
        r"stats|testing|unify|vector)/|parsing/.*/|.*/benchmarks/)",
        "mathematics that no shape of a tensor needs",
    ),
    Row("pygments", r"pygments/(formatters|lexers|styles)/(?!__init__|_mapping)", "colours of source code"),
    Row("huggingface-hub", r"huggingface_hub/(cli|inference)/", "the command hf, and served models"),
    Row("accelerate", r"accelerate/test_utils/", "test helpers"),
    Row("transformers", rf"transformers/models/(?!({MODELS})/)[^/]+/(?!__init__|configuration_)", "other models"),
    Row("transformers", r"transformers/(cli|commands|exporters|kernels)/", "commands, other formats, GPUs"),
    Row("transformers", r"transformers/pipelines/(?!__init__|base|pt_utils)", "models at work"),
)


def pattern(project: str) -> re.Pattern[str] | None:
    """Join the rows of a project to one pattern over its paths, or None."""
    return _joined(project, TABLE)


def symbols(project: str) -> re.Pattern[str] | None:
    """Join the rows of a project to one pattern over the libraries that lose their symbols, or None."""
    return _joined(project, SYMBOLS)


def uncompiled(project: str, *, trimmed: bool) -> str:
    """Return a pattern over the modules of a project that get no bytecode; it may match none."""
    row = _joined(project, (*TABLE, *UNCOMPILED) if trimmed else ())
    return row.pattern if row else "(?!)"


def _joined(project: str, table: Iterable[Row]) -> re.Pattern[str] | None:
    rows = [f"(?:{row.pattern})" for row in table if row.project == project]
    return re.compile("|".join(rows)) if rows else None
