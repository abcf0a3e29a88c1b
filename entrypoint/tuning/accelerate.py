"""`accelerate launch`: how many ranks it starts, which on a CPU is one, whatever number is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.machine.places import find_downloads
from entrypoint.numbers import whole
from entrypoint.tuning.options import read_program_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    # Returns the text of a file; None if there is no such file.
    Read = Callable[[str], "str | None"]

# Options without a value. Any of the kinds lets it start more than one process, but on the CPU that `--cpu` asks for
# (accelerate/commands/launch.py, launch_command), and so does a hostfile for mpirun.
KINDS = ("--multi_gpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--tpu")
FLAGS = (
    "--cpu", *KINDS, "-m", "--module", "--no_python", "--debug", "-q", "--quiet", "-h", "--help", "--same_network",
    "--enable_cpu_affinity", "--use_parallelism_config", "--downcast_bf16", "--fp8_use_autocast_during_eval",
    "--dynamo_use_fullgraph", "--dynamo_use_dynamic", "--dynamo_use_regional_compilation",
    "--tpu_cluster", "--no_tpu_cluster", "--tpu_use_sudo",
)  # fmt: skip
HOSTFILE, FILE = "--mpirun_hostfile", "--config_file"
# The kinds of a configuration file for which it starts one process all the same.
ALONE = ("NO", "MULTI_CPU")
DEFAULT = "accelerate/default_config.yaml"
COUNTS = ("num_processes", "num_machines")


class Asked(NamedTuple):
    """What a command line and its configuration file ask for.

    one: whether one process is started on each machine, however many are asked for; file: the configuration's path.
    """

    processes: int | None
    machines: int
    one: bool
    file: str = ""


def read_asked(words: list[str], environ: Mapping[str, str], read: Read) -> Asked:
    """Return what the options after `launch` ask for; what is typed comes before what is in the file."""
    typed = read_program_options(words, FLAGS)
    path = typed.get(FILE) or ("" if "--cpu" in typed else find_default(environ))
    text = read(path) if path else None
    found = read_configuration(text or "")
    given = {name: typed.get(f"--{name}") or found.get(name, "") for name in COUNTS}
    several = HOSTFILE in typed or bool(found.get("mpirun_hostfile")) or bool(typed.keys() & set(KINDS))
    several = several or (text is not None and found.get("distributed_type", "NO") not in ALONE)
    one = not several and (text is not None or FILE not in typed)
    processes, machines = (whole(given[name]) for name in COUNTS)
    return Asked(processes, machines or 1, one, path if text is not None else "")


def find_default(environ: Mapping[str, str]) -> str:
    """Return where `accelerate config` writes (accelerate/commands/config/config_args.py)."""
    return f"{find_downloads(environ)}/{DEFAULT}"


def read_configuration(text: str) -> dict[str, str]:
    """Return the scalars of a file that `accelerate config` has written, in YAML or JSON, one on each line."""
    rows = (line.partition("#")[0].strip().rstrip(",").partition(":") for line in text.splitlines())
    return {name.strip(" \"'"): value.strip(" \"'") for name, _, value in rows if value.strip(" \"'")}


def count_processes(asked: Asked) -> int | None:
    """Return how many processes are started on this machine; None where nobody knows."""
    if asked.one:
        return 1
    return None if asked.processes is None or asked.file else max(1, asked.processes // asked.machines)


def check_asked(asked: Asked) -> None:
    """Raise Refusal for more than one process on a CPU, of which each would train alone."""
    count = max(asked.processes or 1, asked.machines)
    if not asked.one or count < 2:
        return
    fact = "accelerate launch starts one process on a CPU, however many are asked for"
    name = "--num_processes" if (asked.processes or 1) > 1 else "--num_machines"
    value = f"{name} {count}" + (f", with {asked.file}" if asked.file else "")
    each = max(1, (asked.processes or asked.machines) // asked.machines)
    several = "" if asked.machines < 2 else f"--nnodes {asked.machines} --node_rank R --master_addr HOST "
    raise Refusal(fact, value, f"torchrun {several}--nproc_per_node {each} SCRIPT.py")
