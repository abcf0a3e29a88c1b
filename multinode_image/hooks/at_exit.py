"""What every Python of a training runs, at its start and at its exit (multinode.pth).

A training is what the entrypoint has started as one (VARIABLE), and each rank, whoever has started it: an mpirun that
was typed in a shell, or torchrun in the place of the entrypoint.

At its start it names what is to be done once a module has been imported (ROWS): whoever has started this Python, its
script is run as ever. What a row needs is read when that module is there.

An agent of torchrun that is told of no other node is ended in each of several processes of mpirun (one_job.py). One
that has started no rank after half a minute says what it waits for: it waits 15 minutes in silence for a node that has
the rank of another one.

At its exit, after all that the script has registered, if it has imported torch.distributed:

- what ended it is said in words, below the traceback, and by torchrun's agent below its own: the last row of a log is
  what people read first;
- or rank 0 says what is proved of its job (proof.py), and a rank that has trained a model of its own ends with an
  error. Nothing is said where the script has called sys.exit with a failure, of which Python tells no handler;
- the main thread sleeps, which sets Python's lock free: a collective returns before the thread of the backend that did
  it has dropped its tensors, for which it needs the lock, and an interpreter that ends never gives it back. The thread
  dies of it ("terminate called without an active exception", -6), or the main thread waits for it for ever;
- a group of oneCCL is kept and ends with the process: the destructor of rank 0's waits until all others have left, and
  one that waits in a collective for a rank 0 that failed never leaves, so no launcher would learn of it.

No other rank is waited for, and the exit code stays the program's own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import sys
import time
import warnings
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# As in processes.py, which most Pythons of an image cannot import. A rank writes its number there.
VARIABLE = "MULTINODE_TRAINING"
DISTRIBUTED = "torch.distributed.distributed_c10d"
# Oneccl_bind_pt has had two names (1.12).
BINDINGS = ("oneccl_bindings_for_pytorch", "torch_ccl")
# How the command line of an agent of torchrun is known, and the seconds until it says what it waits for.
AGENTS, PATIENCE = (b"torchrun", b"torch.distributed.run", b"torch.distributed.launch"), 30.0
# What has to be the same on all nodes, by the names of torchrun's options and, after PET_, of its variables.
SAME = ("rdzv_id", "nnodes", "rdzv_endpoint", "master_addr", "master_port")
# Files that are closed before anything is imported at the exit: a program may have as many open as it may.
RESERVED: list[int] = []
BEGAN, MUCH = time.monotonic(), 0.2  # as in progress.py
# What sys.exit was called with, the last of which may be what the program ends with.
STATUS: list[object] = []
# Hooks that did not work.
FAILED: list[str] = []
REST = 0.2  # seconds in which a thread of a backend, also one that has to wait for a core, drops its last work
# What is done once a module has been imported: programs beside this one, and their functions, which get the module.
ROWS = {
    "torch": ("threads.compare", "compiler.watch_compile"),
    "multiprocessing.queues": ("lost_batch.watch_queues",),
    "intel_extension_for_pytorch": ("bf16_units.watch_ipex",),
    "torch.optim.optimizer": ("one_model.watch_optimizers", "bf16_units.watch_optimizers"),
    "torch.amp.autocast_mode": ("gradients.watch_autocast", "bf16_units.watch_autocast"),  # the last is called first
    "torch.nn.parallel.distributed": (
        "gradients.watch_parallel",
        "one_model.watch_parallel",
        "same_data.watch_batches",
    ),
    "torch.utils.data.dataset": ("same_data.watch_split",),
    "torch.utils.data.distributed": ("same_data.watch_sampler",),
    "datasets.arrow_dataset": ("same_data.watch_datasets",),
    "sklearn.model_selection._split": ("same_data.watch_lists",),
    DISTRIBUTED: (
        "bf16_units.watch_groups",
        "ending.watch_groups",
        "meeting.separate_groups",
        "waits.watch_waits",
        "ddp_timeout.watch_groups",
        "interface.watch_rendezvous",
        "same_job.watch_rendezvous",
    ),
    "torch.distributed.elastic.agent.server.api": ("ending.watch_agents", "same_job.watch_agents"),
    "torch.distributed.fsdp.api": ("bf16_units.watch_policies",),
    "torch.distributed.fsdp._fully_shard._fsdp_api": ("bf16_units.watch_policies",),
    "torch.distributed._composable.fsdp._fsdp_api": ("bf16_units.watch_policies",),
    "torch.distributed.rendezvous": ("group_of_one.serve_alone", "meeting.watch_stores"),
    "keras.src.optimizers.base_optimizer": ("one_model.watch_keras",),
    "thinc.model": ("one_model.watch_thinc",),
    "torch.utils.data._utils.worker": ("lost_batch.stay_apart",),
    "transformers.trainer": (
        "progress.show_progress",
        "history.keep_history",
        "mean_loss.weigh_losses",
        "best_model.watch_best",  # before what may end the process
        "last_checkpoint.watch_end",
        "bf16_units.watch_evaluation",
    ),
    "accelerate.data_loader": ("order.tell_epoch", "same_data.watch_loaders"),
    "transformers.trainer_pt_utils": ("order.draw_alike",),
    "transformers.training_args": (
        "bf16_units.allow_bf16",
        "compiler.watch_arguments",
        "ddp_timeout.watch_arguments",
    ),
}


# Those beside this one that a program imports, which are there before it: its package is nowhere to be found.
BESIDE = {
    "ending": ("board",),
    "proof": ("weights",),
    "one_model": ("messenger", "one_job", "weights", "proof"),
    "meeting": ("ending", "one_model", "reason"),
    "waits": ("ending", "one_model", "spot"),
    "same_job": ("one_model",),
    "same_data": ("waits", "reason"),
    "compiler": ("one_job", "spot"),
}


def load(program: str) -> Any:
    """Return a program beside this one, as a module that no script can take for one of its own."""
    for beside in BESIDE.get(program, ()):
        load(beside)
    name = f"multinode.{program}"
    if name not in sys.modules:
        spec = util.spec_from_file_location(name, Path(__file__).with_name(f"{program}.py"))
        if spec is None or spec.loader is None:
            raise ImportError(name)
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


def act(row: Sequence[str], module: Any) -> None:
    """Do what a row says with its module."""
    for each in row:
        program, _, function = each.partition(".")
        try:
            getattr(load(program), function)(module)
        except Exception as error:  # none of them is worth a training
            say_silent(each, error)


def say_silent(hook: str, error: Exception) -> None:
    """Say once for the job that a hook does not work here: what it holds is not held."""
    if hook not in FAILED and os.environ.get("RANK", "0") == "0":
        FAILED.append(hook)
        with contextlib.suppress(Exception):  # a stream may be closed
            print(f"multinode: {hook} does not work here: {error!r}", file=sys.stderr, flush=True)


def watch_status() -> None:
    """Remember what sys.exit is called with."""
    leave = sys.exit

    def leave_with(status: Any = None, /) -> NoReturn:
        STATUS.append(status)
        leave(status)

    sys.exit = leave_with


def take_warnings() -> None:
    """Let the warnings of schedulers mean what SIGTERM means, where nobody handles them: they come before it.

    Slurm's --signal and LSF send SIGUSR1 or SIGUSR2, by which a process ends at once that knows nothing of them.
    """
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        with contextlib.suppress(ValueError):  # Python was started in another thread than the first
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


def is_agent(cmdline: bytes) -> bool:
    """Return whether a command line of /proc is that of an agent of torchrun."""
    before = cmdline.split(b".py\0")[0]  # what follows a script is its own
    return any(os.path.basename(word) in AGENTS for word in before.split(b"\0"))


def read_told(cmdline: bytes, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what an agent was told, by names as in SAME: options of its command line, or variables, as they are."""
    import re  # only agents need it

    told = {name: f"PET_{name.upper()}={value}" for name in SAME if (value := environ.get(f"PET_{name.upper()}"))}
    for option, value in re.findall("--([a-z_-]+)[=\0]([^\0]*)", cmdline.decode(errors="replace")):
        told[option.replace("-", "_")] = f"--{option} {value}"
    return told


