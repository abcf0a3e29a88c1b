"""The command line of a task: the user's arguments, and the defaults for what they do not say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.machine.files import is_path, read_file
from entrypoint.machine.image import release
from entrypoint.numbers import is_true, whole
from entrypoint.printing.secrets import hide
from entrypoint.tasks.defaults import choose_defaults
from entrypoint.tasks.eras import OF_ACCELERATE, OF_TRAINER, Table
from entrypoint.tasks.flags import (
    Flag,
    Translated,
    as_number,
    drop_old,
    has_ccl,
    plain,
    show,
    spell_out,
    split_flags,
    translate,
)
from entrypoint.tasks.task import ACCELERATE, OTHER, TRAINER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.image import Stack
    from entrypoint.tasks.task import Task

OUTPUT, OUTPUT_DIR = "/workspace/output", "output_dir"
EXAMPLE = '{"model_name_or_path": "distilbert/distilbert-base-uncased", "output_dir": "/workspace/output/qa"}'
BATCH = (("per_device_train_batch_size", ""), ("gradient_accumulation_steps", "1"))
# From here on transformers refuses bf16 without a GPU unless use_cpu is given (training_args.py).
ASKS_FOR_CPU, HALF = (4, 52), ("bf16", "bf16_full_eval")
# Left out where one process is alone: accelerate would ask a group that nobody opened, and die.
BACKENDS = ("ddp_backend", "xpu_backend")
TABLES = {TRAINER: OF_TRAINER, ACCELERATE: OF_ACCELERATE, OTHER: Table()}


class Arguments(NamedTuple):
    """A command line for a task, a line for each flag that was translated, and what goes into the environment.

    found: the arguments of a file, if some of them had to change; else None.
    """

    words: list[str]
    notes: list[str]
    environ: dict[str, str]
    found: dict[str, object] | None = None


def arguments(name: str, task: Task, typed: list[str], stack: Stack, *, many: bool) -> Arguments:
    """Return the user's arguments, translated for the installed release, after the defaults that they do not replace.

    A JSON file that is the only argument has to say everything but where results go and that there is no GPU, for the
    scripts take no flag beside it.
    """
    if is_argfile(typed) and task.kind == TRAINER:
        return adapt_file(name, typed, read_argfile(typed[0], read_file), stack, many=many)
    asked = [flag._replace(name=spell_out(flag.name)) for flag in split_flags(typed)]
    check_first(name, task, asked)
    flags, notes, environ = adapt(asked, task.kind, stack, many=many)
    given = {plain(flag.name): flag.values[0] if flag.values else "" for flag in (*asked, *flags) if flag.name}
    defaults = list_defaults(name, task, stack, many=many)
    left = choose_defaults(defaults, given, task.unless)
    words = [word for flag in (*left, *flags) for word in flag.words()]
    return Arguments(words, notes + warn_prefix(defaults, {flag.name for flag in left} | given.keys()), environ)


def warn_prefix(defaults: list[Flag], names: set[str]) -> list[str]:
    """Return a note where the default prefix of T5 is left out: the name of a model need not say what it is."""
    without = [flag for flag in defaults if flag.name == "source_prefix" and flag.name not in names]
    return [
        f"{show(flag)} is left out, as for a model that is no T5: type a prefix if this one wants it"
        for flag in without
    ]


def adapt(asked: list[Flag], kind: str, stack: Stack, *, many: bool) -> Translated:
    """Return what was typed as flags of the installed release, without those that make no sense in one process."""
    alone = [flag for flag in asked if kind == TRAINER and not many and plain(flag.name) in BACKENDS]
    made = translate([flag for flag in asked if flag not in alone], stack, TABLES[kind], os.path.isdir)
    made.notes.extend(f"{show(flag)} is left out: one process has no other to communicate with" for flag in alone)
    return made


def adapt_file(name: str, typed: list[str], given: dict[str, object], stack: Stack, *, many: bool) -> Arguments:
    """Return the arguments of a file, with the names that the installed release knows."""
    kept, notes = drop_old(given, stack)
    texts = {each: str(value) for each, value in kept.items() if value is not None}
    made = adapt([Flag(each, (text,)) for each, text in texts.items()], TRAINER, stack, many=many)
    made.notes[:0] = notes
    found: dict[str, object] = {each: None for each in kept if each not in texts}
    found.update({flag.name: find_value(flag, kept, texts) for flag in made.flags})
    half = any(is_true(found.get(each)) for each in HALF)
    if half and release(stack.transformers) >= ASKS_FOR_CPU and "use_cpu" not in found:
        found["use_cpu"] = True
        made.notes.append(
            "use_cpu is added to the arguments: without it this release refuses bf16 where there is no GPU"
        )
    if found.get(OUTPUT_DIR) is None:
        found[OUTPUT_DIR] = f"{OUTPUT}/{name}"
        made.notes.append(f"{OUTPUT_DIR} {OUTPUT}/{name} is added to the arguments, which do not say where results go")
    return Arguments(typed, made.notes, made.environ, None if found == given else found)


def find_value(flag: Flag, given: Mapping[str, object], texts: Mapping[str, str]) -> object:
    """Return the value of a translated flag as the file has it, as a number or `true`: a flag has only its text."""
    text = flag.values[0]
    if texts.get(flag.name) == text:
        return given[flag.name]
    number = as_number(text)
    new: object = True if text == "True" else text if number is None else number
    return next((value for name, value in given.items() if texts.get(name) == text), new)


def check_first(name: str, task: Task, asked: list[Flag]) -> None:
    """Raise Refusal for a word before the first flag, which would become a value of the last default."""
    if not asked or asked[0].name or asked[0].values[0] in ("-h", "--"):
        return
    shown = hide([asked[0].values[0]])[0]
    if shown.startswith("-") and shown[1:2].isalpha():
        raise Refusal(f"a flag of {name} begins with two dashes", shown, f"-{shown}")
    file = f", or {name} FILE.json for all arguments" if task.kind == TRAINER else ""
    raise Refusal(f"{name} takes no word before its flags", shown, f"{name} --name value{file}")


def list_defaults(name: str, task: Task, stack: Stack, *, many: bool) -> list[Flag]:
    """List the flags that the script of the installed release gets where the user gives none."""
    defaults = read_defaults(task.defaults)
    if task.kind == OTHER:
        return defaults
    defaults.append(Flag(OUTPUT_DIR, (f"{OUTPUT}/{name}",)))
    if task.kind == ACCELERATE:
        return defaults
    defaults.append(Flag("use_cpu", ()))
    if many and has_ccl(stack):
        defaults.append(Flag("ddp_backend", ("ccl",)))
    return translate(defaults, stack).flags


def read_defaults(text: str) -> list[Flag]:
    """Return the defaults of a task as flags."""
    return [
        flag._replace(values=tuple(value.replace("~", " ") for value in flag.values))
        for flag in split_flags(text.split())
    ]


def is_argfile(words: list[str]) -> bool:
    """Return whether the only argument is a JSON file, which HfArgumentParser's scripts take for all of them."""
    return len(words) == 1 and words[0].endswith(".json")


