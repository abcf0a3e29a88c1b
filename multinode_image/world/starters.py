"""Programs that start ranks themselves, as they are typed: which one it is, and how many ranks it starts here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.reading import PORT, read_port
from multinode_image.world.model import TORCHRUN
from multinode_image.world.torchrun import (
    AUTO,
    C10D_PORT,
    EACH,
    FLAGS,
    HELP_FLAGS,
    INDEX,
    MASTER_PORT,
    MODULE_FLAGS,
    NODE,
    NPROC,
    OPTIONS,
    RESTARTS,
    check_standalone,
    find_meeting,
    parse_nodes,
    read_count,
    spell_setting,
)

# By which `accelerate launch` may start several processes on a CPU (accelerate/commands/launch.py, launch_command), and
# its usual options without a value.
KINDS = ("--multi_gpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--tpu")
CONFIG, HOSTFILE = "--config_file", "--mpirun_hostfile"
SEVERAL = (*KINDS, HOSTFILE)
ACCELERATE_FLAGS = (*HELP_FLAGS, *MODULE_FLAGS, *KINDS, "--cpu", "--debug", "-q", "--quiet")


def may_start_several(typed: Mapping[str, str]) -> bool:
    """Return whether the options of accelerate, or a file that they name, may start several processes."""
    return not typed.keys().isdisjoint({*SEVERAL, CONFIG})


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

    local_size: how many on this node, None where that is not known, or the machine decides; torchrun: the variables
    that describe a torchrun, None for any other; needs_count: whether no option of torchrun says how many.
    """

    program: str
    local_size: int | None
    torchrun: Mapping[str, str] | None = None
    needs_count: bool = False


class Code(NamedTuple):
    """What a command line runs: by which program that starts ranks, if by any; a module (m), a text (c) or a file."""

    program: str
    letter: str
    name: str
    words: list[str]

    @property
    def is_script(self) -> bool:
        """Return whether it is a file of Python."""
        return not self.letter and self.name.endswith(".py")


def read_start(words: list[str], environ: Mapping[str, str], nproc: int | None = None) -> Start | None:
    """Return what a command line starts; None if it is no program that starts ranks, or prints torchrun's help.

    Raise Refusal for a number of processes that torchrun cannot start, and for several nodes of a standalone one.
    """
    program, options = find_starter(words)
    if program == TORCHRUN:
        values = parse_options(options, FLAGS)
        if not values.keys().isdisjoint(HELP_FLAGS):
            return None
        described = describe_typed(values, environ, nproc)
        return Start(program, read_count(described), described, EACH not in values)
    if program == ACCELERATE:
        return Start(program, None if may_start_several(parse_options(options, ACCELERATE_FLAGS)) else 1)
    return Start(program, None) if program else None


def describe_typed(typed: Mapping[str, str], environ: Mapping[str, str], nproc: int | None) -> dict[str, str]:
    """Return the variables that describe the ranks of a typed torchrun; without any it starts one, on one node.

    Raise Refusal for several nodes without a place to meet: torchrun would take each node for it, so that some wait
    without end, and some train alone.
    """
    described = {name: value for name, value in environ.items() if value and name.startswith("PET_")}
    if nproc is not None:
        described[NPROC] = str(nproc)
    described.update({"PET_" + name[2:].upper(): typed[name] for name in OPTIONS if name in typed})
    nodes = parse_nodes(described.get("PET_NNODES", "1"))[1]
    if check_standalone(described, nodes):
        return {NPROC: described.get(NPROC, "1"), RESTARTS: described.get(RESTARTS, "0")}
    read_port(described.get(MASTER_PORT, ""), spell_setting(MASTER_PORT, PORT))
    if nodes > 1 and not find_meeting(described):
        remedy = (
            "--master_addr NODE0 --node_rank R (from 0) on every node, or --rdzv_backend c10d --rdzv_endpoint "
            f"NODE0:{C10D_PORT}; --master_addr 127.0.0.1 where all agents are on this machine"
        )
        fact = "nothing says where the nodes of this torchrun meet"
        raise Refusal(fact, f"--nnodes {described['PET_NNODES']}", remedy)
    node = environ.get(INDEX, "").strip() if nodes > 1 else ""
    return {"PET_NNODES": "1", NPROC: "1", NODE: node or "0", **described}