def describe_wait(cmdline: bytes, environ: Mapping[str, str]) -> str:
    """Return what an agent waits for, with the values that this node has."""
    told = read_told(cmdline, environ)
    same = ", ".join(told[name] for name in SAME if name in told)
    return (
        f"no rank has started here after {PATIENCE:g} s: torchrun waits for the other nodes. All need the same "
        f"{same or 'PET_NNODES'}, and those that meet at a master another PET_NODE_RANK each, from 0"
    )


def remind(children: Path, text: str) -> None:
    """Print what an agent waits for, if it has started nothing; children: the file of /proc that lists them.

    One whose ranks have ended has met the other nodes (ending.py), and says itself what it waits for.
    """
    if getattr(sys.modules.get("multinode.ending"), "MET", ()):
        return
    with contextlib.suppress(OSError):  # not every kernel has that file
        if not children.read_text().strip():
            print(f"multinode: {text}", file=sys.stderr, flush=True)


def say_error(error: BaseException, environ: Mapping[str, str]) -> None:
    """Print why this process ends, if that is known."""
    while RESERVED:
        os.close(RESERVED.pop())
    from multinode_image.hooks.diagnose import Place, explain
    from multinode_image.machine.disks import find_disk, find_full
    from multinode_image.machine.files import read_text
    from multinode_image.machine.refused_writes import find_refused
    from multinode_image.printing.streams import print_error

    others = load("waits").describe_others if "multinode.waits" in sys.modules else str
    refused = functools.partial(find_refused, error)
    reason = explain(error, Place(environ, read_text, find_disk, lambda: find_full(read_text), others, refused))
    if reason is not None:
        print_error(reason)
        hand_on([reason.fact, reason.value, reason.remedy], environ)


