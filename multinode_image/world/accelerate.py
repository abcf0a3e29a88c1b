"""`accelerate launch`: its options and its configuration, by which it may be asked for several processes on a CPU."""

from __future__ import annotations

import re
from collections.abc import Mapping

from multinode_image.errors import Refusal
from multinode_image.machine.files import Files
from multinode_image.world.torchrun import HELP_FLAGS, MODULE_FLAGS

# By which `accelerate launch` may start several processes on a CPU (accelerate/commands/launch.py, launch_command), how
# many are asked for, and its usual options without a value.
KINDS = ("--multi_gpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--tpu")
CONFIG, HOSTFILE = "--config_file", "--mpirun_hostfile"
SEVERAL = (*KINDS, HOSTFILE)
COUNTS = ("--num_processes", "--num_machines")
# What its configuration calls kinds of which a CPU has one process.
SINGLE = ("", "NO", "MULTI_CPU")
FLAGS = (*HELP_FLAGS, *MODULE_FLAGS, *KINDS, "--cpu", "--debug", "-q", "--quiet")


def may_start_several(typed: Mapping[str, str]) -> bool:
    """Return whether the options of accelerate, or a file that they name, may start several processes."""
    return not typed.keys().isdisjoint({*SEVERAL, CONFIG})


def find_config(typed: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the file of `accelerate config` that counts, if it exists (accelerate/commands/config/config_args.py)."""
    cache = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '')}/.cache"
    usual = f"{environ.get('HF_HOME') or f'{cache}/huggingface'}/accelerate/default_config.yaml"
    return typed.get(CONFIG) or ("" if "--cpu" in typed else usual)


def read_config(text: str, name: str) -> str:
    """Return what a file of `accelerate config` says, in a row of YAML or JSON; what is not understood is no number."""
    row = re.search(rf"^\s*[\"']?{name}[\"']?\s*:(.*)$", text, re.MULTILINE)
    return row.group(1).strip(" ,\"'") if row else "unknown" if name in text else ""


def check_process_count(typed: Mapping[str, str], environ: Mapping[str, str], read: Files) -> None:
    """Raise Refusal for `accelerate launch` with several processes on a CPU: it starts one, and each trains alone.

    They may also be those of its configuration. typed: its options with their values; read: returns the text of a file.
    """
    path = find_config(typed, environ)
    config = (read(path) if path else None) or ""
    kind = "" if "--cpu" in typed else read_config(config, "distributed_type")
    several = read_config(config, HOSTFILE[2:]) or not typed.keys().isdisjoint(SEVERAL)
    if kind not in SINGLE or several:
        return
    counts = {name: typed.get(name) or read_config(config, name[2:]) for name in COUNTS}
    requested = [f"{name} {count}" for name, count in counts.items() if count not in ("", "0", "1", "-1")]
    if requested:
        fact = "accelerate launch starts one process on a CPU, however many are asked for"
        remedy = "torchrun --nproc_per_node N SCRIPT.py, on several nodes with --nnodes, --node_rank and --master_addr"
        where = f" in {path}" if any(name not in typed for name in counts if counts[name] not in ("", "1")) else ""
        raise Refusal(fact, " ".join(requested) + where, remedy)
