"""Flags of the Trainer and of the example scripts by release of transformers, as tables."""

from __future__ import annotations

from typing import NamedTuple

# Where a row says nothing of a release: it was always there, or it is still there.
ALWAYS, STILL = (0, 0), (1 << 30, 0)
CCL_DROPPED = (5, 1)
# A value that is a number between 0 and 1.
SHARE = "0.*"


class Era(NamedTuple):
    """A flag, the releases [since, until) of transformers that know it, and what replaces it in others.

    `instead` is another flag, which takes over the value; `flag=value`, if the flag was on; `$NAME` or `$NAME=value`,
    a variable of the environment; or nothing, where nothing is lost by leaving the flag out. lacking: what it needs and
    only images with oneCCL have; empty for nothing.
    """

    name: str
    since: tuple[int, int]
    until: tuple[int, int]
    instead: str = ""
    lacking: str = ""


class Choice(NamedTuple):
    """One value of a flag, the releases that know it, what replaces it in others, and what it may lack, as in Era.

    why: the reason for another value, where that is not the release of transformers.
    """

    name: str
    value: str
    since: tuple[int, int]
    until: tuple[int, int]
    instead: str = ""
    why: str = ""
    lacking: str = ""


class Table(NamedTuple):
    """The flags, and values of flags, that a kind of script knows; if both are empty, its flags stay as typed."""

    eras: tuple[Era, ...] = ()
    choices: tuple[Choice, ...] = ()


# Of semantic segmentation, with the Trainer and without: huggingface/transformers#30799 and #43195.
LABELS = (
    Era("reduce_labels", ALWAYS, (5, 0), "do_reduce_labels"),
    Era("do_reduce_labels", (4, 42), STILL, "reduce_labels"),
)

# Read from the wheels of all minor releases from 4.30 to 5.23: the fields of transformers/training_args.py; and, for
# the flags of the scripts, from examples/pytorch at the commits of huggingface/transformers where 4.30 to 4.57
# branched off, and from its history after that. tests/image/test_flags.py holds this against the wheels.
#
# Not here, so that the script itself refuses them, because the training would be another one without them:
# past_index, fsdp_min_num_params, fsdp_transformer_layer_cls_to_wrap, sharded_ddp, tp_size, dispatch_batches,
# split_batches and push_to_hub_organization, which have gone, and whatever is only newer than the installed release.
ERAS = (
    Era("no_cuda", ALWAYS, (5, 0), "use_cpu"),
    Era("use_cpu", (4, 32), STILL, "no_cuda"),
    Era("use_mps_device", ALWAYS, (5, 0)),
    Era("evaluation_strategy", ALWAYS, (4, 51), "eval_strategy"),
    Era("eval_strategy", (4, 41), STILL, "evaluation_strategy"),
    Era("xpu_backend", ALWAYS, (4, 32), "ddp_backend"),
    Era("use_ipex", ALWAYS, (4, 57), lacking="IPEX"),
    Era("jit_mode_eval", ALWAYS, (5, 0)),
    Era("torchdynamo", ALWAYS, (5, 0), "torch_compile_backend"),
    Era("fp16_backend", ALWAYS, (5, 0)),
    Era("fp16_opt_level", ALWAYS, (5, 0)),
    Era("half_precision_backend", ALWAYS, (5, 0)),
    Era("adafactor", ALWAYS, (5, 0), "optim=adafactor"),
    Era("activation_checkpointing", (5, 23), STILL, "gradient_checkpointing"),
    Era("activation_checkpointing_kwargs", (5, 23), STILL, "gradient_checkpointing_kwargs"),
    Era("per_gpu_train_batch_size", ALWAYS, (5, 0), "per_device_train_batch_size"),
    Era("per_gpu_eval_batch_size", ALWAYS, (5, 0), "per_device_eval_batch_size"),
    Era("group_by_length", ALWAYS, (5, 2), "train_sampling_strategy=group_by_length"),
    # From 5.0 on, a number of steps below 1 is a share of all steps.
    Era("warmup_ratio", ALWAYS, (5, 15), "warmup_steps"),
    Era("dataloader_persistent_workers", (4, 36), STILL),
    Era("dataloader_prefetch_factor", (4, 38), STILL),
    Era("torch_empty_cache_steps", (4, 43), STILL),
    Era("use_legacy_prediction_loop", ALWAYS, (5, 0)),
    Era("include_inputs_for_metrics", ALWAYS, (5, 0), "include_for_metrics=inputs"),
    Era("include_tokens_per_second", (4, 34), (5, 0)),
    Era("logging_dir", ALWAYS, (5, 15), "$TENSORBOARD_LOGGING_DIR"),
    Era("overwrite_output_dir", ALWAYS, (5, 0)),
    # Weights are always saved as safetensors since.
    Era("save_safetensors", ALWAYS, (5, 0)),
    Era("no_save_safetensors", ALWAYS, (5, 0)),
    Era("push_to_hub_token", ALWAYS, (5, 0), "hub_token"),
    Era("push_to_hub_model_id", ALWAYS, (5, 0), "hub_model_id"),
    Era("tpu_num_cores", ALWAYS, (5, 0)),
    Era("tpu_metrics_debug", ALWAYS, (5, 0)),
    Era("ray_scope", ALWAYS, (5, 0)),
    Era("mp_parameters", ALWAYS, (5, 0)),
    # Of the scripts. A token that is logged in with, or in HF_TOKEN, is found without a flag.
    Era("use_auth_token", ALWAYS, (4, 41)),
    Era("low_cpu_mem_usage", ALWAYS, (4, 53)),
    Era("torch_dtype", ALWAYS, (4, 56), "dtype"),
    Era("dtype", (4, 56), STILL, "torch_dtype"),
    *LABELS,
    # It warned, or raised an error beside a feature encoder that is not frozen (huggingface/transformers#41681).
    Era("freeze_feature_extractor", ALWAYS, (5, 0)),
)

