"""The script and its command line: the user's arguments, and the defaults for what they do not say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Callable, NamedTuple

from multinode_image.errors import Refusal
from multinode_image.machine.files import read_file
from multinode_image.machine.image import Stack, release
from multinode_image.printing.secrets import hide
from multinode_image.reading import parse_json
from multinode_image.settings import Setting
from multinode_image.tasks.aliases import (
    ALIASES,
    Flag,
    Translated,
    find_argument,
    find_number,
    is_among,
    plain,
    show,
    split_flags,
    translate,
)
from multinode_image.tasks.command import ACROSS, NETWORK, SMOKE, Command
from multinode_image.tasks.defaults import (
    OUTPUT,
    OUTPUT_DIR,
    check_arguments,
    check_order,
    check_reporters,
    choose_defaults,
    describe_batches,
    find_nltk,
    list_defaults,
)
from multinode_image.tasks.table import ACCELERATE, TRAINER, Task, place_script
from multinode_image.world.model import MPIJOB_WORKER, World
from multinode_image.world.torchrun import make_command

PYTHON = "python3"
# Since 2.6 torch loads numbers of numpy from a checkpoint only if it is told to, as the Trainer does since 4.47
# (transformers/trainer.py, safe_globals); older ones load everything.
LOADS_SAFELY, IS_STRICT = (4, 47), (2, 6)
LOOSE = Setting("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1", "this transformers cannot load its own checkpoints otherwise")
# The user's own; torch takes only one of the two.
STRICT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load_loosely(stack: Stack, environ: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return the variable without which the Trainer of this image loads no checkpoint; none where it needs none."""
    needs = release(stack.transformers) < LOADS_SAFELY and release(stack.torch) >= IS_STRICT
    return (LOOSE,) if needs and not environ.get(STRICT) else ()


def make_argv(command: Command, world: World, words: list[str], environ: Mapping[str, str], torch: str) -> list[str]:
    """Return the command that starts a program in this world: by torchrun where there are processes to start.

    torch: its version.
    """
    if not command.kind.is_script:
        return words
    if not command.trains:
        return [PYTHON, *words]
    if world.launcher == MPIJOB_WORKER:
        remedy = "run `worker` in the workers of an MPIJob, and the task in its launcher"
        raise Refusal("a worker of an MPIJob waits for ranks, it does not train", command.name, remedy)
    return [*(make_command(world, environ, torch) if world.needs_torchrun else [PYTHON]), *words]


EXAMPLE = '{"model_name_or_path": "distilbert/distilbert-base-uncased", "output_dir": "/workspace/output/qa"}'
# How many examples a process takes at once, and how often before a step of the optimizer.
BATCH_SIZE, ACCUMULATION = "per_device_train_batch_size", "gradient_accumulation_steps"
# Left out where one process is alone: accelerate would ask a group that nobody opened, and die.
BACKEND = "ddp_backend"
# What a file of arguments gets that does not say it. Without use_cpu transformers refuses bf16 where there is no GPU,
# since 4.52 (transformers/training_args.py).
OF_FILE = (OUTPUT_DIR, "use_cpu")
TOKENS = ("token", "hub_token", "use_auth_token")
# What --use_cpu says to the Trainer; without either, accelerate trains every rank alone since 1.13.
ON_CPU = Setting("ACCELERATE_USE_CPU", "1", "without it accelerate counts no ranks on a CPU")


class Program(NamedTuple):
    """A Python script with its command line, a note on each flag that was translated, and its arguments by name.

    forced: variables that it needs whatever the environment says; defaults: those that it gets where the environment
    has none.
    """

    words: list[str]
    notes: list[str]
    arguments: Mapping[str, object]
    forced: tuple[Setting, ...] = ()
    defaults: tuple[Setting, ...] = ()


def read_program(command: Command, stack: Stack, environ: Mapping[str, str], world: World, root: str) -> Program:
    """Return the script of a command with complete arguments, any other command as it stands; root: where smoke.py is.

    Raise Refusal for a task that would fail in this image or this world, or train another thing than was meant.
    """
    many = world.several
    if command.task is not None:
        program = read_task(command.task, command, stack, environ, many=many)
    elif command.kind == SMOKE:
        program = read_smoke(command, stack, f"{root}/smoke.py", many=many)
    elif command.kind == NETWORK:
        program = read_network(stack, f"{root}/network.py", many=many)
    elif command.kind.is_script:
        program = Program(command.line, [], guess_arguments(command.words), defaults=(ON_CPU,))
    else:
        program = Program(command.line, [], {})
    # What the environment has already is the image's, not the user's.
    new = tuple(default for default in program.defaults if environ.get(default.name) != default.value)
    return program._replace(defaults=new)


def read_smoke(command: Command, stack: Stack, script: str, *, many: bool) -> Program:
    """Return the program of `smoke`."""
    if command.helps:
        return Program([script, "--help"], [], {})
    translated = adapt(split_flags(command.words), TRAINER, stack, many=many)
    return Program([script, *join_flags(translated.flags)], translated.notes, name_flags(translated.flags))


def read_network(stack: Stack, script: str, *, many: bool) -> Program:
    """Return the program of `doctor --network`; raise Refusal where there is no other rank."""
    if not many:
        remedy = f"launch --hosts A,B -n 2 --ppn 1 doctor {ACROSS}; or with PET_NNODES and PET_NODE_RANK on each node"
        raise Refusal("a network is measured between several ranks", "one rank", remedy)
    return Program([script, stack.backend], [], {})


