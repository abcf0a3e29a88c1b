"""Where a thread of Python is, told from its frames: the line of the script, what is done there, and if that waits.

What decides is the innermost frame: that of a function of torch.distributed waits for other ranks, and so does a
backward pass that takes no time of a processor, in which gradients are exchanged.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

OURS = f"{Path(__file__).parents[2]}/"
LIBRARIES = (f"{os.path.dirname(os.__file__)}/", OURS, "<")
PACKAGES = ("/site-packages/", "/dist-packages/")
GROUPS = ("/torch/distributed/", "/torch/nn/parallel/distributed.py")
BACKWARD = "/torch/autograd/"
WRAPPERS = ("wrapper", "inner", "_call_impl", "_wrapped_call_impl")  # of decorators, which say nothing
PASS = "backward"


class Spot(NamedTuple):
    """A line of the script, such as `train.py:31`, and what is done there, such as `barrier`.

    waits: whether that waits for other ranks; a backward pass does where it does not compute.
    """

    place: str
    doing: str
    waits: bool

    @property
    def text(self) -> str:
        """Return both as one, `train.py:31 (barrier)`."""
        return f"{self.place} ({self.doing})" if self.doing else self.place


def list_frames(frame: FrameType | None) -> list[FrameType]:
    """Return a frame and those that have called it, the innermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def is_of_script(path: str) -> bool:
    """Return whether a file is the user's, and not one of Python, of a package or of ours."""
    return not path.startswith(LIBRARIES) and not any(part in path for part in PACKAGES)


def find_script(frames: Sequence[FrameType]) -> int:
    """Return which of these frames, the innermost first, is the script's; the last one where none is."""
    scripts = (number for number, frame in enumerate(frames) if is_of_script(frame.f_code.co_filename))
    return next(scripts, len(frames) - 1)


def place_script(frame: FrameType) -> str:
    """Return the line of the script that has led to a frame, such as `train.py:31`."""
    return locate(frame).place


def locate(frame: FrameType | None) -> Spot:
    """Return where a thread is whose innermost frame this is."""
    frames = list_frames(frame)
    if not frames:
        return Spot("its end", "", False)
    at = find_script(frames)
    inside = [(inner.f_code.co_filename, inner.f_code.co_name) for inner in frames[:at]]
    place = f"{os.path.basename(frames[at].f_code.co_filename)}:{frames[at].f_lineno}"
    groups = [name for file, name in inside if any(part in file for part in GROUPS) and name not in WRAPPERS]
    if inside and any(part in inside[0][0] for part in GROUPS):
        return Spot(place, groups[-1] if groups else "", True)
    if inside and (BACKWARD in inside[0][0] or inside[0][0].startswith(OURS)):
        return Spot(place, PASS, True)
    return Spot(place, next((name for _, name in inside if name not in WRAPPERS), ""), False)


def list_stacks(skipped: int) -> Iterator[str]:
    """Yield the lines of the stacks of all threads, that of the script first; skipped: the number of one left out."""
    main = threading.main_thread().ident
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    for number in sorted(frames, key=lambda ident: (ident != main, ident)):
        if number == skipped:
            continue
        yield f"  {names.get(number, 'a thread')}, most recent call last:"
        for frame in reversed(list_frames(frames[number])):
            code = frame.f_code
            yield f'    File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}'
