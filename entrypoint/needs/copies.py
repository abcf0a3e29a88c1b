"""The private copy of a task's script, in which that is mended what no argument of it can mend."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.tasks.command import name_copy

if TYPE_CHECKING:
    from collections.abc import Callable

    from entrypoint.machine.image import Stack
    from entrypoint.tasks.command import Program

# Where a script itself says which data set it loads: load_dataset("xnli", ...).
LOADS = r"""(\bload_dataset\(\s*["'])([\w.-]+)(?=["'])"""
# From which checkpoint a training goes on: the argument of the Trainer's train(), and how the scripts read the flag.
RESUME, ARGUMENTS = "resume_from_checkpoint", "training_args"
READ = f"{ARGUMENTS}.{RESUME}"
COPY = "in a private copy of the script"


def copy_script(name: str, program: Program, source: str, stack: Stack) -> Program:
    """Return the program of a task with a private copy of its script, where that needs a change.

    source: that of the script. Those that need a copy import no file of their own directory.
    """
    owned, moved = name_owners(source, stack, os.path.isdir)
    text, replaced = read_resume(owned)
    if text == source:
        return program
    why = f"{COPY}: datasets finds no data set without its owner"
    notes = [f"load_dataset({old!r}) became load_dataset({new!r}) {why}" for old, new in moved.items()]
    why = f"{COPY}: that ignores --{RESUME}, and takes any directory with a model for a checkpoint"
    notes += [f"train({RESUME}={old}) became train({RESUME}={READ}) {why}" for old in replaced]
    copy = name_copy(name, text, "py")
    files = {**program.files, copy: text}
    return program._replace(words=[copy, *program.words[1:]], notes=[*program.notes, *notes], files=files)


def name_owners(source: str, stack: Stack, exists: Callable[[str], bool]) -> tuple[str, dict[str, str]]:
    """Return the source of a script whose data sets have their owners, as in flags, and their names: old -> new."""
    import re  # json has loaded it already

    from entrypoint.tasks.flags import Flag, translate

    moved: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        (flag,) = translate([Flag("dataset_name", (match[2],))], stack, exists=exists).flags
        if flag.values[0] == match[2]:
            return match[0]
        moved[match[2]] = flag.values[0]
        return match[1] + flag.values[0]

    return re.sub(LOADS, replace, source), moved


def read_resume(source: str) -> tuple[str, list[str]]:
    """Return the source of a script that reads --resume_from_checkpoint, and the names that READ has replaced.

    The scripts for CTC never read it. They go on from the last checkpoint that they find themselves, or from the
    directory of the model, whatever that is (examples/pytorch/speech-recognition).
    """
    if READ in source or f"{RESUME}=" not in source:
        return source, []
    import ast  # only such a script pays for it

    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return source, []
    if any(isinstance(node, ast.Attribute) and node.attr == RESUME for node in nodes):
        return source, []
    if not any(isinstance(node, ast.Name) and node.id == ARGUMENTS for node in nodes):
        return source, []
    trains = (node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".train"))
    values = [each.value for call in trains for each in call.keywords if each.arg == RESUME]
    names = [value for value in values if isinstance(value, ast.Name)]
    lines = source.encode().splitlines(keepends=True)  # the columns of ast count bytes
    for name in reversed(names):
        line, begin = lines[name.lineno - 1], name.col_offset
        lines[name.lineno - 1] = line[:begin] + READ.encode() + line[begin + len(name.id.encode()) :]
    return b"".join(lines).decode(), [name.id for name in names]
