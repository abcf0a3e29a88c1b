"""Threads, memory allocator and network for this world on this machine: a table of variables, each with its reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from multinode_image.machine.cpus import Machine
from multinode_image.machine.image import Stack, release
from multinode_image.settings import SIZE, Setting
from multinode_image.tuning.context import Context, Process
from multinode_image.tuning.handover import hand_over_cores
from multinode_image.tuning.threads import divide_cores, has_iomp, list_bindings, list_preloads, warn_bindings
from multinode_image.world.alone import write_required_size
from multinode_image.world.model import ALONE, SLURM, TORCHRUN, TORCHRUN_WORKER, World

# The shell itself sets these, not the script.
NOISE = ("_", "PWD", "OLDPWD", "SHLVL")
# Sourced by bash, for the script is one of bash; without -e, for it needs `ps` and goes on when there is none.
SOURCE = 'source "$1" >/dev/null 2>&1; exec env -0'


def find_setvars(stack: Stack) -> str | None:
    """Return the path of setvars.sh, without the import of the bindings, which takes seconds and prints on stdout."""
    if stack.backend != "ccl":
        return None
    package = "torch_ccl" if release(stack.torch) < (1, 12) else "oneccl_bindings_for_pytorch"
    return f"{stack.site}/{package}/env/setvars.sh"


def changes(before: Mapping[str, str], dump: str) -> dict[str, str]:
    """Return the variables in a dump of `env -0` that are new, or have something in front of what was set before."""
    after = dict(row.partition("=")[::2] for row in dump.split("\0") if "=" in row)
    changed = {name: value for name, value in after.items() if name not in NOISE and before.get(name) != value}
    return {name: value for name, value in changed.items() if value.endswith(before.get(name, ""))}


def take_setvars(environ: Mapping[str, str], stack: Stack) -> list[Setting]:
    """Return what oneCCL's script sets; nothing where there is none, or where it has run before."""
    script = find_setvars(stack)
    if script is None or environ.get("CCL_ROOT") or not os.path.isfile(script):
        return []
    import subprocess  # only stacks with oneCCL pay for it

    before = without_image(environ, stack)
    argv = ["bash", "--noprofile", "--norc", "-c", SOURCE, "bash", script]
    done = subprocess.run(argv, env=before, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    sourced = changes(before, done.stdout.decode(errors="surrogateescape"))
    return [Setting(name, value, "setvars.sh") for name, value in sourced.items()]


def without_image(environ: Mapping[str, str], stack: Stack) -> dict[str, str]:
    """Return the environment without what the image's configuration has in the place of the script."""
    return {name: value for name, value in environ.items() if stack.environment.get(name) != value}


MPI_ROOT = "/usr/local"
MPICH = f"{MPI_ROOT}/bin/mpichversion"  # whose hydra has the same name as Intel's, and reads none of its variables
PROVIDERS = (f"{MPI_ROOT}/lib", f"{MPI_ROOT}/opt/mpi/libfabric/lib/prov")
# Seconds between two lines of progress in a log, and such a line. tqdm, by which the Trainer shows its progress, would
# write over the same line ten times a second, which a log shows only when the training has ended (tqdm/std.py).
PACE = "30"
PROGRESS = "{l_bar} {n_fmt}/{total_fmt}, {elapsed} gone, {remaining} left, {rate_fmt}{postfix}\n"
# Where ranks meet, as torch reads it.
MEETING = ("MASTER_ADDR", "MASTER_PORT")
# Reasons that are too long for the table.
NO_INTERFACE = "the route to the master; without a network oneCCL finds no interface, lo included"
NO_MPI_TRANSPORT = "the mpi transport hangs under torchrun, and hydra kills ranks at its end"
SHARED_CORES = (
    "under a quota the cores are shared, and every container's first rank would be bound to the first of them"
)


def interface(context: Context) -> str | None:
    """Return the interface between ranks, so that no library guesses one: it may pick a bridge of an engine."""
    if not context.is_of_world:
        return None
    return context.process.find_interface() if context.world.several_nodes else "lo"


def local_address(context: Context) -> str | None:
    """Return loopback as the address of torchrun's agent where this node is the only one, or can reach no other."""
    world, elastic = context.world, bool(context.environ.get("PET_RDZV_ENDPOINT"))
    # A typed torchrun looks for its own name for a single rank, too, and so does an elastic one for a single node.
    alone = world.launcher == ALONE and context.process.role.is_torchrun
    one_node = alone or (world.launcher == TORCHRUN and elastic and not world.several_nodes)
    if not context.is_of_world:  # a torchrun may be typed in a shell later, for other nodes if there is a network
        is_asked = context.process.starter == TORCHRUN  # it would take this for a choice of the user's
        one_node = world.launcher == ALONE and not is_asked and context.process.find_interface() is None
    return "127.0.0.1" if one_node else None


def list_rows(context: Context) -> tuple[tuple[str, str | None, str], ...]:
    """Return every variable that may be set, its value here, None where it is not set, and why it is set."""
    cores, route, has_ccl = divide_cores(context), interface(context), context.stack.backend == "ccl"
    process, world, is_of_world = context.process, context.world, context.is_of_world
    preloads, is_mpich = list_preloads(context), process.has_file(MPICH)
    logged = process.is_logged and is_of_world
    has_mpi = process.has_file(f"{MPI_ROOT}/bin/mpiexec.hydra") and not is_mpich
    provider = next((path for path in PROVIDERS if process.has_file(f"{path}/libtcp-fi.so")), None)
    return (
        ("OMP_NUM_THREADS", cores.threads, "the cores of one rank: affinity, quota and siblings counted"),
        ("KMP_BLOCKTIME", "1" if has_iomp(context) else None, "idle threads give their core back after 1 ms"),
        ("KMP_AFFINITY", cores.affinity, "the cores of several NUMA nodes belong to this rank alone"),
        ("LD_PRELOAD", ":".join(preloads.values()) or None, " and ".join(preloads)),
        ("GLOO_SOCKET_IFNAME", route, "the route to the master"),
        ("FI_TCP_IFACE", route, "the route to the master; libfabric may pick a bridge, on which training hangs"),
        ("CCL_KVS_IFACE", route if has_ccl else None, NO_INTERFACE),
        ("PET_LOCAL_ADDR", local_address(context), "the host's own name need not resolve"),
        ("CCL_WORKER_COUNT", "1" if has_ccl else None, "without it accelerate takes gloo and does not say so"),
        ("CCL_WORKER_OFFLOAD", cores.offload, "no core to spare for oneCCL's workers, so that threads do their work"),
        ("CCL_WORKER_AFFINITY", cores.worker_cpus, "the first cores of each rank; its threads have the others"),
        ("CCL_ATL_TRANSPORT", "ofi" if has_ccl else None, NO_MPI_TRANSPORT),
        ("I_MPI_ROOT", MPI_ROOT if has_mpi else None, "Intel MPI"),
        ("FI_PROVIDER_PATH", provider, "Intel MPI"),
        ("I_MPI_PIN", None if context.machine.exclusive or world.rank is not None or is_mpich else "0", SHARED_CORES),
        *((name, PACE if logged else None, "progress in a log") for name in ("TQDM_MININTERVAL", "TQDM_MAXINTERVAL")),
        ("TQDM_BAR_FORMAT", PROGRESS if logged else None, "progress in a log, line by line"),
        ("TQDM_POSITION", "0" if logged else None, "no escape codes in a log: bars do not move to lines of their own"),
        ("PYTHONHASHSEED", "0" if is_of_world else None, "sets have one order on all ranks, and at each start"),
        ("PYTHONUNBUFFERED", "1" if logged else None, "the loss is in the log as soon as it is known"),
        (SIZE, write_required_size(world) if is_of_world else None, "the ranks that are to be there"),
        ("MULTINODE_JOB", (is_of_world and world.job) or None, "only its ranks share this"),
    )


class Tuned(NamedTuple):
    """Variables for a process, the names of those of the user that it does not get, and notes for the log."""

    settings: list[Setting]
    removed: frozenset[str]
    notes: list[str]


def tune(world: World, machine: Machine, environ: Mapping[str, str], stack: Stack, process: Process) -> Tuned:
    """Return what makes a process, or the ranks that it starts, fast on this machine; the user's own values win."""
    context = Context(world, machine, environ, stack, process)
    settings = [Setting(name, value, why) for name, value, why in list_rows(context) if value is not None]
    return Tuned([*settings, *hand_over_cores(context)], frozenset(list_bindings(context)), warn_bindings(context))


def set_rank_variables(world: World, environ: Mapping[str, str]) -> list[Setting]:
    """Return the place of a rank under the names that libraries read, also over those that an operator set in the pod.

    GROUP_ is torchrun's word for a node, which Lightning calls NODE_RANK.
    """
    if world.rank is None:
        return []
    node = find_node(world, environ)
    values = {
        "RANK": world.rank,
        "WORLD_SIZE": world.size,
        "LOCAL_RANK": world.local_rank,
        "LOCAL_WORLD_SIZE": world.local_size,
        "MASTER_ADDR": world.master,
        "MASTER_PORT": world.port,
        "NODE_RANK": node,
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": world.nodes[1],
    }
    if world.launcher == TORCHRUN_WORKER:  # set by hand, some may be missing, or no address be one that torch reads
        kept = {name for name in values if environ.get(name) and name not in MEETING}
        values = {name: value for name, value in values.items() if name not in kept and environ.get(name) != str(value)}
    return [Setting(name, str(value), "the launcher's own variables") for name, value in values.items()]


def settle_size(world: World, environ: Mapping[str, str]) -> list[Setting]:
    """Return the size of a training that is alone where the user allows more: nobody else will come (one_job.py)."""
    is_alone = world.launcher == ALONE and not world.several and environ.get(SIZE, "").strip() not in ("", "1")
    return [Setting(SIZE, write_required_size(world), "this training is alone, as its size may be")] if is_alone else []


def find_node(world: World, environ: Mapping[str, str]) -> int:
    """Return which node a rank is on: as Slurm says, or where ranks of a node follow each other, or take turns."""
    node = environ.get("SLURM_NODEID", "") if world.launcher == SLURM else ""
    rank, local, per_node = world.rank or 0, world.local_rank or 0, world.local_size or 1
    if node.isdigit():
        return int(node)
    return rank % world.nodes[1] if (rank - local) % per_node else (rank - local) // per_node