def read_task(task: Task, command: Command, stack: Stack, environ: Mapping[str, str], *, many: bool) -> Program:
    """Return the program of a task, if this image has its script."""
    script = place_script(task.name, stack)
    if command.helps:
        return Program([script, "--help"], [], {})
    program = complete(task, script, command.words, stack, many=many)
    if find_argument(program.arguments, OUTPUT_DIR) == "":
        remedy = f"--{OUTPUT_DIR} {OUTPUT}/{task.name}"
        raise Refusal("the directory for results has no name", f"{OUTPUT_DIR} ''", remedy)
    check_order(task, program.arguments, stack)
    check_reporters(task, program.arguments, stack, environ)
    check_arguments(task, program.arguments)
    defaults = (*program.defaults, *find_nltk(task, environ))
    return program._replace(defaults=defaults)


def complete(task: Task, script: str, typed: list[str], stack: Stack, *, many: bool) -> Program:
    """Return the user's arguments, translated for the installed release, after the defaults that they do not replace.

    A JSON file in front of them has all arguments, as HfArgumentParser reads it: with it only few defaults are left.
    """
    by_file = task.kind == TRAINER and is_file(typed)
    given = [*read_argfile(typed[0], read_file), *split_flags(typed[1:])] if by_file else split_flags(typed)
    check_first(task, given)
    translated = adapt(given, task.kind, stack, many=many)
    names = {
        plain(flag.name): flag.values[0] if flag.values else "" for flag in (*given, *translated.flags) if flag.name
    }
    left = choose_defaults(list_defaults(task, stack, many=many), names, task, stack)
    left = [flag for flag in left if not by_file or is_among(flag.name, OF_FILE)]
    flags = [*left, *translated.flags]
    # Flags that were left out are known by the names that were typed.
    arguments = {**name_flags(given), **name_flags(flags)}
    settings = (ON_CPU,) if task.kind == ACCELERATE else ()
    notes = [*translated.notes, *describe_batches(task, left)]
    return Program([script, *join_flags(flags)], notes, arguments, defaults=settings)


def adapt(given: list[Flag], kind: str, stack: Stack, *, many: bool) -> Translated:
    """Return what was typed as flags of the installed release, without those that make no sense in one process."""
    alone = [flag for flag in given if kind == TRAINER and not many and is_among(plain(flag.name), (BACKEND,))]
    translated = translate([flag for flag in given if flag not in alone], stack, ALIASES[kind], os.path.isdir)
    translated.notes.extend(f"{show(flag)} is left out: one process has no other to communicate with" for flag in alone)
    return translated


def check_first(task: Task, given: list[Flag]) -> None:
    """Raise Refusal for a word before the first flag, which would become a value of the last default."""
    if not given or given[0].name or given[0].values[0] in ("-h", "--"):
        return
    file = f", or {task.name} FILE.json for all arguments" if task.kind == TRAINER else ""
    word = hide([given[0].values[0]])[0]
    raise Refusal(f"{task.name} takes no word before its flags", word, f"{task.name} --name value{file}")


def is_file(words: list[str]) -> bool:
    """Return whether a command line begins with a JSON file, which the scripts take for all arguments."""
    return words[:1] != [] and words[0].endswith(".json")


def read_argfile(path: str, read: Callable[[str], str | None]) -> list[Flag]:
    """Return the arguments in a JSON file as flags; raise Refusal for one that cannot be read, or has a secret.

    A command line can be read by everybody on the machine.
    """
    text = read(path)
    if text is None:
        raise Refusal("the file with arguments cannot be read", path, "an existing file, in a mounted directory")
    try:
        arguments = parse_json(text)
    except ValueError as error:
        raise Refusal("the file with arguments is not JSON", f"{path}: {error}", f"a file like {EXAMPLE}") from None
    if not isinstance(arguments, dict):
        kind = type(arguments).__name__
        raise Refusal("the file with arguments is not a JSON object", f"{path}: a {kind}", f"a file like {EXAMPLE}")
    for name, value in arguments.items():
        if is_among(name, TOKENS) and isinstance(value, str):
            raise Refusal("a file of arguments has a token", f"{name} in {path}", "export HF_TOKEN, and leave it out")
    return [write_flag(name, value) for name, value in arguments.items() if value is not None]


def write_flag(name: str, value: object) -> Flag:
    """Return an argument of a JSON file as it is typed."""
    if value is True:
        return Flag(name, ())
    if isinstance(value, list):
        return Flag(name, tuple(map(str, value)))
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return Flag(name, (text,), joined=text.startswith("-"))


def join_flags(flags: Iterable[Flag]) -> list[str]:
    """Return the words of flags."""
    return [word for flag in flags for word in flag.words()]


def name_flags(flags: Iterable[Flag], most: int | None = None) -> dict[str, object]:
    """Return flags by name: True where one has no value, else its values, or the first `most`; the last counts."""
    return {plain(flag.name): " ".join(flag.values[:most]) if flag.values else True for flag in flags if flag.name}


def guess_arguments(words: list[str]) -> dict[str, object]:
    """Return the arguments of a user's script; what follows the first value may belong to no flag."""
    if is_file(words) and len(words) == 1:
        try:
            return name_flags(read_argfile(words[0], read_file))
        except Refusal:  # it may take any file
            return {}
    return name_flags(split_flags(words), 1)


def read_batch(arguments: Mapping[str, object]) -> int | None:
    """Return how many examples one process takes for a step of the optimizer; None if no argument says so."""
    size, times = find_number(arguments, BATCH_SIZE), find_number(arguments, ACCUMULATION, "1")
    return size * times if size and times else None


def set_argument(program: Program, name: str, value: object) -> Program:
    """Return a program in which an argument has a value; True is a flag without one."""
    script, *words = program.words
    others = [flag for flag in split_flags(words) if plain(flag.name) != name]
    words = join_flags([*others, write_flag(name, value)])
    return program._replace(words=[script, *words], arguments={**program.arguments, name: value})
