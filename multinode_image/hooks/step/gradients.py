"""Let every DistributedDataParallel of a training exchange its gradients by our hook (exchange/).

Ranks compare what was chosen when a model is wrapped, where all of them are. The hook is registered at the first
forward pass, or where the script expects a rank without batches, so that one of the script's own comes first. One that
comes later takes its place.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# How a reducer gets a hook, in torch.distributed.
REGISTER = ("_register_comm_hook", "_register_builtin_comm_hook")


class Seen:
    """What is known of the training in this process.

    in_bf16: whether it has ever computed in bfloat16 what gradients are kept of; entered: the types of autocast that it
    has entered since the last backward pass, None for one that is turned off; origins: what is known of backward passes
    (exchange/origins.py), once somebody asks; sent: how gradients are exchanged (tuning/gradients.py), empty before the
    first; waited: the seconds in which a backward pass had computed all, and gradients were still exchanged, and those
    in which ranks waited to count labels (mean_loss.py); None where nobody counts them.
    """

    in_bf16 = False
    origins: Any = None
    sent = ""
    waited: float | None = None

    def __init__(self) -> None:
        """Begin with nothing."""
        self.entered: set[Any] = set()

    def watch(self, make: Callable[[], Any]) -> Any:
        """Look at backward passes from now on; return what is known of them."""
        self.origins = self.origins or make()
        return self.origins


SEEN = Seen()


def watch_autocast(module: Any) -> None:
    """Notice where a training computes in bfloat16; module: torch.amp.autocast_mode."""
    enter, torch = module.autocast.__enter__, module.torch

    @functools.wraps(enter)
    def enter_and_notice(self: Any) -> Any:
        if self.device == "cpu" and torch.is_grad_enabled():
            SEEN.entered.add(self.fast_dtype if self._enabled else None)
            SEEN.in_bf16 = SEEN.in_bf16 or torch.bfloat16 in SEEN.entered
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
    if hasattr(kind, "join_hook"):
        kind.join_hook = attach_and_shadow(kind.join_hook)
    module.torch.autograd.backward = not_compiled(look_and_run(module.torch.autograd.backward))
    for name in REGISTER:
        if hasattr(module.dist, name):
            setattr(module.dist, name, register_or_replace(getattr(module.dist, name)))
    kind.__init__ = make_and_choose
    setattr(kind, first, not_compiled(attach_and_run))


def look_and_run(backward: Callable[..., None]) -> Callable[..., None]:
    """Return torch.autograd.backward, with a look at its graph where somebody asks; a pass within one is part of it."""

    @functools.wraps(backward)
    def run(tensors: Any, *words: Any, **options: Any) -> None:
        origins = SEEN.origins
        if origins is None or origins.within:
            backward(tensors, *words, **options)
            return
        origins.begin(tensors, SEEN.in_bf16, SEEN.entered)
        try:
            backward(tensors, *words, **options)
        finally:
            origins.end()
            SEEN.entered.clear()

    return run


def attach_and_shadow(shadow: Callable[..., Any]) -> Callable[..., Any]:
    """Return DDP's join_hook, which tells a rank what to do once it has no batches, with the hook registered before."""

    @functools.wraps(shadow)
    def run(self: Any, **options: Any) -> Any:
        load_choice().attach_to_join(self, SEEN, options.get("divide_by_initial_world_size", True))
        return shadow(self, **options)

    return run


def register_or_replace(register: Callable[..., None]) -> Callable[..., None]:
    """Return what gives a reducer a hook, also where it has ours: torch takes none beside it."""

    @functools.wraps(register)
    def run(reducer: Any, *words: Any) -> None:
        if not load_choice().give_way(reducer, SEEN, *words):
            register(reducer, *words)

    return run


@functools.cache
def load_choice() -> Any:
    """Import exchange/choice.py, which needs torch."""
    from multinode_image.exchange import choice

    return choice
