"""What torchrun and accelerate are told, as they have read it themselves: who trains alone, and what is waited for.

Whoever starts it (a shell, Python, mpirun, accelerate launch), and however its options are written, in words or
variables, torch.distributed.launcher.api.launch_agent gets them in one configuration.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from multinode_image.hooks.ends.ending import MET
from multinode_image.hooks.job.one_job import EXIT_USER, Fault, find_agent_fault
from multinode_image.settings import TRAINING

if TYPE_CHECKING:
    pass

# How many processes accelerate is asked for (accelerate/commands/launch.py).
COUNTS = ("num_processes", "num_machines")
PATIENCE = 30.0  # seconds until an agent says what it waits for
TORCHRUN = "torch.distributed.run"  # a script has launch_agent from elsewhere (accelerate's notebook_launcher)


def watch_launch(module: Any) -> None:
    """Look at each agent before it meets others; module: torch.distributed.launcher.api."""
    launch = module.launch_agent

    @functools.wraps(launch)
    def look_and_launch(config: Any, *words: Any, **options: Any) -> Any:
        if TORCHRUN in sys.modules:
            os.environ[TRAINING] = "on"  # no rank, though its container has the variables of one: its children are
            fault = find_agent_fault(config.max_nodes, os.environ)
            if fault is not None:
                print(fault, file=sys.stderr, flush=True)
                os._exit(EXIT_USER)
        timer = remind_later(describe_wait(config))
        try:
            return launch(config, *words, **options)
        finally:
            timer.cancel()

    module.launch_agent = look_and_launch


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
        return start(args)

    module.simple_launcher = check_and_start


def find_single_process(args: Any) -> Fault | None:
    """Return why accelerate would start fewer processes than it is asked for; None where mpirun starts them."""
    asked = [f"--{name} {count}" for name in COUNTS if (count := getattr(args, name, None) or 1) > 1]
    if not asked or getattr(args, "mpirun_hostfile", None):
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
    own = ", and another --node_rank each, from 0" if static else f", --rdzv_id {config.run_id}"
    same = names.format(nodes, config.rdzv_endpoint)
    return (
        f"no rank has started here after {PATIENCE:g} s: torchrun waits for the other nodes. "
        f"All need the same {same}{own}, as options or in PET_ variables"
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
