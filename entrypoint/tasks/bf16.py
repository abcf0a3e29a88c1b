"""bf16 is what the processor computes with, or it is not: a task on one without a unit for it trains in float32.

Emulation was 17 times slower. Each node decides for its own processor. Under autocast ranks may differ, for weights,
gradients and what the Trainer gathers are float32 all the same (accelerate/accelerator.py, prepare_model, and its
convert_outputs_to_fp32): the training is right, and as fast as its slowest rank. Where the tensors that ranks exchange
would be bf16 themselves, a node without units emulates it, for the others may have some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.machine.limits import BF16_UNITS, has_bf16
from entrypoint.numbers import is_true
from entrypoint.settings import Setting
from entrypoint.tasks.aliases import split_flags
from entrypoint.tasks.arguments import Program, guess_arguments, name_flags, set_argument
from entrypoint.tasks.command import PLAIN, SCRIPT, SMOKE, TASK, Command

if TYPE_CHECKING:
    from collections.abc import Mapping

# Insists on bf16.
VARIABLE, EMULATE = "MULTINODE_BF16", "emulate"
FLAGS = ("bf16", "bf16_full_eval")
# By these a script of the user's, or accelerate, is asked for it, too.
TYPES = ("dtype", "torch_dtype", "mixed_precision")
# What accelerate reads, and the Trainer by that.
PRECISION = "ACCELERATE_MIXED_PRECISION"
# With these, ranks exchange bf16 (transformers/trainer.py: evaluation_loop, ipex_optimize_model).
EXCHANGED = ("bf16_full_eval", "use_ipex", "fsdp", "deepspeed")
NO_UNIT = f"this processor has none of {', '.join(BF16_UNITS)}"


def settle_bf16(
    command: Command, program: Program, environ: Mapping[str, str], units: frozenset[str], *, several: bool
) -> Program:
    """Return a program that trains in float32 where bf16 was asked for and would be emulated, with a line on that.

    units: the flags of the processor, none where they are not known; several: whether the world has several nodes. A
    script of the user's is not changed.
    """
    if not units or has_bf16(units) or environ.get(VARIABLE) == EMULATE:
        return program
    arguments = program.arguments if command.kind != PLAIN else guess_arguments(command.words)
    asked = list_asked(program, arguments, environ) if command.kind in (SMOKE, TASK, SCRIPT, PLAIN) else []
    if not asked:
        return program
    exchanges = several and any(is_true(arguments.get(name)) for name in EXCHANGED)
    if command.kind in (SCRIPT, PLAIN) or exchanges:
        return program._replace(
            notes=[*program.notes, f"{' '.join(asked)}: {NO_UNIT}, and emulates it, many times slower"]
        )
    for name, value in name_flags(split_flags(program.words)).items():  # the flags of some tasks became the variable
        program = set_argument(program, name, False) if name in FLAGS and is_true(value) else program
    if PRECISION in asked:
        others = [each for each in program.forced if each.name != PRECISION]
        program = program._replace(forced=(*others, Setting(PRECISION, "no", NO_UNIT)))
    note = f"{' '.join(asked)}: trains in float32, because {NO_UNIT}; {VARIABLE}={EMULATE} insists"
    return program._replace(notes=[*program.notes, note])


def list_asked(program: Program, arguments: Mapping[str, object], environ: Mapping[str, str]) -> list[str]:
    """Return what asks for bf16, as it is typed, and the variable."""
    forced = {each.name: each.value for each in program.forced}
    return [
        *(f"--{name}" for name in FLAGS if is_true(arguments.get(name))),
        *(f"--{name} {arguments[name]}" for name in TYPES if arguments.get(name) in ("bf16", "bfloat16")),
        *([PRECISION] if forced.get(PRECISION, environ.get(PRECISION)) == "bf16" else []),
    ]