CHOICES = (
    Choice("ddp_backend", "ccl", ALWAYS, CCL_DROPPED, "ddp_backend=gloo", lacking="oneCCL bindings"),
    Choice("xpu_backend", "ccl", ALWAYS, CCL_DROPPED, "xpu_backend=gloo", lacking="oneCCL bindings"),
    Choice("optim", "adamw_hf", ALWAYS, (4, 50), "optim=adamw_torch"),
    Choice("warmup_steps", SHARE, (5, 0), STILL, "warmup_ratio"),
    Choice("train_sampling_strategy", "group_by_length", (5, 2), STILL, "group_by_length=True"),
    Choice("train_sampling_strategy", "random", (5, 2), STILL),
    Choice("include_for_metrics", "inputs", (4, 46), STILL, "include_inputs_for_metrics=True"),
)

# Data sets that the hub has moved to their owners, and to which it redirects. From huggingface_hub 1.16 on, `datasets`
# finds none without an owner (huggingface/datasets#8612); transformers 5 is the first that takes a 1.x.
OWNERS = {
    "ag_news": "fancyzhx", "beans": "AI-Lab-Makerere", "cifar10": "uoft-cs", "cnn_dailymail": "abisee",
    "cppe-5": "rishitdagli", "glue": "nyu-mll", "imdb": "stanfordnlp", "librispeech_asr": "openslr", "mnist": "ylecun",
    "squad": "rajpurkar", "squad_v2": "rajpurkar", "swag": "allenai", "wikitext": "Salesforce", "wmt16": "wmt",
    "xnli": "facebook",
}  # fmt: skip
MOVED = tuple(
    Choice("dataset_name", name, ALWAYS, (5, 0), f"dataset_name={owner}/{name}",
           "datasets finds no data set without its owner since huggingface_hub 1.16")
    for name, owner in OWNERS.items()
)  # fmt: skip

# Scripts without the Trainer have none of its flags: accelerate reads the environment, and such a script always trains
# and evaluates (examples/pytorch/*/run_*_no_trainer.py).
WITHOUT_TRAINER = (
    Era("bf16", STILL, STILL, "$ACCELERATE_MIXED_PRECISION=bf16"),
    Era("fp16", STILL, STILL, "$ACCELERATE_MIXED_PRECISION=fp16"),
    Era("use_cpu", STILL, STILL),
    Era("no_cuda", STILL, STILL),
    Era("do_train", STILL, STILL),
    Era("do_eval", STILL, STILL),
    Era("ddp_backend", STILL, STILL),
    Era("use_ipex", STILL, STILL),
    Era("overwrite_output_dir", STILL, STILL),
    Era("max_steps", STILL, STILL, "max_train_steps"),
    Era("warmup_steps", STILL, STILL, "num_warmup_steps"),
    Era("use_auth_token", STILL, STILL),
    Era("low_cpu_mem_usage", ALWAYS, (4, 53)),
    *LABELS,
)

OF_TRAINER, OF_ACCELERATE = Table(ERAS, (*CHOICES, *MOVED)), Table(WITHOUT_TRAINER, MOVED)