def read_argfile(path: str, read: Callable[[str], str | None]) -> dict[str, object]:
    """Return the arguments in a JSON file; raise Refusal for one on which the script would end with a traceback."""
    import json  # read_stack has loaded it

    text = read(path)
    if text is None:
        raise Refusal("the file with arguments cannot be read", path, "an existing file, in a mounted directory")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal("the file with arguments is not JSON", f"{path}: {error}", f"a file like {EXAMPLE}") from None
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise Refusal("the file with arguments is not a JSON object", f"{path}: a {kind}", f"a file like {EXAMPLE}")
    return found


def read_given(words: list[str], read: Callable[[str], str | None], *, strict: bool) -> Mapping[str, object]:
    """Return the arguments by name; a flag without a value is True, and the last of several counts.

    strict: raise Refusal for a JSON file that HfArgumentParser cannot read, and join the values of a flag by blanks. A
    script of the user's may take any file, and what follows the first value may belong to no flag.
    """
    if is_argfile(words):
        try:
            return read_argfile(words[0], read)
        except Refusal:
            if strict:
                raise
            return {}
    count = None if strict else 1
    flags = [flag for flag in split_flags(words) if flag.name]
    return {plain(flag.name): " ".join(flag.values[:count]) if flag.values else True for flag in flags}


def find_output(given: Mapping[str, object]) -> str | None:
    """Return the directory for results; None if none is given, or if it is a URL or cannot be a path."""
    directory = given.get(OUTPUT_DIR)
    return (
        directory
        if isinstance(directory, str) and directory and "://" not in directory and is_path(directory)
        else None
    )


def read_batch(given: Mapping[str, object]) -> int | None:
    """Return how many examples one process takes for a step of the optimizer; None if no argument says so."""
    numbers = [whole(str(given.get(name, default))) for name, default in BATCH]
    return numbers[0] * numbers[1] if numbers[0] and numbers[1] else None
