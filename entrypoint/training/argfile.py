"""What the arguments of a script say, typed one by one or in a JSON file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable

from entrypoint.errors import Refusal
from entrypoint.training.flags import plain, split_flags

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLE = '{"model_name_or_path": "distilbert/distilbert-base-uncased", "output_dir": "/workspace/output/qa"}'


def is_argfile(words: list[str]) -> bool:
    """Tell whether the only argument is a JSON file, which HfArgumentParser's scripts take for all of them."""
    return len(words) == 1 and words[0].endswith(".json")


def read_argfile(path: str, read: Callable[[str], str | None]) -> dict[str, object]:
    """Read a file with arguments; refuse one that the script would answer with a traceback."""
    import json  # read_stack has loaded it

    text = read(path)
    if text is None:
        raise Refusal("the file with arguments cannot be read", path, "an existing file, in a folder that is mounted")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal("the file with arguments is not JSON", f"{path}: {error}", f"a file like {EXAMPLE}") from None
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise Refusal("the file with arguments is not a JSON object", f"{path}: a {kind}", f"a file like {EXAMPLE}")
    return found


def read_given(words: list[str], read: Callable[[str], str | None], *, ours: bool) -> Mapping[str, object]:
    """Give the arguments by name; a flag without a value is True, the last of several counts.

    A JSON file means something else to a script that is not `ours`, so there it may be anything.
    """
    if is_argfile(words):
        try:
            return read_argfile(words[0], read)
        except Refusal:
            if ours:
                raise
            return {}
    return {plain(flag.name): flag.values[0] if flag.values else True for flag in split_flags(words) if flag.name}


def find_output(given: Mapping[str, object]) -> str | None:
    """Find the folder where the results will go; an address is none, nor is what no file system takes."""
    folder = given.get("output_dir")
    return folder if isinstance(folder, str) and folder and "://" not in folder and is_path(folder) else None


def is_path(text: str) -> bool:
    """Tell whether the system takes a text as a path; JSON may have a NUL or half a letter in it."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
