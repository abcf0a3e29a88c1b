"""Flags of a command line: what was typed for another release is translated, with a note for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.machine.image import release
from entrypoint.numbers import is_no
from entrypoint.printing.secrets import hide
from entrypoint.tasks.eras import CCL_DROPPED, OF_TRAINER, SHARE, Choice, Era, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from entrypoint.machine.image import Stack

STEPS, RATIO = "warmup_steps", "warmup_ratio"
# From here on a number of steps below 1 is a share of all steps, and the two flags are one.
SHARED_WARMUP = (5, 0)
NEARLY_ALL = "0.9999999"
# Flags that are read here as well, each with the shortest beginning that argparse takes for it. A script refuses a
# shorter one that several of its flags have.
READ = {
    "output_dir": "o", "do_train": "do_t", "overwrite_output_dir": "overwrite_o", "resume_from_checkpoint": "resu",
    "predict_with_generate": "predict_", "save_only_model": "save_onl", "save_strategy": "save_str",
    "max_steps": "max_s",
}  # fmt: skip


class Flag(NamedTuple):
    """One flag of a command line with the values that follow it; words before the first flag have no name."""

    name: str
    values: tuple[str, ...]
    joined: bool = False

    def words(self) -> list[str]:
        """Return it as it was typed."""
        if self.joined:
            return [f"--{self.name}={self.values[0]}"]
        return [*([f"--{self.name}"] if self.name else []), *self.values]


class Translated(NamedTuple):
    """Flags that the installed release knows, a note for each one that changed, and what became a variable."""

    flags: list[Flag]
    notes: list[str]
    environ: dict[str, str]


class Renewed(NamedTuple):
    """What replaces a flag: another flag or none, a variable or none; and why."""

    flag: Flag | None
    variable: tuple[str, str] | None = None
    why: str = ""


def split_flags(words: list[str]) -> list[Flag]:
    """Split a command line before every flag: `--a 1 2 --b=3 --c` has three."""
    flags: list[Flag] = []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            flags.append(Flag(name, (value,) if equals else (), bool(equals)))
        elif flags:
            flags[-1] = absorb(flags, word)
        else:
            flags.append(Flag("", (word,)))
    return flags


def absorb(flags: list[Flag], word: str) -> Flag:
    """Return the last flag with a word more; a new one without a name if the last already has its value."""
    last = flags[-1]
    if not last.joined:
        return last._replace(values=(*last.values, word))
    flags.append(Flag("", (word,)))
    return flags[-1]


def plain(name: str) -> str:
    """Return the name of a flag as HfArgumentParser compares it: dashes are underscores."""
    return name.replace("-", "_")


def spell_out(name: str) -> str:
    """Return the whole name of a flag of READ for a beginning that argparse takes for it; any other name as it is."""
    typed = plain(name)
    return next((each for each, least in READ.items() if each.startswith(typed) and typed.startswith(least)), name)


def translate(
    flags: list[Flag], stack: Stack, table: Table = OF_TRAINER, exists: Callable[[str], bool] = lambda _: False
) -> Translated:
    """Return flags that the installed release knows in place of those that it does not, with a note for each.

    table: what this kind of script knows; where it is empty, nothing is changed. exists: whether a directory is there;
    `datasets` loads a data set from there before it asks the hub.
    """
    rows = {era.name: era for era in table.eras}
    choices = [row for row in table.choices if row.name != "dataset_name" or not exists(row.value)]
    result = settle_warmup(flags, stack) if RATIO in rows else Translated(list(flags), [], {})
    flags, result = result.flags, result._replace(flags=[])
    for flag in flags:
        new = renew(flag, stack, rows, choices)
        if new.flag is not None:
            result.flags.append(new.flag)
        if new.variable is not None:
            result.environ[new.variable[0]] = new.variable[1]
        if new.why:
            result.notes.append(f"{show(flag)} {became(new)}: {new.why}")
    return result


def drop_old(given: Mapping[str, object], stack: Stack) -> tuple[dict[str, object], list[str]]:
    """Return the arguments of a file without names of other releases that have no effect, and a note on these.

    A file that the Trainer has written has many of them: their value is null, or the new name is there as well.
    settle_warmup() chooses between two warm-ups. Raise Refusal for a name with a dash, which only a command line has.
    """
    for name in given:
        if "-" in name:
            raise Refusal("the names in a file of arguments have no dashes", name, f"{plain(name)} in its place")
    old = {era.name: era.instead.partition("=")[0] for era in OF_TRAINER.eras if not knows(era, stack)}
    null = [name for name in given if name in old and given[name] is None]
    beside = {name: old[name] for name in given if name in old and name not in (RATIO, *null)}
    beside = {name: new for name, new in beside.items() if given.get(new) is not None}
    notes = [f"{name} is left out: it is null, and this release does not know it" for name in null]
    for name, new in beside.items():
        notes.append(f"{show(Flag(name, (str(given[name]),)))} is left out: the file has {new}")
    return {name: value for name, value in given.items() if name not in (*null, *beside)}, notes


def settle_warmup(flags: list[Flag], stack: Stack) -> Translated:
    """Return the flags with one of two warm-ups, where both would become the same flag.

    The Trainer takes the steps unless they are 0 (transformers/training_args.py, get_warmup_steps). A share of 1 would
    become one step, so it becomes the largest share below it.
    """
    last = {plain(flag.name): flag.values[0] for flag in flags if len(flag.values) == 1}
    steps, share = as_number(last.get(STEPS, "")), as_number(last.get(RATIO, ""))
    new = release(stack.transformers) >= SHARED_WARMUP
    if share == 1 and new:
        flags = [flag._replace(values=(NEARLY_ALL,)) if plain(flag.name) == RATIO else flag for flag in flags]
    if steps is None or share is None or not (new or 0 < steps < 1):
        return Translated(flags, [], {})
    gone, wins = (RATIO, STEPS) if steps else (STEPS, RATIO)
    note = f"--{gone} {last[gone]} is left out: the Trainer takes --{wins} {last[wins]}"
    return Translated([flag for flag in flags if plain(flag.name) != gone], [note], {})


def as_number(text: str) -> float | None:
    """Return a number that is not negative; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def became(new: Renewed) -> str:
    """Return what became of a flag, in words."""
    if new.variable is not None:
        return "became {}={}".format(*new.variable)
    return f"became {show(new.flag)}" if new.flag is not None else "is left out"