def hand_on(parts: Sequence[str], environ: Mapping[str, str]) -> None:
    """Let torchrun's agent say again why this rank ends, and not why a process has that the rank has started."""
    if environ.get(VARIABLE) == str(os.getpid()):
        load("reason").leave_reason(parts, environ)


def describe_job(modules: Mapping[str, Any], environ: Mapping[str, str], pid: int) -> str:
    """Return what rank 0 of several knows of its job at its end; empty where it knows nothing for certain.

    torch remembers how a group was formed, also after it was destroyed; before 2.0 it does not, and what has seen a
    step in it does. A group by the variables of the ranks forms only when all ranks have come.
    """
    one_job, distributed = load("one_job"), modules[DISTRIBUTED]
    if environ.get("RANK") != "0" or one_job.count_meant(environ) == 1:
        return ""
    by_variables = getattr(distributed, "_default_pg_init_method", "")
    formed = by_variables == "env://" or load("one_model").know().formed
    destroyed = formed and not distributed.is_initialized()
    meant, joined = one_job.count_meant(environ), one_job.count_joined(modules)
    if joined == 1 or (by_variables is None and not formed and not joined and environ.get(VARIABLE) == str(pid)):
        if not joined and has_worked_by_children():
            return ""
        apart = f"each of the {meant} ranks has worked by itself, not as one job"
        return str(load("one_model").describe_rpc(meant)) or apart
    size = meant if destroyed else joined
    text = load("one_model").describe_training(size) if size > 1 else ""
    return f"{text}{describe_waiting(modules)}" if text else ""


def has_worked_by_children() -> bool:
    """Return whether processes that this one has started, and seen end, may have done its work (mp.spawn)."""
    import resource  # most ranks need none of it

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > 1


def describe_waiting(modules: Mapping[str, Any]) -> str:
    """Return which part of the time backward passes have waited for others; empty where that is little."""
    waited = getattr(getattr(modules.get("multinode.gradients"), "SEEN", None), "waited", None)
    share = (waited or 0) / (time.monotonic() - BEGAN)
    return f", waiting for gradients {share:.0%} of the time" if share > MUCH else ""


def keep_groups(modules: Mapping[str, Any]) -> None:
    """Let the process groups of oneCCL outlive the interpreter, so that their destructors never run.

    Newer releases of torch have the table of groups, group -> (backend, store), in an object (distributed_c10d.py).
    """
    if not any(name in modules for name in BINDINGS):
        return
    import ctypes  # most ranks need none of it

    distributed = modules[DISTRIBUTED]
    table = getattr(getattr(distributed, "_world", None), "pg_map", None) or getattr(distributed, "_pg_map", {})
    for group in [group for group, (backend, *_) in table.items() if str(backend) != "gloo"]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def end(modules: Mapping[str, Any], environ: Mapping[str, str], root: str) -> None:
    """Do what has to be done at the exit; root: the directory of the package."""
    with contextlib.suppress(Exception):  # it is in the log already
        for fault in getattr(modules.get("multinode.one_job"), "TOLD", ()):
            hand_on(fault, environ)
    error = getattr(sys, "last_value", None)
    if error is None and not any(STATUS[-1:]) and (DISTRIBUTED in modules or "multinode.one_model" in modules):
        finish(modules, environ)
    if DISTRIBUTED not in modules:
        return
    with contextlib.suppress(Exception):  # the program's own error is what counts
        sys.path.insert(0, root)
        say(error, modules, environ)
        for text in getattr(modules.get("multinode.ending"), "LAST", ()):
            print(f"multinode: {text}", file=sys.stderr, flush=True)
    for program in ("waits", "one_model"):
        if f"multinode.{program}" in modules:
            load(program).stop()
    if modules[DISTRIBUTED].is_initialized():
        time.sleep(REST)
    keep_groups(modules)


