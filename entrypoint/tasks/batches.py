"""Batches of examples of like length, padded to their longest: less is computed, and the order of examples changes.

Since 4.46 the Trainer also evaluates and predicts in the order of lengths that a training with group_by_length has, and
gives what it predicts back in that order (transformers/trainer.py, _get_eval_sampler).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack, release
from entrypoint.numbers import is_no, is_true
from entrypoint.tasks.aliases import ALIASES, Flag, translate
from entrypoint.tasks.table import TRAINER, Task

REORDERED = (4, 46)
FIXED, GROUP = "pad_to_max_length", "group_by_length"
GROUPS = (GROUP, "train_sampling_strategy")
EVALUATES = ("do_eval", "eval_strategy", "evaluation_strategy")
# What the text of a script says, as patterns, which only a script pays for: that it trains with the Trainer, on text
# alone; that it gives all examples one length, as an argument says in the examples and their copies; that it needs
# predictions in the order of its data.
COMMENT = "#.*"
TRAINS = r"Trainer\s*[()]"  # it is called, or a class is made of it
OF_TEXT, OF_OTHERS = r"Tokenizer|tokenizer\(", "ImageProcessor|FeatureExtractor|AutoProcessor"
PADS_ALL = rf"padding[\"']?\s*[=:]\s*[\"']max_length[\"']|{FIXED}\s*=\s*True"
DECLARES = rf"{FIXED}: bool = field\(\s*default=(\w+)"
PREDICTS = r"\.predict\(|post_process"
# And that somebody has arranged the order, or that there are no lengths to arrange it by: a stream, blocks, or
# several texts for an example.
ARRANGED = (
    rf"{GROUP}|[Ss]ampler|[Bb]ucket|[Ss]treaming|IterableDataset|block_size|group_texts|packing|MultipleChoice|\btrl\b"
)
# A script whose arguments are those of the Trainer.
PARSES = "HfArgumentParser"


def find_reordered(task: Task, arguments: Mapping[str, object], stack: Stack) -> str | None:
    """Return the argument for which predictions have to be in the order of the examples, where they would not be."""
    if release(stack.transformers) < REORDERED:
        return None
    names = ("do_predict", *(EVALUATES if task.ordered else ()))
    return next((name for name in names if name in arguments and not is_no(str(arguments[name]))), None)


def check_order(task: Task, arguments: Mapping[str, object], stack: Stack) -> None:
    """Raise Refusal where predictions would be compared with, or written down for, other examples than their own."""
    grouped = is_true(arguments.get(GROUP)) or arguments.get("train_sampling_strategy") == GROUP
    if grouped and (reader := find_reordered(task, arguments, stack)):
        version = f"transformers {stack.transformers}"
        fact = f"{version} evaluates and predicts in the order of lengths, too, and {task.name} needs that of the data"
        remedy = "--do_train alone, and the rest in a start of its own with --model_name_or_path DIRECTORY"
        raise Refusal(fact, f"--{GROUP} and --{reader}", remedy)


def describe_batches(task: Task, left: Iterable[Flag]) -> list[str]:
    """Return a note on what the defaults make of batches; none where they make nothing of them."""
    names = {flag.name for flag in left}
    if names.isdisjoint((FIXED, *GROUPS)):
        return []
    if names.isdisjoint(GROUPS):
        more = ", and with --do_train alone put together by length" if task.ordered else ""
        return [f"batches are padded to their longest example{more}; --{FIXED} True for a fixed length"]
    return [f"batches have examples of like length and are padded to the longest; --{GROUP} False for any order"]


def advise(script: str, source: str, arguments: Mapping[str, object], stack: Stack) -> list[str]:
    """Return a note on what the user's script could gain by its batches; none where nothing is known, or it has it all.

    source: the text of the script, which is searched for words, and not understood.
    """
    text = re.sub(COMMENT, "", source)
    if not re.search(TRAINS, text) or not re.search(OF_TEXT, text) or re.search(OF_OTHERS, text):
        return []
    ways = [way for way in (shorten(text, arguments), group(text, arguments, stack)) if way]
    return [f"{script} would compute less padding, in perhaps half the time, with {' and '.join(ways)}"] if ways else []


def shorten(text: str, arguments: Mapping[str, object]) -> str:
    """Return how a script would pad a batch to its longest example; empty where it does, or may."""
    declared = re.search(DECLARES, text)
    if declared:
        return "" if is_no(str(arguments.get(FIXED, declared[1]))) else f"--{FIXED} False"
    return 'DataCollatorWithPadding(tokenizer) in place of padding="max_length"' if re.search(PADS_ALL, text) else ""


def group(text: str, arguments: Mapping[str, object], stack: Stack) -> str:
    """Return how a script would put examples of like length together; empty where the order is not ours to change."""
    is_ordered = release(stack.transformers) >= REORDERED and re.search(PREDICTS, text)
    if is_ordered or re.search(ARRANGED, text) or not arguments.keys().isdisjoint(GROUPS):
        return ""
    flag = translate([Flag(GROUP, ("True",))], stack, ALIASES[TRAINER]).flags[0]
    value = "True" if flag.name == GROUP else f'"{GROUP}"'
    return " ".join(flag.words()) if PARSES in text else f"{flag.name}={value} in TrainingArguments"
