"""Which files of wheels are left out, which modules get no bytecode, and why; what stays, for others import it."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from images.content import Content
from images.context import Context
from images.foreign import libraries
from images.host.background import side_by_side
from images.store.store import Store
from images.wheels import archive, imports
from images.wheels.archive import Wheel
from images.wheels.imports import Import

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


# Which modules get no bytecode, and why: Python compiles one when somebody imports it; --no-trim compiles all.

# Families of models that text tasks are trained with; of the others only what every task reads keeps its bytecode.
MODELS = (
    "albert|auto|bart|barthez|bartpho|bert|bertweet|big_?bird.*|bloom|camembert|canine|deberta|deberta_v2|distilbert|"
    "electra|encoder_decoder|ernie|flaubert|fnet|funnel|gemma|gemma2|gemma3|gpt2|gpt_neo|gpt_neox|gptj|led|llama|"
    "longformer|longt5|luke|m2m_100|marian|mbart|mbart50|mistral|mobilebert|modernbert|mpnet|mt5|nllb|opt|pegasus|phi|"
    "phi3|qwen2|qwen3|rembert|roberta|roberta_prelayernorm|roformer|smollm3|squeezebert|t5|umt5|xglm|xlm|xlm_roberta|"
    "xlm_roberta_xl|xlnet"
)
# Modules that neither the tasks nor the launchers import. They stay, and Python compiles one when somebody imports it.
UNCOMPILED: Table = {
    "pip": {r"pip/": "a command for derived images"},
    "setuptools": {r"setuptools/|pkg_resources/": "builds packages"},
    "networkx": {r"networkx/": "torch.compile, and torch.fx where it partitions"},
    "pycryptodomex": {r"Cryptodome/": "archives of 7z with a password"},
    "py7zr": {r"py7zr/": "archives of 7z"},
    "backports-zstd": {r"backports/zstd/(tarfile|zipfile)": "archives"},
    "lxml": {r"lxml/(?!__init__)": "the sets of sacrebleu's own commands"},
    "torch": {
        r"torch/_inductor/(?!analysis/|runtime/|(__init__|_functionalize_collectives|config|cpp_builder|cpu_vec_isa|"
        r"cudagraph_utils|custom_graph_pass|exc|standalone_compile|test_operators|"
        r"utils)\.py$)": "torch.compile, which wants a compiler: the image has none",
        r"torch/testing/_internal/(?!__init__|common_dtype|logging_tensor|"
        r"distributed/(__init__|fake_pg))": "test helpers",
        r"torch/_vendor/(?!__init__|packaging/)|torch/sparse/_triton": "kernels for GPUs",
        r"torch/_export/(db|passes|serde|converter)|torch/distributed/(_tools|optim|pipelining)/": "export",
        r"torch/ao/(ns|pruning|quantization/[^/]+)/|torch/utils/(benchmark|hipify|tensorboard)/": "tools",
        r"torch/utils/cpp_ext|functorch/|torchgen/(?!(__init__|code_template|model|utils)\.)": "generators",
        r"torch/_inductor/runtime/(?!(__init__|cache_dir_utils|compile_tasks|hints|runtime_utils)\.)": "torch.compile",
        r"torch/_dynamo/(repro/|backends/(debugging|distributed|onnxrt|tvm)|debug_utils|testing)": "torch.compile",
        r"torch/_functorch/(_activation_offloading/|compilers|fx_minifier|partitioners|"
        r"_aot_autograd/(aot_autograd_result|autograd_cache|graph_compile|streams))": "torch.compile",
        r"torch/fx/(experimental/(accelerator_part|graph_gradual|migrate_gradual_types/|optimization|partitioner|"
        r"validator)|passes/tests/)": "graphs of torch.fx",
        r"torch/jit/_shape_functions": "graphs of TorchScript",
        r"torch/nested/_internal/(?!__init__|nested_)": "nested tensors",
        r"torch/_export/(non_strict|pass_base)": "export",
        r"torch/export/(_draft_export|_trace|_unlift|passes/|pt2_archive/_package)": "export",
        r"torch/onnx/_internal/(exporter/_(building|core|fx_passes|reporting|verification)|fx/passes/|"
        r"torchscript_exporter/symbolic_opset([78]|1[1-9]|2))": "export",
        r"torch/distributed/((debug|flight_recorder)/|_symmetric_memory/(?!__init__)|"
        r"tensor/((debug|experimental)/(?!__init__)|_ops/strategy_validation))": "tools",
        r"torch/backends/(_nnapi|xeon)/(?!__init__)": "tools",
        r"torch/ao/quantization/quantize_(fx|pt2e)|torch/nn/utils/prune": "tools",
        r"torch/_numpy/testing/|torch/utils/flop_counter": "tools",
        r"torch/profiler/_pattern_matcher|torch/cuda/_sanitizer": "tools",
    },
    "numpy": {r"numpy/distutils/": "builds extensions"},
    "scipy": {
        r"scipy/((cluster|datasets|differentiate|fftpack|odr|signal)/|"
        r"_lib/(cobyqa|pyprima|array_api_compat/(cupy|dask))/)": "beside statistics",
        r"scipy/(conftest|optimize/_tstutils|special/(_add_newdocs|_mptestutils|_precompute/|_testutils))": "tests",
    },
    "scikit-learn": {
        r"sklearn/((cluster|compose|covariance|cross_decomposition|decomposition|ensemble|feature_selection|"
        r"gaussian_process|impute|inspection|manifold|mixture|neighbors|neural_network|semi_supervised|tree)/|"
        r"(calibration|discriminant_analysis|dummy|kernel_approximation|kernel_ridge|multiclass|multioutput|"
        r"naive_bayes|pipeline|random_projection)\.)": "models; the tasks have its metrics",
        r"sklearn/(conftest|utils/(_test|estimator_checks))": "tests",
    },
    "pandas": {
        r"pandas/plotting/_matplotlib/": "plots",
        r"pandas/(conftest|io/(clipboard/|formats/(css|excel|html|string|style|xml)|sas/sas[^r]))": "pages, SAS",
    },
    "fsspec": {
        r"fsspec/(tests/|fuse|gui|implementations/(dask|dbfs|ftp|gist|git|github|http_sync|jupyter|libarchive|reference|"
        r"sftp|smb|webhdfs)\.)": "other file systems",
    },
    "aiohttp": {r"aiohttp/(pytest_plugin|test_utils|web|worker)": "servers"},
    "dill": {r"dill/tests/": "tests"},
    "absl-py": {r"absl/testing/": "tests"},
    "nltk": {r"nltk/(app|draw)/": "windows"},
    "narwhals": {r"narwhals/_(arrow|dask|duckdb|ibis|pandas_like|polars|spark_like)/": "frames of other libraries"},
    "sympy": {
        r"sympy/((benchmarks|categories|codegen|combinatorics|crypto|diffgeom|holonomic|liealgebras|physics|sandbox|"
        r"stats|testing|unify|vector|assumptions/handlers|tensor/array/expressions)/|parsing/(.*/|(?!__init__|sympy_p))|"
        r"integrals/(heurisch|intpoly|manualintegrate|prde|rde|risch)|logic/algorithms/(?!__init__)|matrices/common|"
        r"plotting/pygletplot/(?!__init__)|polys/(matrices/_dfm|modulargcd|numberfields/resolvent|subresultants)|"
        r"printing/(c|fortran)\.|tensor/tensor\.|utilities/(autowrap|codegen)|"
        r".*/benchmarks/)": "mathematics that no shape of a tensor needs",
    },
    "pygments": {r"pygments/(formatters|lexers|styles)/(?!__init__|_mapping)": "colours of source code"},
    "rich": {r"rich/(_emoji_codes|_unicode_data/unicode)": "pictures in texts"},
    "markdown-it-py": {r"markdown_it/": "texts in Markdown on a terminal"},
    "typer": {r"typer/": "the commands hf and transformers"},
    "huggingface-hub": {r"huggingface_hub/((cli|inference)/|_sandbox)": "the command hf, and served models"},
    "accelerate": {r"accelerate/test_utils/": "test helpers"},
    "transformers": {
        rf"transformers/models/(?!({MODELS})/)[^/]+/(?!__init__|configuration_)": "other models",
        r"transformers/models/.*/modular_": "what the other files of a model are made from",
        r"transformers/(cli|commands|exporters|kernels)/": "commands, other formats, GPUs",
        r"transformers/(integrations/(bitnet|executorch|fbgemm_fp8|higgs|metal_quantization|mxfp4)|"
        r"model_debugging_utils|modeling_gguf_pytorch_utils|testing_utils|time_series_utils|tokenization_mistral_common|"
        r"utils/(attention_visualizer|network_logging|notebook)|vision_utils)": "other formats, tests, notebooks",
        r"transformers/pipelines/(?!__init__|base|pt_utils)": "models at work",
    },
}


def uncompiled_patterns(left_out: Patterns, options: Content) -> Patterns:
    """Return what the modules of each project match that get no bytecode: those that are `left_out`, too."""
    rows = UNCOMPILED if options.trim else {}
    return {name: join_patterns((one.pattern, *rows.get(name, ()))) for name, one in left_out.items()}


# What stays of the files that trim.TABLE names: what other modules of the image import, in whichever release.

# Modules whose imports are no reason to keep what is imported: pytest's own, and programs that make tables for tests.
ASIDE = re.compile(r"(?:.*/)?conftest\.py|scipy/special/_precompute/")
# In what Python says: names, and the name that a package should have and has not.
WORD, NO_NAME_IN = re.compile(r"[\w./+-]+"), re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
AT_ONCE = 2  # wheels: inflating is half of the work


class Candidate(NamedTuple):
    """A module that is left out unless another one imports it: its wheel, and its path in the site."""

    wheel: Wheel
    path: str


def choose_left_out(wheels: Sequence[Wheel], options: Content, context: Context) -> Patterns:
    """Return what is left out of each wheel: what the table names, but for what a module of any wheel imports."""
    named = {wheel.project: trimmed_pattern(wheel.project, options) for wheel in wheels}
    inputs = [[wheel.sha256, wheel.path.name, named[wheel.project].pattern] for wheel in wheels]
    needed = context.store.cached("needed", inputs, lambda: _find_needed(wheels, named, context)).value
    return {project: trimmed_pattern(project, options, needed.get(project, ())) for project in named}


def find_left_out(said: str, wheels: Sequence[Wheel], left_out: Patterns) -> str | None:
    """Return a file that was left out and is in what Python said of an import, as a module, a library or a path."""
    words = {word.rstrip(".") for word in WORD.findall(said)}
    words |= {f"{package}.{name}" for name, package in NO_NAME_IN.findall(said)}
    for wheel in wheels:
        pattern = left_out[wheel.project]
        for path in map(archive.path_in_scheme, _list_left_out(wheel, pattern)):
            library = {posixpath.basename(path)} if ".so" in path else set()
            if words & {*_modules(path, pattern), *library} or any(word.endswith(f"/{path}") for word in words):
                return path
    return None


def _modules(path: str, left_out: re.Pattern[str]) -> Iterator[str]:
    """Yield the packages that are left out with a file, the highest first, and what it is imported as itself."""
    parts = path.split("/")
    for n in range(1, len(parts)):
        if left_out.match("/".join([*parts[:n], ""])):
            yield ".".join(parts[:n])
    yield imports.dotted_name(path) or path


def _list_left_out(wheel: Wheel, pattern: re.Pattern[str]) -> list[str]:
    with archive.open_wheel(wheel.path) as opened:
        return [name for name in opened.members if pattern.match(archive.path_in_scheme(name))]


def _find_needed(wheels: Sequence[Wheel], left_out: Patterns, context: Context) -> dict[str, list[str]]:
    """Return the paths of the files that stay, by project."""
    candidates = dict(_list_candidates(wheels, left_out))
    ahead = _list_imported(wheels, left_out, candidates, context)
    stay: dict[str, set[str]] = {}
    seen = set[str]()
    while ahead:
        if (module := ahead.pop()) not in seen:
            seen.add(module)
            files, imported = _read_candidate(candidates[module], left_out)
            stay.setdefault(candidates[module].wheel.project, set()).update(files)
            ahead += [other for name in imported for other in _loaded(name, candidates)]
    return {project: sorted(paths) for project, paths in stay.items()}


def _list_candidates(wheels: Sequence[Wheel], left_out: Patterns) -> Iterator[tuple[str, Candidate]]:
    for wheel in wheels:
        for path in filter(None, map(archive.site_path, _list_left_out(wheel, left_out[wheel.project]))):
            if module := imports.dotted_name(path):
                yield module, Candidate(wheel, path)


def _list_imported(
    wheels: Sequence[Wheel], left_out: Patterns, candidates: Mapping[str, Candidate], context: Context
) -> list[str]:
    """List the candidates that modules of the image import.

    A function of a package that imports what is left out of that package runs its tests, and is no reason.
    """
    # What an import from outside has in it: the last part of the highest name that is left out.
    highest = {next(_modules(path, left_out[wheel.project])) for wheel, path in candidates.values()}
    words = sorted({name.rpartition(".")[2] for name in highest})
    tasks = [partial(_read_imports, wheel, left_out[wheel.project], words, context.store) for wheel in wheels]
    read = side_by_side(context.progress, "reading imports", tasks, AT_ONCE) if words else ()
    return [
        module
        for wheel, imported in zip(wheels, read, strict=False)
        for one in imported
        for module in _loaded(one.module, candidates)
        if not (one.deferred and candidates[module].wheel == wheel)
    ]


def _read_imports(wheel: Wheel, left_out: re.Pattern[str], words: Sequence[str], store: Store) -> list[Import]:
    def is_kept(path: str) -> bool:
        return not left_out.match(path) and not ASIDE.match(path)

    inputs = [wheel.sha256, left_out.pattern, words]
    rows = store.cached("imports", inputs, lambda: imports.list_imports(wheel.path, is_kept, words)).value
    return [Import(*row) for row in rows]


def _loaded(name: str, candidates: Collection[str]) -> Iterator[str]:
    """Yield the candidates that the import of a name loads: its own, those above it, and of * all directly below."""
    parts = name.split(".")
    yield from (module for n in range(len(parts)) if (module := ".".join(parts[: n + 1])) in candidates)
    if parts[-1] == "*":
        package = ".".join(parts[:-1])
        yield from (module for module in candidates if module.rpartition(".")[0] == package)


def _read_candidate(candidate: Candidate, left_out: Patterns) -> tuple[list[str], list[str]]:
    """Return what comes with a module: paths of its wheel, which a compiled one may be linked to, and its imports."""
    wheel, path = candidate
    with archive.open_wheel(wheel.path) as opened:
        files = {archive.path_in_scheme(name): member for name, member in opened.members.items()}
        if path.endswith(".py"):
            text = files[path].read().decode(errors="replace")
            return [path], [one.module for one in imports.parse_imports(text, path)]
        ahead, linked = [path], dict.fromkeys([path])
        trimmed = {posixpath.basename(name): name for name in files if left_out[wheel.project].match(name)}
        while ahead:
            needs = libraries.list_needed(io.BytesIO(files[ahead.pop()].read()))
            new = [name for need in needs if (name := trimmed.get(need)) and name not in linked]
            ahead += new
            linked |= dict.fromkeys(new)
        return [*linked], []