def show(flag: Flag) -> str:
    """Return a flag for a log, without a secret."""
    return " ".join(hide(flag.words()))


def renew(flag: Flag, stack: Stack, rows: dict[str, Era], choices: Sequence[Choice]) -> Renewed:
    """Return what replaces this flag in the installed release: first for its name, then for its value."""
    new = Renewed(flag)
    era = rows.get(plain(flag.name))
    if era is not None and not knows(era, stack):
        new = substitute(flag, era.instead)._replace(why=reason(era, stack))
    if new.flag is None:
        return new
    choice = find_choice(new.flag, stack, choices)
    if choice is None:
        return new
    return substitute(new.flag, choice.instead)._replace(why=new.why or reason(choice, stack))


def knows(row: Era | Choice, stack: Stack) -> bool:
    """Return whether the installed release knows a flag, or a value, and the image has what it needs."""
    return row.since <= release(stack.transformers) < row.until and (not row.lacking or stack.backend == "ccl")


def find_choice(flag: Flag, stack: Stack, choices: Sequence[Choice]) -> Choice | None:
    """Return the row of a value that the installed release does not know."""
    rows = (row for row in choices if row.name == plain(flag.name) and holds(row, flag))
    return next((row for row in rows if not knows(row, stack)), None)


def holds(row: Choice, flag: Flag) -> bool:
    """Return whether a flag has the value of a row."""
    if row.value != SHARE or len(flag.values) != 1:
        return flag.values == (row.value,)
    try:
        return 0 < float(flag.values[0]) < 1
    except ValueError:
        return False


def substitute(flag: Flag, instead: str) -> Renewed:
    """Return what replaces a flag; instead: what its row in the table says."""
    off = bool(flag.values) and is_no(flag.values[0])
    name, equals, value = instead.partition("=")
    if not name or (equals and off):
        return Renewed(None)
    values = (value,) if equals else flag.values
    if name.startswith("$"):
        return Renewed(None, (name[1:], values[0])) if values else Renewed(None)
    return Renewed(flag._replace(name=name, values=values))


def has_ccl(stack: Stack) -> bool:
    """Return whether `ccl` may be asked for: the image needs the bindings, and transformers must still know them."""
    return stack.backend == "ccl" and release(stack.transformers) < CCL_DROPPED


def reason(row: Era | Choice, stack: Stack) -> str:
    """Return why a flag could not stay as it was typed."""
    if isinstance(row, Choice) and row.why:
        return row.why
    installed = release(stack.transformers)
    if row.since <= installed < row.until:
        return f"this image has no {row.lacking}"
    if row.since == row.until:
        return "that is the Trainer's, which this script does without"
    gone = installed >= row.until
    edge = ".".join(map(str, row.until if gone else row.since))
    return f"{'removed in' if gone else 'new in'} transformers {edge}, installed is {stack.transformers}"
