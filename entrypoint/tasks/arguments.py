"""The script and its command line: the user's arguments, and the defaults for what they do not say."""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.machine.files import private_path, read_file
from entrypoint.numbers import whole
from entrypoint.printing.secrets import hide
from entrypoint.settings import Setting
from entrypoint.tasks.aliases import ALIASES, Flag, Translated, plain, show, spell_out, split_flags, translate
from entrypoint.tasks.command import SCRIPT, SMOKE, TASK, Command
from entrypoint.tasks.defaults import OUTPUT, OUTPUT_DIR, choose_defaults, list_defaults
from entrypoint.tasks.preflight import Image, check_given, check_image, warn_failing
from entrypoint.tasks.table import ACCELERATE, TRAINER, Task, find_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.image import Stack
    from entrypoint.world.model import World

EXAMPLE = '{"model_name_or_path": "distilbert/distilbert-base-uncased", "output_dir": "/workspace/output/qa"}'
BATCH = (("per_device_train_batch_size", ""), ("gradient_accumulation_steps", "1"))
# Left out where one process is alone: accelerate would ask a group that nobody opened, and die.
BACKENDS = ("ddp_backend", "xpu_backend")
# What --use_cpu says to the Trainer; without either, accelerate trains every rank alone since 1.13.
ON_CPU = Setting("ACCELERATE_USE_CPU", "1", "without it accelerate counts no ranks on a CPU")


class Program(NamedTuple):
    """A Python script with its arguments, a note on each one that was translated, and the arguments by name.

    typed: variables in place of flags that the user typed; defaults: variables for what has no flag; files: private
    files that the script gets, by path.
    """

    words: list[str]
    notes: list[str]
    given: Mapping[str, object]
    typed: tuple[Setting, ...] = ()
    defaults: tuple[Setting, ...] = ()
    files: Mapping[str, str] = {}


def read_program(command: Command, stack: Stack, environ: Mapping[str, str], world: World, root: str) -> Program:
    """Return the script of a command with complete arguments, any other command as it stands; root: where smoke.py is.

    Raise Refusal for a task that would fail in this image or this world, or train another thing than was meant.
    """
    many = world.sizes[1] > 1
    if command.kind == TASK:
        program = read_task(command, stack, environ, many=many)
    elif command.kind == SMOKE:
        program = read_smoke(command, stack, f"{root}/smoke.py", many=many)
    elif command.kind == SCRIPT:
        given = read_given(command.words, read_file, strict=False)
        program = Program([command.name, *command.words], [], given, defaults=(ON_CPU,))
    else:
        program = Program([command.name, *command.words], [], {})
    # What the environment has already is the image's, not the user's.
    new = tuple(each for each in program.defaults if environ.get(each.name) != each.value)
    return program._replace(defaults=new)


def read_smoke(command: Command, stack: Stack, script: str, *, many: bool) -> Program:
    """Return the program of `smoke`."""
    if command.helps:
        return Program([script, "--help"], [], {})
    made = adapt(split_flags(command.words), TRAINER, stack, many=many)
    words = [word for flag in made.flags for word in flag.words()]
    given = read_given(words, read_file, strict=True)
    return Program([script, *words], made.notes, given, as_settings(made.environ))


def read_task(command: Command, stack: Stack, environ: Mapping[str, str], *, many: bool) -> Program:
    """Return the program of a task, if this image has all that it needs."""
    task, image = find_task(command.name), Image(stack, environ)
    script = check_image(task, image)
    if command.helps:
        return Program([script, "--help"], [], {})
    program = complete(task, script, command.words, stack, many=many)
    if program.given.get(OUTPUT_DIR) == "":
        raise Refusal(
            "the directory for results has no name", f"{OUTPUT_DIR} ''", f"--{OUTPUT_DIR} {OUTPUT}/{task.name}"
        )
    found = check_given(task, program.given, image)
    copy = f"; a corrected copy can be mounted at {script}"
    notes = [*program.notes, *(f"{note}{copy}" for note in warn_failing(task, image))]
    return program._replace(notes=notes, defaults=(*program.defaults, *found))


def complete(task: Task, script: str, typed: list[str], stack: Stack, *, many: bool) -> Program:
    """Return the user's arguments, translated for the installed release, after the defaults that they do not replace.

    A JSON file that is the only argument has to say everything but where results go and that there is no GPU, for the
    scripts take no flag beside it.
    """
    if is_argfile(typed) and task.kind == TRAINER:
        return complete_file(task, script, typed[0], stack, many=many)
    asked = [flag._replace(name=spell_out(flag.name)) for flag in split_flags(typed)]
    check_first(task, asked)
    made = adapt(asked, task.kind, stack, many=many)
    names = {plain(flag.name): flag.values[0] if flag.values else "" for flag in (*asked, *made.flags) if flag.name}
    left = choose_defaults(list_defaults(task, stack, many=many), names, task)
    words = [word for flag in (*left, *made.flags) for word in flag.words()]
    given = read_given(words, read_file, strict=True)
    if task.kind == ACCELERATE:  # some of its flags went into the environment
        given = {**read_given(typed, read_file, strict=True), **given}
    own = (ON_CPU,) if task.kind == ACCELERATE else ()
    return Program([script, *words], made.notes, given, as_settings(made.environ), own)


