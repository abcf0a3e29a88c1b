"""Programs that start ranks themselves, as they are typed: which one it is. What it starts is asked of itself.

torchrun and accelerate read their options and variables, and say then what they have read (hooks/ends/agents.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from multinode_image.world.model import TORCHRUN

ACCELERATE, MPIRUN = "accelerate", "mpirun"
PROGRAMS = {
    "torchrun": TORCHRUN,
    "accelerate": ACCELERATE,
    "accelerate-launch": ACCELERATE,
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"), MPIRUN),
}
MODULES = {
    "torch.distributed.run": TORCHRUN,
    "torch.distributed.launch": TORCHRUN,
    "accelerate.commands.launch": ACCELERATE,
}
SHELLS = ("bash", "sh", "dash", "env", "nice", "nohup", "numactl", "setsid", "stdbuf", "taskset", "timeout")
# Python's options whose value follows them, in the same word or the next one.
WITH_VALUE = "cmWX"


class Start(NamedTuple):
    """A program that will start ranks.

    local_size: how many on this node, None where that is not known, or the machine decides; described: the variables
    that describe the ranks of a torchrun that has read its options, None before that, and for any other program.
    """

    program: str
    local_size: int | None
    described: Mapping[str, str] | None = None

    @property
    def is_torchrun(self) -> bool:
        """Return whether it is torchrun."""
        return self.program == TORCHRUN

    @property
    def must_be_asked(self) -> bool:
        """Return whether it is a torchrun that has not read its options yet."""
        return self.is_torchrun and self.described is None


class Code(NamedTuple):
    """What a Python runs: a module (m), a text (c) or a file, and the arguments of that."""

    letter: str
    name: str
    words: list[str]

    @property
    def is_script(self) -> bool:
        """Return whether it is a file of Python."""
        return not self.letter and self.name.endswith(".py")


def find_start(line: list[str]) -> Start | None:
    """Return the program that starts ranks in a command line; None if it starts none.

    On a CPU accelerate starts one process (accelerate/commands/launch.py, simple_launcher), or mpirun, of which it says
    so then.
    """
    name, words = os.path.basename(line[0]), line[1:]
    program = PROGRAMS.get(name, "")
    if is_python(name):
        code = read_python(words)
        program = MODULES.get(code.name, "") if code.letter == "m" else ""
    if name == ACCELERATE and words[:1] != ["launch"]:
        return None
    return Start(program, 1 if program == ACCELERATE else None) if program else None


def is_python(name: str) -> bool:
    """Return whether a program is Python, also one with its directory."""
    return os.path.basename(name).startswith("python")


def find_code(line: list[str]) -> Code:
    """Return what a typed Python runs; nothing for any other program, and for one that starts ranks."""
    return Code("", "", []) if find_start(line) or not is_python(line[0]) else read_python(line[1:])


def read_python(words: list[str]) -> Code:
    """Return what Python runs; its options may be written together, as in `-um NAME`."""
    left = list(words)
    while left and left[0].startswith("-") and left[0] not in ("-", "--"):
        option = left.pop(0)
        place = next((place for place, letter in enumerate(option) if letter in WITH_VALUE), None)
        if option == "--check-hash-based-pycs":
            left = left[1:]  # its value
        elif place is not None and not option.startswith("--"):
            value = option[place + 1 :] or "".join(left[:1])
            left = left if option[place + 1 :] else left[1:]
            if option[place] in "cm":
                return Code(option[place], value, left)
    left = left[1:] if left[:1] == ["--"] else left  # the end of its options
    return Code("", "".join(left[:1]), left[1:])


def find_lone(line: list[str]) -> str:
    """Return what a typed Python runs in one process, as it is typed for ranks: `x.py`, `-m x`; empty for others."""
    code = find_code(line)
    return f"-m {code.name}" if code.letter == "m" else code.name if code.is_script else ""
