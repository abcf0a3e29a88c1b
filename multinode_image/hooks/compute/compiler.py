"""Say that torch.compile has no C++ compiler here, when a script asks for it: it fails at the first step, after hours.

On a CPU it writes C++ and calls g++, which this image has not. A library that marks functions of its own, which may
never be called, says nothing; nor does a backend that needs no compiler.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from multinode_image.hooks.job.one_job import Fault
from multinode_image.hooks.job.spot import is_of_script

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

# As torch looks for it (torch/_inductor/config.py, cpp.cxx).
VARIABLE, USUAL = "CXX", "g++"
BACKEND = "inductor"
HEADERS = f"libpython3.{sys.version_info[1]}-dev"
REMEDY = f"apt-get install g++ {HEADERS} in an image FROM this one; or torch_compile=False, and no torch.compile"
MODULE = "/torch/nn/modules/"
SAID: list[str] = []


def has_compiler(environ: Mapping[str, str]) -> bool:
    """Return whether there is a program that torch would call."""
    return shutil.which(environ.get(VARIABLE) or USUAL, path=environ.get("PATH")) is not None


def watch_compile(module: Any) -> None:
    """Say it when a script calls torch.compile; module: torch."""
    compiles = getattr(module, "compile", None)
    if compiles is None or has_compiler(os.environ):
        return

    @functools.wraps(compiles)
    def say_and_compile(*words: Any, **options: Any) -> Any:
        if options.get("backend", BACKEND) == BACKEND and is_called_by_script(sys._getframe(1)):
            say("torch.compile")
        return compiles(*words, **options)

    module.compile = say_and_compile


def is_called_by_script(frame: FrameType) -> bool:
    """Return whether a script calls torch.compile itself, or the method of a model that does."""
    caller = frame.f_back if MODULE in frame.f_code.co_filename else frame
    return caller is not None and is_of_script(caller.f_code.co_filename)


def watch_arguments(module: Any) -> None:
    """Say it when arguments of a Trainer ask for torch.compile; module: transformers.training_args."""
    kind = module.TrainingArguments
    settle = kind.__post_init__

    @functools.wraps(settle)
    def settle_and_say(self: Any, *words: Any, **options: Any) -> None:
        settle(self, *words, **options)
        asks = getattr(self, "torch_compile", False) and self.torch_compile_backend == BACKEND
        if asks and not has_compiler(os.environ):
            say("torch_compile=True")

    kind.__post_init__ = settle_and_say


def say(asked: str) -> None:
    """Print it once for the job; asked: what asks for it."""
    if SAID or os.environ.get("RANK", "0") != "0":
        return
    SAID.append(asked)
    fault = Fault("this image has no C++ compiler, which torch.compile calls", asked, REMEDY)
    with contextlib.suppress(Exception):  # a stream may be closed
        print(fault, file=sys.stderr, flush=True)
