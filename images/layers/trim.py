"""Which files and which bytecode are left out of the image, and why; --no-trim brings all of it back."""

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
    Row("py7zr", r"py7zr/", "archives of 7z"),
    Row("backports-zstd", r"backports/zstd/(tarfile|zipfile)", "archives"),
    Row("lxml", r"lxml/(?!__init__)", "the sets of sacrebleu's own commands"),
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
    Row(
        "torch",
        r"torch/_inductor/runtime/(?!(__init__|cache_dir_utils|compile_tasks|hints|runtime_utils)\.)|"
        r"torch/_dynamo/(repro/|backends/(debugging|distributed|onnxrt|tvm)|debug_utils|testing)|"
        r"torch/_functorch/(_activation_offloading/|compilers|fx_minifier|partitioners|"
        r"_aot_autograd/(aot_autograd_result|autograd_cache|graph_compile|streams))",
        "torch.compile",
    ),
    Row(
        "torch",
        r"torch/fx/(experimental/(accelerator_part|graph_gradual|migrate_gradual_types/|optimization|partitioner|"
        r"validator)|passes/tests/)|torch/jit/_shape_functions|torch/nested/_internal/(?!__init__|nested_)",
        "graphs of torch.fx and TorchScript, nested tensors",
    ),
    Row(
        "torch",
        r"torch/_export/(non_strict|pass_base)|torch/export/(_draft_export|_trace|_unlift|passes/|pt2_archive/_package)|"
        r"torch/onnx/_internal/(exporter/_(building|core|fx_passes|reporting|verification)|fx/passes/|"
        r"torchscript_exporter/symbolic_opset([78]|1[1-9]|2))",
        "export",
    ),
    Row(
        "torch",
        r"torch/distributed/((debug|flight_recorder)/|_symmetric_memory/(?!__init__)|"
        r"tensor/((debug|experimental)/(?!__init__)|_ops/strategy_validation))|torch/backends/(_nnapi|xeon)/(?!__init__)|"
        r"torch/_numpy/testing/|torch/ao/quantization/quantize_(fx|pt2e)|torch/nn/utils/prune|torch/utils/flop_counter|"
        r"torch/profiler/_pattern_matcher|torch/cuda/_sanitizer",
        "tools",
    ),
    Row("numpy", r"numpy/distutils/", "builds extensions"),
    Row(
        "scipy",
        r"scipy/((cluster|datasets|differentiate|fftpack|odr|signal)/|_lib/(cobyqa|pyprima|array_api_compat/(cupy|dask))/)",
        "beside statistics",
    ),
    Row(
        "scipy",
        r"scipy/(conftest|optimize/_tstutils|special/(_add_newdocs|_mptestutils|_precompute/|_testutils))",
        "tests",
    ),
    Row(
        "scikit-learn",
        r"sklearn/((cluster|compose|covariance|cross_decomposition|decomposition|ensemble|feature_selection|"
        r"gaussian_process|impute|inspection|manifold|mixture|neighbors|neural_network|semi_supervised|tree)/|"
        r"(calibration|discriminant_analysis|dummy|kernel_approximation|kernel_ridge|multiclass|multioutput|"
        r"naive_bayes|pipeline|random_projection)\.)",
        "models; the tasks have its metrics",
    ),
    Row("scikit-learn", r"sklearn/(conftest|utils/(_test|estimator_checks))", "tests"),
    Row("pandas", r"pandas/plotting/_matplotlib/", "plots"),
    Row(
        "pandas",
        r"pandas/(conftest|io/(clipboard/|formats/(css|excel|html|string|style|xml)|sas/sas[^r]))",
        "pages, SAS",
    ),
    Row(
        "fsspec",
        r"fsspec/(tests/|fuse|gui|implementations/(dask|dbfs|ftp|gist|git|github|http_sync|jupyter|libarchive|reference|"
        r"sftp|smb|webhdfs)\.)",
        "other file systems",
    ),
    Row("aiohttp", r"aiohttp/(pytest_plugin|test_utils|web|worker)", "servers"),
    Row("dill", r"dill/tests/", "tests"),
    Row("absl-py", r"absl/testing/", "tests"),
    Row("nltk", r"nltk/(app|draw)/", "windows"),
    Row("narwhals", r"narwhals/_(arrow|dask|duckdb|ibis|pandas_like|polars|spark_like)/", "frames of other libraries"),
    Row(
        "sympy",
        r"sympy/((benchmarks|categories|codegen|combinatorics|crypto|diffgeom|holonomic|liealgebras|physics|sandbox|"
        r"stats|testing|unify|vector|assumptions/handlers|tensor/array/expressions)/|parsing/(.*/|(?!__init__|sympy_p))|"
        r"integrals/(heurisch|intpoly|manualintegrate|prde|rde|risch)|logic/algorithms/(?!__init__)|matrices/common|"
        r"plotting/pygletplot/(?!__init__)|polys/(matrices/_dfm|modulargcd|numberfields/resolvent|subresultants)|"
        r"printing/(c|fortran)\.|tensor/tensor\.|utilities/(autowrap|codegen)|.*/benchmarks/)",
        "mathematics that no shape of a tensor needs",
    ),
    Row("pygments", r"pygments/(formatters|lexers|styles)/(?!__init__|_mapping)", "colours of source code"),
    Row("rich", r"rich/(_emoji_codes|_unicode_data/unicode)", "pictures in texts"),
    Row("markdown-it-py", r"markdown_it/", "texts in Markdown on a terminal"),
    Row("typer", r"typer/", "the commands hf and transformers"),
    Row("huggingface-hub", r"huggingface_hub/((cli|inference)/|_sandbox)", "the command hf, and served models"),
    Row("accelerate", r"accelerate/test_utils/", "test helpers"),
    Row("transformers", rf"transformers/models/(?!({MODELS})/)[^/]+/(?!__init__|configuration_)", "other models"),
    Row("transformers", r"transformers/models/.*/modular_", "what the other files of a model are made from"),
    Row("transformers", r"transformers/(cli|commands|exporters|kernels)/", "commands, other formats, GPUs"),
    Row(
        "transformers",
        r"transformers/(integrations/(bitnet|executorch|fbgemm_fp8|higgs|metal_quantization|mxfp4)|"
        r"model_debugging_utils|modeling_gguf_pytorch_utils|testing_utils|time_series_utils|tokenization_mistral_common|"
        r"utils/(attention_visualizer|network_logging|notebook)|vision_utils)",
        "other formats, tests, notebooks",
    ),
    Row("transformers", r"transformers/pipelines/(?!__init__|base|pt_utils)", "models at work"),
)


def pattern(project: str) -> re.Pattern[str] | None:
    """Join the rows of a project to one pattern over its paths, or None."""
    return _joined(project, TABLE)


def uncompiled(project: str, *, trimmed: bool) -> str:
    """Return a pattern over the modules of a project that get no bytecode; it may match none."""
    row = _joined(project, (*TABLE, *UNCOMPILED) if trimmed else ())
    return row.pattern if row else "(?!)"


def _joined(project: str, table: Iterable[Row]) -> re.Pattern[str] | None:
    rows = [f"(?:{row.pattern})" for row in table if row.project == project]
    return re.compile("|".join(rows)) if rows else None
