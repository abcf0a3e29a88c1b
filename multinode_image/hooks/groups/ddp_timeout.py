"""Let `--ddp_timeout` of a Trainer be how long its ranks wait for each other, also on CPUs.

Its arguments hand it on to the group where there are GPUs, and drop it for a CPU (transformers/training_args.py,
_setup_devices): a rank 0 that prepared data for longer than half an hour was taken for lost, whatever was typed.
"""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

# What arguments of a Trainer say while they form the group, in seconds.
SAID: list[float] = []


def watch_arguments(module: Any) -> None:
    """Remember how long ranks may wait, by arguments that form a group; module: transformers.training_args."""
    kind = module.TrainingArguments
    cached = vars(kind)["_setup_devices"]
    setup = getattr(cached, "func", None) or cached.fget  # functools' own, or a property of older releases

    @functools.wraps(setup)
    def set_up_with_timeout(self: Any) -> Any:
        SAID.append(float(self.ddp_timeout))
        try:
            return setup(self)
        finally:
            SAID.pop()

    again = type(cached)(set_up_with_timeout)
    if hasattr(again, "__set_name__"):
        again.__set_name__(kind, "_setup_devices")
    kind._setup_devices = again


def watch_groups(module: Any) -> None:
    """Give a group the time in `--ddp_timeout`, unless it has one; module: torch.distributed.distributed_c10d."""
    form = module.init_process_group

    @functools.wraps(form)
    def form_with_timeout(*words: Any, **options: Any) -> Any:
        if SAID and len(words) < 3 and options.get("timeout") is None:  # the third is the time
            options["timeout"] = timedelta(seconds=SAID[-1])
        return form(*words, **options)

    module.init_process_group = form_with_timeout
