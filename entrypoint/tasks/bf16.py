"""bf16 is what the processor computes with, or it is not: one without a unit for it trains in float32.

Emulation was 17 times slower. Each node decides for its own processor. Under autocast ranks may differ, for weights,
gradients and what the Trainer gathers are float32 all the same (accelerate/accelerator.py, prepare_model, and its
convert_outputs_to_fp32): the training is right, and as fast as its slowest rank. Where the tensors that ranks exchange
would be bf16 themselves, a node without units does not decide alone, for the others may have some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.errors import Refusal
from entrypoint.machine.files import read_file
from entrypoint.machine.limits import BF16_UNITS, has_bf16
from entrypoint.numbers import is_true
from entrypoint.settings import Setting
from entrypoint.tasks.arguments import Program, read_given, set_argument
from entrypoint.tasks.command import PLAIN, SCRIPT, SMOKE, TASK, Command
from entrypoint.tuning.starters import ACCELERATE, ACCELERATE_FLAGS, find_starter, walk_options

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = (SMOKE, TASK)
KINDS = (*OURS, SCRIPT, PLAIN)
# Insists on bf16 everywhere, or on float32 everywhere.
VARIABLE, EMULATE, FLOAT32 = "MULTINODE_BF16", "emulate", "float32"
FLAGS = ("bf16", "bf16_full_eval")
# By these a script of the user's asks for it, too.
DTYPES = ("dtype", "torch_dtype")
# What accelerate reads, and the Trainer by that, and the option of `accelerate launch` that sets it.
PRECISION, OPTION = "ACCELERATE_MIXED_PRECISION", "--mixed_precision"
# With these, ranks exchange bf16 (transformers/trainer.py: evaluation_loop, ipex_optimize_model).
EXCHANGED = ("bf16_full_eval", "use_ipex", "fsdp", "deepspeed")
NO_UNIT = f"this processor has none of {', '.join(BF16_UNITS)}"


def settle_bf16(
    command: Command, program: Program, environ: Mapping[str, str], units: frozenset[str], *, several: bool
) -> Program:
    """Return a program that trains in float32 where bf16 was asked for and would be emulated, with a line on that.

    units: the flags of the processor, none where they are not known; several: whether the world has several nodes. Of a
    user's own script only what `accelerate launch` is asked for is changed. Raise Refusal where the other nodes have to
    know what this one does.
    """
    if command.kind not in KINDS:
        return program
    word, lacks = read_choice(environ, strict=command.trains), bool(units) and not has_bf16(units)
    if word == EMULATE or not (lacks or word == FLOAT32):
        return program
    why = NO_UNIT if lacks else f"{VARIABLE}={FLOAT32}"
    typed = {each.name: each.value for each in program.typed}
    asked = [PRECISION] if typed.get(PRECISION, environ.get(PRECISION)) == "bf16" else []
    if asked:
        others = [each for each in program.typed if each.name != PRECISION]
        program = program._replace(typed=(*others, Setting(PRECISION, "no", why)))
    if command.kind in OURS:
        flags = [name for name in FLAGS if is_true(program.given.get(name))]
        asked = [*(f"--{name}" for name in flags), *asked]
        if several and not word:
            check_alike(asked, program.given)
        for name in flags:
            program = set_argument(command.name, program, name, False)
    elif lacks:
        told = list_typed(program.given or read_given(command.words, read_file, strict=False))
        program = warn(program, f"{' '.join(told)}: {why}, and emulates it, many times slower", told)
    program, option = set_option(program)
    asked += option
    insists = f"; {VARIABLE}={EMULATE} insists" if lacks else ""
    return warn(program, f"{' '.join(asked)}: trains in float32, because {why}{insists}", asked)


def read_choice(environ: Mapping[str, str], *, strict: bool) -> str:
    """Return what the user insists on; raise Refusal for a word that is not known, where it is about a training."""
    word = environ.get(VARIABLE, "").strip()
    if strict and word not in ("", EMULATE, FLOAT32):
        remedy = f"export {VARIABLE}={EMULATE} or {FLOAT32} on every node, or unset it"
        raise Refusal(f"{VARIABLE} has a value that is not known", repr(word), remedy)
    return word


def check_alike(asked: list[str], given: Mapping[str, object]) -> None:
    """Raise Refusal where this node would send float32, and others bf16: tensors of another size."""
    found = [f"--{name}" for name in EXCHANGED if is_true(given.get(name))]
    if asked and found:
        value = " ".join(dict.fromkeys([*asked, *found]))
        remedy = f"export {VARIABLE}={FLOAT32} on every node, or {EMULATE}, which is many times slower"
        raise Refusal(f"{NO_UNIT}, and other nodes may have it, to which ranks would send bf16", value, remedy)


def set_option(program: Program) -> tuple[Program, list[str]]:
    """Return a program in which a typed `accelerate launch` has no bf16, and the option that asked for it."""
    starter, options = find_starter(program.words)
    words, first, asked = list(program.words), len(program.words) - len(options), []
    for name, value, place in walk_options(options, ACCELERATE_FLAGS) if starter == ACCELERATE else ():
        if name == OPTION and value == "bf16":
            words[first + place] = words[first + place].removesuffix("bf16") + "no"
            asked = [f"{OPTION} bf16"]
    return program._replace(words=words), asked


def list_typed(given: Mapping[str, object]) -> list[str]:
    """Return the arguments of a script that ask for bf16, as they are typed."""
    flags = [f"--{name}" for name in FLAGS if is_true(given.get(name))]
    return [*flags, *(f"--{name} {given[name]}" for name in DTYPES if given.get(name) in ("bf16", "bfloat16"))]


def warn(program: Program, note: str, asked: list[str]) -> Program:
    """Return a program with a note on what was asked for, if it was."""
    return program._replace(notes=[*program.notes, note]) if asked else program
