"""What torchrun and accelerate have read, and what they are told then: who trains alone, and what the ranks get.

Whoever starts it (a shell, Python, mpirun, accelerate launch), and however its options are written, in words or
variables, torch.distributed.launcher.api.launch_agent gets them in one configuration.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from multinode_image.errors import Refusal
from multinode_image.hooks.ends.ending import MET
from multinode_image.hooks.ends.options import ask_parser, describe, find_torchrun, is_typed, tell
from multinode_image.hooks.ends.ranks import TorchrunConfig, plan_ranks
from multinode_image.hooks.job.one_job import EXIT_USER, Fault, find_agent_fault
from multinode_image.printing.streams import print_error
from multinode_image.settings import PLANNED, TRAINING, forget
from multinode_image.world.torchrun import AUTO, NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# How many processes accelerate is asked for (accelerate/commands/launch.py).
COUNTS = ("num_processes", "num_machines")
HOSTFILE = "mpirun_hostfile"  # with which it starts mpirun
RUN_PATH = "run_script_path"  # what torchrun --run_path starts ranks by
PATIENCE = 30.0  # seconds until an agent says what it waits for


def watch_launch(module: Any) -> None:
    """Look at each agent before it meets others, and give its ranks what they need.

    module: torch.distributed.launcher.api.
    """
    launch = module.launch_agent

    @functools.wraps(launch)
    def look_and_launch(config: Any, *words: Any, **options: Any) -> Any:
        before = dict(os.environ)
        if find_torchrun() is not None:
            words = prepare_agent(config, *words)
        timer = remind_later(describe_wait(config))
        try:
            return launch(config, *words, **options)
        finally:
            timer.cancel()
            if find_torchrun() is not None and not is_typed():  # the script goes on, and may train alone
                replace_environment({**before, TRAINING: "on"})

    module.launch_agent = look_and_launch


def prepare_agent(config: Any, program: Any, words: Any, *more: Any) -> tuple[Any, ...]:
    """Return what launch_agent gets after the configuration, which is changed; end where ranks would train apart."""
    is_planned = os.environ.pop(PLANNED, "")
    is_ours = os.environ.get(TRAINING) in ("on", str(os.getpid()))  # of another rank it is a program of the script's
    os.environ[TRAINING] = "on"  # no rank, though its container has the variables of one: its children are
    if is_ours and not is_planned and isinstance(program, str):
        program, words = plan_and_tell(config, program, [*words])
    elif is_ours and not is_planned and program is getattr(find_torchrun(), RUN_PATH, None):
        plan_and_tell(config, sys.executable, [*words])  # a function of torchrun's runs them in new Pythons
    if fault := find_agent_fault(config.max_nodes, os.environ):
        end(str(fault), EXIT_USER)
    return program, words, *more


def plan_and_tell(config: Any, program: str, words: list[str]) -> tuple[str, list[str]]:
    """Tell torchrun and its ranks what the plan of this start says; return the program of a rank, and its words."""
    parsed = TorchrunConfig(describe(config, ask_parser(), os.environ), program, words)
    try:
        ranks = plan_ranks(parsed, os.environ)
    except Refusal as refusal:
        end(str(refusal), refusal.code)
    except KeyboardInterrupt:
        if is_typed():
            os._exit(128 + signal.SIGINT)
        raise
    replace_environment(ranks.environ)
    tell(config, ranks, parsed.described.get(NODE))
    return ranks.program, ranks.words


def replace_environment(environ: Mapping[str, str]) -> None:
    """Let these be all variables of this process."""
    os.environ.clear()
    os.environ.update(environ)


def end(text: str, code: int) -> NoReturn:
    """Say why nothing is started, and end."""
    print_error(text)
    with contextlib.suppress(Exception):  # what a script has printed that called torchrun
        sys.stdout.flush()
    os._exit(code)


def watch_numbers(module: Any) -> None:
    """Let torchrun count processors where there is no GPU, and say which number it cannot read.

    module: torch.distributed.run. The plan has the last word on how many ranks such a word means (`describe`).
    """
    for name in ("determine_local_world_size", "parse_min_max_nnodes"):
        setattr(module, name, read_or_end(getattr(module, name)))


def read_or_end(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader of torchrun's that ends in words, and not by a traceback."""

    @functools.wraps(read)
    def read_number(text: str) -> Any:
        try:
            return read("auto" if str(text).lower() in AUTO else text)
        except ValueError:
            if not is_typed():
                raise
        remedy = "--nproc_per_node N, or auto; --nnodes N, or LEAST:MOST; or PET_NPROC_PER_NODE, PET_NNODES"
        refusal = Refusal("torchrun reads no number of processes or nodes here", repr(text), remedy)
        end(str(refusal), refusal.code)

    return read_number


def watch_accelerate(module: Any) -> None:
    """Refuse several processes where accelerate starts one; module: accelerate.commands.launch.

    Options and configuration have been read by then. On a CPU it takes its `simple_launcher`, which reads no number.
    """
    start = module.simple_launcher

    @functools.wraps(start)
    def check_and_start(args: Any) -> Any:
        fault = find_single_process(args)
        if fault is not None:
            print(fault, file=sys.stderr, flush=True)
            sys.exit(EXIT_USER)
        if getattr(args, HOSTFILE, None):
            replace_environment(forget(os.environ))  # what is right for one process only
        return start(args)

    module.simple_launcher = check_and_start


def find_single_process(args: Any) -> Fault | None:
    """Return why accelerate would start fewer processes than it is asked for; None where mpirun starts them."""
    asked = [f"--{name} {count}" for name in COUNTS if (count := getattr(args, name, None) or 1) > 1]
    if not asked or getattr(args, HOSTFILE, None):
        return None
    fact = "accelerate launch starts one process on a CPU, however many are asked for"
    remedy = "torchrun --nproc_per_node N SCRIPT.py, on several nodes with --nnodes, --node_rank and --master_addr"
    return Fault(fact, " ".join(asked), remedy)


def describe_wait(config: Any) -> str:
    """Return what an agent waits for, with the values that this node has."""
    least, most = config.min_nodes, config.max_nodes
    nodes = str(most) if least == most else f"{least}:{most}"
    static = config.rdzv_backend == "static"
    names = "--nnodes {}, --master_addr and --master_port {}" if static else "--nnodes {}, --rdzv_endpoint {}"
    further = ", and another --node_rank each, from 0" if static else f", --rdzv_id {config.run_id}"
    same = names.format(nodes, config.rdzv_endpoint)
    return (
        f"no rank has started here after {PATIENCE:g} s: torchrun waits for the other nodes. "
        f"All need the same {same}{further}, as options or in PET_ variables"
    )


def remind_later(text: str, seconds: float | None = None) -> threading.Timer:
    """Start the thread that says what an agent waits for, if it has met nobody in some seconds.

    One whose ranks have ended has met the other nodes, and says itself what it waits for (ending.py).
    """
    timer = threading.Timer(PATIENCE if seconds is None else seconds, remind, [text])
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # of a limit, of which torchrun has more to say
        timer.start()
    return timer


def remind(text: str) -> None:
    """Print what an agent waits for, if it has met nobody."""
    if not MET:
        print(f"multinode: {text}", file=sys.stderr, flush=True)
