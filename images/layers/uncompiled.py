"""Which modules get no bytecode, and why: Python compiles one when somebody imports it; --no-trim compiles all."""

from __future__ import annotations

from images.content import Content
from images.layers import trim
from images.layers.trim import Patterns, Table

# Families of models that text tasks are trained with; of the others only what every task reads keeps its bytecode.
MODELS = (
    "albert|auto|bart|barthez|bartpho|bert|bertweet|big_?bird.*|bloom|camembert|canine|deberta|deberta_v2|distilbert|"
    "electra|encoder_decoder|ernie|flaubert|fnet|funnel|gemma|gemma2|gemma3|gpt2|gpt_neo|gpt_neox|gptj|led|llama|"
    "longformer|longt5|luke|m2m_100|marian|mbart|mbart50|mistral|mobilebert|modernbert|mpnet|mt5|nllb|opt|pegasus|phi|"
    "phi3|qwen2|qwen3|rembert|roberta|roberta_prelayernorm|roformer|smollm3|squeezebert|t5|umt5|xglm|xlm|xlm_roberta|"
    "xlm_roberta_xl|xlnet"
)
# Modules that neither the tasks nor the launchers import. They stay, and Python compiles one when somebody imports it.
TABLE: Table = {
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
    rows = TABLE if options.trim else {}
    return {name: trim.join_patterns((one.pattern, *rows.get(name, ()))) for name, one in left_out.items()}
