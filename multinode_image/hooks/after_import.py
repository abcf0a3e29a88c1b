"""Do something right after a module has been imported, whoever imports it, and at no other time.

The finder finds nothing itself: those behind it do, and spec, loader and module stay theirs. The loader that they made
for this module runs it once by way of ours; a reload finds it anew, so that what was done is done again.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Action = Callable[[Any], None]

# Hooks that did not work.
FAILED: list[str] = []


class Finder:
    """What stands first in sys.meta_path; actions: the name of a module -> what is done with it."""

    def __init__(self, actions: Mapping[str, Action]) -> None:
        """Take the table."""
        self.actions = actions

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Return what those behind find for a module of the table; None for any other."""
        if name not in self.actions:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in behind if hasattr(finder, "find_spec"))  # type: ignore[arg-type]
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None:
            # A loader may be a class, which is that of all modules, or have no place for attributes.
            with contextlib.suppress(AttributeError, TypeError):
                follow(spec.loader, name, self.actions[name])
        return spec


def follow(loader: Any, name: str, act: Action) -> None:
    """Let a loader act once, after it has run the module of this name; what goes wrong then ends no import."""
    run, attributes = loader.exec_module, vars(loader)

    def run_and_act(module: Any) -> None:
        attributes.pop("exec_module", None)
        run(module)
        if getattr(module, "__name__", None) == name:
            with contextlib.suppress(Exception):
                act(module)

    attributes["exec_module"] = run_and_act


def say_silent(hook: str, error: Exception) -> None:
    """Say once for the job that a hook does not work here: what it holds is not held."""
    if hook not in FAILED and os.environ.get("RANK", "0") == "0":
        FAILED.append(hook)
        with contextlib.suppress(Exception):  # a stream may be closed
            print(f"multinode: {hook} does not work here: {error!r}", file=sys.stderr, flush=True)
