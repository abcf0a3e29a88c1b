"""bf16 is what the processor computes with, or it is not: a task on one without a unit for it trains in float32.

Emulation was 17 times slower. Each node decides for its own processor. Under autocast ranks may differ, for weights,
gradients and what the Trainer gathers are float32 all the same (accelerate/accelerator.py, prepare_model, and its
convert_outputs_to_fp32): the training is right, and as fast as its slowest rank. Where the tensors that ranks exchange
would be bf16 themselves, a node of several without units refuses it, for the others may have some: they would wait for
tensors of another size.
"""

from __future__ import annotations

from collections.abc import Mapping

from entrypoint.errors import Refusal
from entrypoint.machine.limits import BF16_UNITS, has_bf16
from entrypoint.numbers import is_true
from entrypoint.settings import Setting
from entrypoint.tasks.arguments import Program, guess_arguments, set_argument
from entrypoint.tasks.command import Command

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
    script of the user's is not changed. Raise Refusal where the other nodes have to know what this one does.
    """
    word = environ.get(VARIABLE, "").strip()
    if command.trains and word not in ("", EMULATE):
        raise Refusal(
            f"{VARIABLE} has a value that is not known", repr(word), f"export {VARIABLE}={EMULATE}, or unset it"
        )
    if not units or has_bf16(units) or word == EMULATE:
        return program
    kind = command.kind
    arguments = guess_arguments(command.words) if kind.is_yours else program.arguments
    requests = list_asked(arguments, environ) if kind.is_yours or kind.is_script else []
    if not requests:
        return program
    if kind.is_yours:
        note = f"{' '.join(requests)}: {NO_UNIT}, and emulates it, many times slower"
        return program._replace(notes=[*program.notes, note])
    exchanged = [f"--{name}" for name in EXCHANGED if several and is_true(arguments.get(name))]
    if exchanged:
        fact = f"{NO_UNIT}, and ranks would exchange bf16 with nodes that may have one"
        remedy = f"leave {' '.join(exchanged)} out on every node, or export {VARIABLE}={EMULATE}, many times slower"
        raise Refusal(fact, " ".join(dict.fromkeys([*requests, *exchanged])), remedy)
    for name in FLAGS:
        program = set_argument(program, name, False) if is_true(arguments.get(name)) else program
    if PRECISION in requests:
        program = program._replace(forced=(*program.forced, Setting(PRECISION, "no", NO_UNIT)))
    note = f"{' '.join(requests)}: trains in float32, because {NO_UNIT}; {VARIABLE}={EMULATE} insists"
    return program._replace(notes=[*program.notes, note])


def list_asked(arguments: Mapping[str, object], environ: Mapping[str, str]) -> list[str]:
    """Return what asks for bf16, as it is typed, and the variable."""
    return [
        *(f"--{name}" for name in FLAGS if is_true(arguments.get(name))),
        *(f"--{name} {arguments[name]}" for name in TYPES if arguments.get(name) in ("bf16", "bfloat16")),
        *([PRECISION] if environ.get(PRECISION) == "bf16" else []),
    ]
