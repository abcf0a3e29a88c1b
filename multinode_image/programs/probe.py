"""Report on a process that is started like a training; the last line printed is a JSON object for `doctor`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Mapping
from typing import Any, Callable, NoReturn

# Packages of which each build belongs to one build of torch; transformers imports them where they are installed.
BESIDE_TORCH = ("torchvision", "torchaudio")
TRAINER = (*BESIDE_TORCH, "transformers", "transformers.trainer")


def examine_torch(report: dict[str, Any], backend: str) -> None:
    """Add which torch is imported, form a group of one with the backend, and reduce a number in it."""
    import torch
    import torch.distributed as dist

    # Known even where no group forms.
    report.update(torch=torch.__version__, file=torch.__file__)
    import_backend(backend)
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    number = torch.ones(1)
    dist.all_reduce(number)
    if number.item() != 1:
        raise ValueError(f"the sum of a single 1 is {number.item()}")


def import_backend(backend: str) -> None:
    """Import what torch needs for a backend; since torch 1.12 the bindings of oneCCL have the longer name."""
    import torch

    if backend == "ccl":
        __import__("torch_ccl" if torch.__version__.startswith(("1.10", "1.11")) else "oneccl_bindings_for_pytorch")


def examine_transformers(report: dict[str, Any]) -> None:
    """Add which transformers is imported, if its Trainer can be; `importing` is the last of TRAINER that was tried."""
    for name in TRAINER:
        report["importing"] = name
        if name not in BESIDE_TORCH or importlib.util.find_spec(name):
            importlib.import_module(name)
    report["transformers"] = sys.modules["transformers"].__version__


def attempt(examine: Callable[[], None]) -> str:
    """Return what failed in an examination, in one line; empty if nothing did."""
    try:
        examine()
    except Exception as failure:
        error: BaseException = failure
        while error.__cause__ is not None:  # transformers itself says only that it could not import a name of its own
            error = error.__cause__
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    return ""


def main(argv: list[str], environ: Mapping[str, str], root: str) -> NoReturn:
    """Print what was found with a backend, the only argument, and end at once.

    A group that is destroyed right after a collective may hang.
    """
    report: dict[str, Any] = {"python": platform.python_version(), "path": sys.path[1:]}
    report["error"] = attempt(lambda: examine_torch(report, argv[0]))
    report["broken"] = attempt(lambda: examine_transformers(report))
    print(json.dumps(report), flush=True)
    os._exit(0)
