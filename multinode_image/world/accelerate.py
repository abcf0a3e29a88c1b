"""`accelerate launch`: its options by which it may start several processes; hooks/ends/agents.py asks it itself."""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.world.torchrun import HELP_FLAGS, MODULE_FLAGS

# By which `accelerate launch` may start several processes on a CPU (accelerate/commands/launch.py, launch_command), and
# its usual options without a value.
KINDS = ("--multi_gpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--tpu")
CONFIG, HOSTFILE = "--config_file", "--mpirun_hostfile"
SEVERAL = (*KINDS, HOSTFILE)
FLAGS = (*HELP_FLAGS, *MODULE_FLAGS, *KINDS, "--cpu", "--debug", "-q", "--quiet")


def may_start_several(typed: Mapping[str, str]) -> bool:
    """Return whether the options of accelerate, or a file that they name, may start several processes."""
    return not typed.keys().isdisjoint({*SEVERAL, CONFIG})
