"""The start and the end of a program: its ^C, why a module cannot be imported, and a stdout that cannot be written.

It imports nothing of the rest, so that a program can set up its ^C before it imports anything else.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from images.host.errors import WorldFault

HERE = Path(__file__).resolve().parents[1]
NEW = "a new virtual environment: python3 -m venv .venv, then .venv/bin/pip install -e ."


def end_at_interrupt() -> None:
    """Let ^C end this process without a traceback, as while its modules are imported; one that is ignored stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts() -> None:
    """Let ^C raise KeyboardInterrupt again, after end_at_interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def mute(stream: TextIO) -> None:
    """Discard what is left in a stream that cannot be written, which Python would report at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def explain_import(error: Exception, environ: Mapping[str, str]) -> WorldFault | None:
    """Return the fault that an error stands for, None where it says nothing of the environment of Python."""
    from images.host.errors import WorldFault

    file, without = _find_culprit(error), "env -u PYTHONPATH python build.py ..."
    if file and any(Path(file).is_relative_to(place) for place in _list_places(environ)):
        fact = "a module of PYTHONPATH, which comes before those of the environment, does not fit"
        return WorldFault(fact, f"{file} ({error})", without)
    if isinstance(error, ModuleNotFoundError):
        remedy = "pip install -e . (in a virtual environment)"
        return WorldFault("a Python package is missing", error.name, remedy)
    return WorldFault("a Python package cannot be used", error, NEW) if isinstance(error, ImportError) else None


def _list_places(environ: Mapping[str, str]) -> list[str]:
    places = [os.path.abspath(part) for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]  # noqa: PTH100
    return [place for place in places if not HERE.is_relative_to(place)]


def _find_culprit(error: Exception) -> str | None:
    """Return the file of the module that an error is about: what could not be read, or lacks a name, or has failed."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return getattr(sys.modules.get(error.name.partition(".")[0]), "__file__", None)
    if isinstance(error, ImportError):
        return error.path
    if isinstance(error, SyntaxError):
        return error.filename
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename if trace else None