def find_starter(words: list[str]) -> tuple[str, list[str]]:
    """Return which program that starts ranks a command line names, and the words after it; an empty one if none."""
    name, rest = os.path.basename(words[0]), words[1:]
    if is_python(name):
        code = read_python(rest)
        if code.letter == "m" and code.name in MODULES:
            return MODULES[code.name], code.words
    if name == ACCELERATE:
        return (name, rest[1:]) if rest[:1] == ["launch"] else ("", rest)
    return PROGRAMS.get(name, ""), rest


def is_python(name: str) -> bool:
    """Return whether a program is Python, also one with its directory."""
    return os.path.basename(name).startswith("python")


def find_code(line: list[str]) -> Code:
    """Return what a typed Python, torchrun or accelerate runs, and its arguments; nothing for any other program."""
    program, left = find_starter(line)
    flags = {TORCHRUN: FLAGS, ACCELERATE: ACCELERATE_FLAGS}.get(program)
    if flags is None:
        return read_python(line[1:]) if is_python(line[0]) else Code(program, "", "", [])
    options = list(walk_options(left, flags))
    left = left[options[-1][2] + 1 :] if options else left
    left = left[1:] if left[:1] == ["--"] else left
    letter = "m" if any(name in MODULE_FLAGS[:2] for name, _, _ in options) else ""
    return Code(program, letter, "".join(left[:1]), left[1:])


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
                return Code("", option[place], value, left)
    return Code("", "", "".join(left[:1]), left[1:])


def walk_options(words: list[str], flags: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    """Yield each option before a script with underscores, its value, and the place of the word in which that ends.

    flags: the options without a value. As for argparse, no value begins with a dash, but for a number below 0. A script
    is no value of an option that is not known here.
    """
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        name, equals, value = words[place].partition("=")
        name = complete_option(name[:2] + name[2:].replace("-", "_"), flags)
        attached = len(name) > 2 and not name.startswith("--")  # a value in the same word, as in -r3
        following = words[place + 1] if place + 1 < len(words) else "-"
        no_value = (following.startswith("-") and not following[1:].isdigit()) or following.endswith(".py")
        bare = name in flags or attached or (not equals and no_value)
        if not bare and not equals:
            place, value = place + 1, following
        yield name, "1" if bare else value, place
        place += 1


def parse_options(words: list[str], flags: tuple[str, ...]) -> dict[str, str]:
    """Return the options before a script with their values, 1 for one without; the last counts."""
    return {name: value for name, value, _ in walk_options(words, flags)}


def complete_option(name: str, flags: tuple[str, ...]) -> str:
    """Return the only option of torchrun that begins so, for which argparse takes a name; else the name itself."""
    names = [each for each in {*FLAGS, *OPTIONS} if each.startswith(name)] if flags is FLAGS else []
    return names[0] if len(names) == 1 and name.startswith("--") else name


def replace_auto(words: list[str], count: int) -> list[str]:
    """Return a torchrun's command line with a number in the place of `auto`, which is a process for each processor."""
    program, options = find_starter(words)
    new, start = list(words), len(words) - len(options)
    for name, value, place in walk_options(options, FLAGS) if program == TORCHRUN else ():
        if name == EACH and value.lower() in AUTO:
            word = new[start + place]
            new[start + place] = f"{word[: len(word) - len(value)]}{count}"
    return new


def find_lone(line: list[str]) -> str:
    """Return what a typed Python or accelerate runs in one process, as it is typed for ranks: `x.py`, `-m x`."""
    code, (program, options) = find_code(line), find_starter(line)
    if program not in ("", ACCELERATE):
        return ""
    if program and may_start_several(parse_options(options, ACCELERATE_FLAGS)):
        return ""
    return f"-m {code.name}" if code.letter == "m" else code.name if code.is_script else ""