def complete_file(task: Task, script: str, path: str, stack: Stack, *, many: bool) -> Program:
    """Return the program of a task with a file of arguments; a private copy has the names that this release knows."""
    given = read_argfile(path, read_file)
    for name in given:
        if "-" in name:
            raise Refusal("the names in a file of arguments have no dashes", name, f"{plain(name)} in its place")
    texts = {name: str(value) for name, value in given.items() if value is not None}
    made = adapt([Flag(name, (text,)) for name, text in texts.items()], task.kind, stack, many=many)
    found: dict[str, object] = {name: None for name in given if name not in texts}
    found.update({flag.name: find_value(flag, given) for flag in made.flags})
    program = Program([script, path], made.notes, found, as_settings(made.environ))
    if found != given:
        program = use_copy(task.name, program)
    # Without use_cpu transformers refuses bf16 where there is no GPU, since 4.52 (transformers/training_args.py).
    for flag in list_defaults(task, stack, many=False):
        if flag.name in (OUTPUT_DIR, "use_cpu", "no_cuda") and found.get(flag.name) is None:
            program = set_argument(task.name, program, flag.name, flag.values[0] if flag.values else True)
            program.notes.append(f"{show(flag)[2:]} is added to the arguments, which do not have it")
    return program


def find_value(flag: Flag, given: Mapping[str, object]) -> object:
    """Return the value of a translated flag as the file has it, as a number or `true`: a flag has only its text."""
    text = flag.values[0] if flag.values else "True"
    if text == str(given.get(flag.name)):
        return given[flag.name]
    return next((value for value in given.values() if str(value) == text), True if text == "True" else text)


def adapt(asked: list[Flag], kind: str, stack: Stack, *, many: bool) -> Translated:
    """Return what was typed as flags of the installed release, without those that make no sense in one process."""
    alone = [flag for flag in asked if kind == TRAINER and not many and plain(flag.name) in BACKENDS]
    made = translate([flag for flag in asked if flag not in alone], stack, ALIASES[kind], os.path.isdir)
    made.notes.extend(f"{show(flag)} is left out: one process has no other to communicate with" for flag in alone)
    return made


def check_first(task: Task, asked: list[Flag]) -> None:
    """Raise Refusal for a word before the first flag, which would become a value of the last default."""
    if not asked or asked[0].name or asked[0].values[0] in ("-h", "--"):
        return
    file = f", or {task.name} FILE.json for all arguments" if task.kind == TRAINER else ""
    word = hide([asked[0].values[0]])[0]
    raise Refusal(f"{task.name} takes no word before its flags", word, f"{task.name} --name value{file}")


def is_argfile(words: list[str]) -> bool:
    """Return whether the only argument is a JSON file, which HfArgumentParser's scripts take for all of them."""
    return len(words) == 1 and words[0].endswith(".json")


def read_argfile(path: str, read: Callable[[str], str | None]) -> dict[str, object]:
    """Return the arguments in a JSON file; raise Refusal for one on which the script would end with a traceback."""
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


def read_batch(given: Mapping[str, object]) -> int | None:
    """Return how many examples one process takes for a step of the optimizer; None if no argument says so."""
    numbers = [whole(str(given.get(name, default))) for name, default in BATCH]
    return numbers[0] * numbers[1] if numbers[0] and numbers[1] else None


def set_argument(name: str, program: Program, argument: str, value: str | int) -> Program:
    """Return a program with an argument added or changed; a file that has all arguments is copied for that.

    name: that of the copy; value: True for a flag without a value; a file has a number as such.
    """
    script, *words = program.words
    given, values = {**program.given, argument: value}, () if value is True else (str(value),)
    if is_argfile(words):
        return use_copy(name, program._replace(given=given))
    if argument not in program.given:
        return program._replace(words=[script, *words, f"--{argument}", *values], given=given)
    flags = [
        flag._replace(values=values, joined=flag.joined and bool(values)) if plain(flag.name) == argument else flag
        for flag in split_flags(words)
    ]
    return program._replace(words=[script, *(word for flag in flags for word in flag.words())], given=given)


def use_copy(name: str, program: Program) -> Program:
    """Return a program whose arguments are in a private file; another text has another path."""
    text = json.dumps(program.given, indent=1)
    path = private_path(f"{name}-{zlib.crc32(text.encode()):08x}.json")
    return program._replace(words=[program.words[0], path], files={path: text})


def as_settings(environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return the variables that are in place of flags."""
    return tuple(Setting(name, value, "a flag that was typed") for name, value in environ.items())
