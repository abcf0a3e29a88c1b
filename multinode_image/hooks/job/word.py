"""The words that ranks leave for what has started them, each a file in a directory of their node (WORD).

Rank 0 leaves its last line, which is printed once all ranks have ended well. Each rank leaves a file while it waits for
the others in init_process_group, or for long elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

WORD = "MULTINODE_WORD"
LAST_LINE, JOINING, IDLE = "last-line", "joining-", "idle-"


def offer_place(environ: MutableMapping[str, str]) -> None:
    """Make the place where ranks leave word; what those of an earlier start have left goes."""
    with contextlib.suppress(OSError):  # where nothing can be written, rank 0 prints its line
        if not environ.get(WORD):
            environ[WORD] = tempfile.mkdtemp(prefix="multinode-word-")
        for name in os.listdir(environ[WORD]):
            os.unlink(os.path.join(environ[WORD], name))


def take_last_line(environ: Mapping[str, str]) -> list[str]:
    """Return what rank 0 has left, and remove the place."""
    place, lines = environ.get(WORD, ""), list[str]()
    with contextlib.suppress(OSError), open(os.path.join(place, LAST_LINE)) as file:
        lines = [line for line in file.read().splitlines() if line]
    if place:
        shutil.rmtree(place, ignore_errors=True)
    return lines


def leave_last_line(text: str, environ: Mapping[str, str]) -> bool:
    """Leave the last line of rank 0 for what has started it; return whether that could be done."""
    try:
        with open(os.path.join(environ[WORD], LAST_LINE), "w") as file:
            file.write(text)
    except (KeyError, OSError):  # also a place of another host
        return False
    return True


def watch_groups(module: Any) -> None:
    """Let a rank leave word while it waits for the others; module: torch.distributed.distributed_c10d."""
    form = module.init_process_group

    @functools.wraps(form)
    def form_and_leave_word(*words: Any, **options: Any) -> Any:
        path = os.path.join(os.environ.get(WORD, ""), f"{JOINING}{os.environ.get('RANK', '')}")
        with contextlib.suppress(OSError):
            if os.environ.get(WORD):
                open(path, "w").close()
        try:
            return form(*words, **options)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)

    module.init_process_group = form_and_leave_word


def list_words(environ: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return what ranks of this node have left of a kind, by their numbers and in their order."""
    words = {}
    with contextlib.suppress(OSError, KeyError):
        for name in sorted(os.listdir(environ[WORD]), key=lambda name: (len(name), name)):
            if name.startswith(kind):
                words[name.removeprefix(kind)] = Path(environ[WORD], name).read_text()
    return words
