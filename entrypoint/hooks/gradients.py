"""Let every DistributedDataParallel of a training exchange its gradients by our hook (exchange/).

Ranks compare what was chosen when a model is wrapped, where all of them are. The hook is registered at the first
forward pass, so that one of the script's own comes first.
"""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

ROOT, PACKAGE = Path(__file__).parents[2], "entrypoint"


class Seen:
    """What is known of the training in this process.

    lowers: how many times it has begun to compute in bfloat16 what gradients are kept of; sent: how gradients are
    exchanged (tuning/gradients.py), empty before the first; waited: the seconds in which a backward pass had computed
    all, and gradients were still exchanged; None where nobody counts them.
    """

    lowers = 0
    sent = ""
    waited: float | None = None


SEEN = Seen()


def watch_autocast(module: Any) -> None:
    """Notice where a training computes in bfloat16; module: torch.amp.autocast_mode."""
    enter, torch = module.autocast.__enter__, module.torch

    @functools.wraps(enter)
    def enter_and_notice(self: Any) -> Any:
        if self.device == "cpu" and self._enabled and self.fast_dtype is torch.bfloat16 and torch.is_grad_enabled():
            SEEN.lowers += 1
        return enter(self)

    module.autocast.__enter__ = enter_and_notice


def watch_parallel(module: Any) -> None:
    """Let each DistributedDataParallel choose when it is made, and get the hook at its first forward pass.

    module: torch.nn.parallel.distributed. A torch before _lazy_init, which is called once, compiles nothing.
    """
    kind = module.DistributedDataParallel
    lazy = hasattr(kind, "_lazy_init")
    first = "_lazy_init" if lazy else "forward"
    make, run = kind.__init__, getattr(kind, first)

    @functools.wraps(make)
    def make_and_choose(self: Any, *words: Any, **options: Any) -> None:
        make(self, *words, **options)
        load_choice().choose(self)

    @functools.wraps(run)
    def attach_and_run(self: Any, *words: Any, **options: Any) -> Any:
        if lazy:
            run(self)  # it registers a hook where optimizers step in the backward pass
        load_choice().attach(self, SEEN)
        return None if lazy else run(self, *words, **options)

    not_compiled = getattr(sys.modules.get("torch._compile"), "_disable_dynamo", lambda method: method)
    kind.__init__ = make_and_choose
    setattr(kind, first, not_compiled(attach_and_run))


@functools.cache
def load_choice() -> Any:
    """Import exchange/choice.py, and leave no trace: a script may have a module that is called as this package is."""
    theirs = take_out()
    sys.path.insert(0, str(ROOT))
    try:
        return importlib.import_module(f"{PACKAGE}.programs.exchange.choice")
    finally:
        sys.path.remove(str(ROOT))
        take_out()
        sys.modules.update(theirs)


def take_out() -> dict[str, Any]:
    """Take all modules of a package called as this one out of those that are imported, and return them."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == PACKAGE}