def finish(modules: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """End a process that ends well, but has trained a model of its own, with an error."""
    fault = None
    try:
        fault = load("one_model").finish(modules, environ)
    except Exception as error:  # it is not worth a training
        say_silent("one_model.finish", error)
    if fault is not None:
        print(fault, file=sys.stderr, flush=True)
        hand_on(fault, environ)
        os._exit(load("one_job").EXIT_USER)


def say(error: BaseException | None, modules: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Print why this process ends, or what it knows of its job."""
    if error is None:
        if not any(STATUS[-1:]):
            say_job(describe_job(modules, environ, os.getpid()), modules, environ)
    elif not isinstance(error, KeyboardInterrupt) or lacks_thread():  # whoever typed ^C knows why
        say_error(error, environ)


def say_job(text: str, modules: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Leave what this job was to what started its ranks, which knows how they end; or wait for them and print it.

    text: that of rank 0, empty on all others.
    """
    ending = load("ending")
    if text and ending.leave_last_line(text, environ):
        return
    has_parent = environ.get(load("one_job").ELASTIC) or environ.get(ending.WORD)
    several = load("one_job").count_meant(environ) > 1
    others = "" if has_parent or not several else ending.describe_others(modules[DISTRIBUTED])
    if text:
        print(f"multinode: {text}{others}", file=sys.stderr, flush=True)


def lacks_thread() -> bool:
    """Return whether no thread can be started: then OpenBLAS interrupts its process, as ^C does."""
    import _thread

    try:
        _thread.start_new_thread(int, ())
    except RuntimeError as error:
        return str(error) == "can't start new thread"  # and not that the interpreter ends
    return False


def main() -> None:
    """Register the end first, so that it is called last; then change sys.exit, and watch what is imported."""
    RESERVED.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(2))
    atexit.register(end, sys.modules, os.environ, str(Path(__file__).parents[2]))
    watch_status()
    take_warnings()
    if os.environ.get("GROUP_RANK"):  # as torchrun calls it
        os.environ.setdefault("NODE_RANK", os.environ["GROUP_RANK"])
    process = Path("/proc/self")
    agent = is_agent(cmdline := (process / "cmdline").read_bytes())
    if os.environ.get("RANK") and not agent and not os.environ.get(VARIABLE, "").isdigit():
        os.environ[VARIABLE] = str(os.getpid())  # of the rank, not of a process that it starts
    if os.environ.get("RANK", "0") != "0":  # that of torch's DataLoader, which is the same on all ranks
        warnings.filterwarnings("ignore", "'pin_memory' argument")
    rows = {name: functools.partial(act, row) for name, row in ROWS.items()}
    sys.meta_path.insert(0, load("after_import").Finder(rows))
    if agent:
        told = read_told(cmdline, os.environ)
        nodes = "--standalone" if b"\0--standalone\0" in cmdline else told.get("nnodes", "")
        load("one_job").check_agent(nodes, os.environ)
        watch_agent(process, describe_wait(cmdline, os.environ))


def watch_agent(process: Path, text: str, seconds: float = PATIENCE) -> Any:
    """Return the thread that looks in some seconds whether an agent has ranks; process: that of the agent in /proc."""
    import threading  # ranks, which may fork, get no thread

    timer = threading.Timer(seconds, remind, [process / "task" / str(os.getpid()) / "children", text])
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # of a limit, of which torchrun has more to say
        timer.start()
    return timer


if __name__ == "multinode.at_exit":  # as the image's .pth file runs it
    main()
