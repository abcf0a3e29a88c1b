"""What every Python of a training does at its start (multinode.pth).

A training is what the entrypoint has started as one (TRAINING), and each rank, whoever has started it: an mpirun that
was typed in a shell, or torchrun in the place of the entrypoint. A row of ROWS names what is to be done once a module
has been imported: whoever has started this Python, its script is run as ever, and what a row needs is read when that
module is there. Users have rows of their own: a file MODULE.py in the directory USERS, whose function `after_import`
gets that module.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import signal
import sys
import time
import warnings
from importlib import util
from typing import TYPE_CHECKING, Any

from multinode_image.hooks import after_import, at_exit
from multinode_image.settings import BEGAN, TRAINING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What is done once a module has been imported: modules of this package, and their functions, which get the module.
ROWS = {
    "torch": ("compute.threads.compare", "compute.compiler.watch_compile"),
    "multiprocessing.queues": ("data.lost_batch.watch_queues",),
    "intel_extension_for_pytorch": ("compute.bf16_units.watch_ipex",),
    "torch.optim.optimizer": ("model.optimizers.watch_optimizers", "compute.bf16_units.watch_optimizers"),
    # the last is called first
    "torch.amp.autocast_mode": ("step.gradients.watch_autocast", "compute.bf16_units.watch_autocast"),
    "torch.nn.parallel.distributed": (
        "step.gradients.watch_parallel",
        "model.one_model.watch_parallel",
        "data.same_data.watch_batches",
    ),
    "torch.utils.data.dataset": ("data.same_data.watch_split",),
    "torch.utils.data.distributed": ("data.same_data.watch_sampler",),
    "datasets.arrow_dataset": ("data.same_data.watch_datasets",),
    "sklearn.model_selection._split": ("data.same_data.watch_lists",),
    at_exit.DISTRIBUTED: (
        "compute.bf16_units.watch_groups",
        "job.word.watch_groups",
        "groups.meeting.separate_groups",
        "groups.waits.watch_waits",
        "groups.ddp_timeout.watch_groups",
        "groups.interface.watch_rendezvous",
        "groups.same_job.watch_rendezvous",
    ),
    "torch.distributed.launcher.api": ("ends.agents.watch_launch",),
    "torch.distributed.run": ("ends.agents.watch_numbers",),
    "accelerate.commands.launch": ("ends.agents.watch_accelerate",),
    "torch.distributed.elastic.agent.server.api": ("ends.ending.watch_agents", "groups.same_job.watch_agents"),
    "torch.distributed.fsdp.api": ("compute.bf16_units.watch_policies",),
    "torch.distributed.fsdp._fully_shard._fsdp_api": ("compute.bf16_units.watch_policies",),
    "torch.distributed._composable.fsdp._fsdp_api": ("compute.bf16_units.watch_policies",),
    "torch.distributed.rendezvous": ("groups.group_of_one.serve_alone", "groups.meeting.watch_stores"),
    "keras.src.optimizers.base_optimizer": ("model.optimizers.watch_keras",),
    "thinc.model": ("model.optimizers.watch_thinc",),
    "torch.utils.data._utils.worker": ("data.lost_batch.stay_apart",),
    "transformers.trainer": (
        "trainer.progress.show_progress",
        "trainer.speed.watch_speed",
        "trainer.kept_state.keep_state",
        "step.mean_loss.weigh_losses",
        "trainer.go_on.watch_training",
        "trainer.best_model.watch_best",  # before what may end the process
        "trainer.last_checkpoint.watch_end",
        "compute.bf16_units.watch_evaluation",
    ),
    "accelerate.accelerator": ("trainer.directory.watch_accelerator",),
    "accelerate.data_loader": ("data.order.tell_epoch", "data.same_data.watch_loaders"),
    "transformers.trainer_pt_utils": ("data.order.draw_alike",),
    "transformers.training_args": (
        "compute.bf16_units.allow_bf16",
        "compute.compiler.watch_arguments",
        "groups.ddp_timeout.watch_arguments",
    ),
}


# Where files of the user's own are, and what each of them defines.
USERS, FUNCTION = "/etc/multinode/hooks", "after_import"


def main() -> None:
    """Register the end first, so that it is called last; then change sys.exit, and watch what is imported.

    A second call does nothing: the Python of a virtual environment reads each .pth file twice (python/cpython,
    Lib/site.py: venv and main).
    """
    if any(isinstance(finder, after_import.Finder) for finder in sys.meta_path):
        return
    at_exit.reserve_files()
    atexit.register(at_exit.end, sys.modules, os.environ)
    at_exit.watch_status()
    take_warnings()
    if os.environ.get("GROUP_RANK"):  # as torchrun calls it
        os.environ.setdefault("NODE_RANK", os.environ["GROUP_RANK"])
    os.environ.setdefault(BEGAN, str(time.time_ns()))
    if os.environ.get("RANK") and not os.environ.get(TRAINING, "").isdigit():
        os.environ[TRAINING] = str(os.getpid())  # of the rank, not of a process that it starts
    if os.environ.get("RANK", "0") != "0":  # that of torch's DataLoader, which is the same on all ranks
        warnings.filterwarnings("ignore", "'pin_memory' argument")
    sys.meta_path.insert(0, after_import.Finder(list_actions(USERS)))


def list_actions(users: str) -> dict[str, Callable[[Any], None]]:
    """Return the name of each module that something is done after, and what; users: the directory of users' files."""
    steps: dict[str, list[Callable[[Any], None]]] = {
        name: [functools.partial(act, action) for action in row] for name, row in ROWS.items()
    }
    with contextlib.suppress(OSError):  # hardly any image has one
        for file in sorted(os.listdir(users)):
            if file.endswith(".py"):
                steps.setdefault(file[:-3], []).append(functools.partial(act_for_user, f"{users}/{file}"))
    return {name: functools.partial(do_all, row) for name, row in steps.items()}


def do_all(steps: Sequence[Callable[[Any], None]], module: Any) -> None:
    """Do what is to be done with a module."""
    for step in steps:
        step(module)


def act(name: str, module: Any) -> None:
    """Do what a row names."""
    beside, _, function = name.rpartition(".")
    try:
        getattr(importlib.import_module(f"{__package__}.{beside}"), function)(module)
    except Exception as error:  # none of them is worth a training
        after_import.say_silent(name, error)


def act_for_user(path: str, module: Any) -> None:
    """Do what a file of the user's says."""
    try:
        spec = util.spec_from_file_location(f"multinode_hooks.{os.path.basename(path)}", path)
        hook = util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(hook)  # type: ignore[union-attr]
        getattr(hook, FUNCTION)(module)
    except Exception as error:
        after_import.say_silent(path, error)


def take_warnings() -> None:
    """Let the warnings of schedulers mean what SIGTERM means, where nobody handles them: they come before it.

    Slurm's --signal and LSF send SIGUSR1 or SIGUSR2, by which a process ends at once that knows nothing of them.
    """
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        with contextlib.suppress(ValueError):  # Python was started in another thread than the first
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
