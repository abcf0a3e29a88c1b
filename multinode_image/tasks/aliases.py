"""Flags by release of transformers: what was typed for another release is translated, with a note for each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from multinode_image.machine.image import Stack, release
from multinode_image.printing.secrets import hide
from multinode_image.reading import is_no, whole
from multinode_image.tasks.table import ACCELERATE, OTHER, TRAINER

Release = tuple[int, int]
ALWAYS: Release = (0, 0)
CCL_DROPPED: Release = (5, 1)


class Alias(NamedTuple):
    """Two ways to say the same: `old`, known until a release, and `new`, known since one.

    Either is a flag, or `flag=value` for one value of it. The new one is empty where nothing is lost by leaving the
    flag out. lacking: what the old one needs and only images with oneCCL have.
    """

    old: str
    until: Release
    new: str = ""
    since: Release = ALWAYS
    lacking: str = ""


# Data sets that the hub has moved to their owners, and to which it redirects. From huggingface_hub 1.16 on, `datasets`
# finds none without an owner (huggingface/datasets#8612); transformers 5 is the first that takes a 1.x.
OWNED = """
AI-Lab-Makerere/beans Salesforce/wikitext abisee/cnn_dailymail allenai/swag facebook/xnli fancyzhx/ag_news nyu-mll/glue
openslr/librispeech_asr rajpurkar/squad rajpurkar/squad_v2 rishitdagli/cppe-5 stanfordnlp/imdb uoft-cs/cifar10 wmt/wmt16
ylecun/mnist
"""
DATASET = "dataset_name"
MOVED = tuple(Alias(f"{DATASET}={name.partition('/')[2]}", (5, 0), f"{DATASET}={name}") for name in OWNED.split())
NO_OWNER = "datasets finds no data set without its owner since huggingface_hub 1.16"

# Of the Trainer and its scripts, read from the wheels of all minor releases from 4.30 to 5.23 (the fields of
# transformers/training_args.py), which tests/image/test_flags.py repeats, and from the history of examples/pytorch.
# A flag that is not here is left to the script, which refuses one that it does not know.
OF_TRAINER = (
    Alias("no_cuda", (5, 0), "use_cpu", (4, 32)),
    Alias("evaluation_strategy", (4, 51), "eval_strategy", (4, 41)),
    Alias("xpu_backend", (4, 32), "ddp_backend"),
    Alias("ddp_backend=ccl", CCL_DROPPED, "ddp_backend=gloo", lacking="oneCCL bindings"),
    Alias("use_ipex", (4, 57), lacking="IPEX"),
    Alias("jit_mode_eval", (5, 0)),
    Alias("overwrite_output_dir", (5, 0)),
    # Weights are always saved as safetensors since.
    Alias("save_safetensors", (5, 0)),
    # A token that is logged in with, or in HF_TOKEN, is found without a flag.
    Alias("use_auth_token", (4, 41)),
    Alias("push_to_hub_token", (5, 0), "hub_token"),
    Alias("torch_dtype", (4, 56), "dtype", (4, 56)),
    Alias("optim=adamw_hf", (4, 50), "optim=adamw_torch"),
    Alias("adafactor", (5, 0), "optim=adafactor"),
    Alias("group_by_length", (5, 2), "train_sampling_strategy=group_by_length", (5, 2)),
)
ALIASES = {TRAINER: (*OF_TRAINER, *MOVED), ACCELERATE: MOVED, OTHER: ()}


Value = TypeVar("Value")


def list_names(name: str) -> tuple[str, ...]:
    """Return the names of a flag of the Trainer in all releases, the given one first."""
    sides = [(row.old, row.new) for row in OF_TRAINER if name in (row.old, row.new) and not row.lacking]
    return tuple(dict.fromkeys([name, *(alias for pair in sides for alias in pair if alias and "=" not in alias)]))


def is_among(flag: str, names: Collection[str]) -> bool:
    """Return whether a flag is among these, by its name in any release."""
    return any(name in names for name in list_names(flag))


def find_argument(arguments: Mapping[str, Value], flag: str, default: Value | None = None) -> Value | None:
    """Return the value of a flag, by its name in any release; nobody reads an argument by one name alone."""
    return next((arguments[name] for name in list_names(flag) if name in arguments), default)


def find_number(arguments: Mapping[str, object], flag: str, default: str = "") -> int | None:
    """Return the number of a flag, by its name in any release; None for what is no number."""
    return whole(str(find_argument(arguments, flag, default)))


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


class Side(NamedTuple):
    """The side of an alias that the image does not know, the one that it knows, and why."""

    unknown: str
    known: str
    why: str


class Translated(NamedTuple):
    """Flags that the installed release knows, and a note for each one that changed."""

    flags: list[Flag]
    notes: list[str]


def split_flags(words: Iterable[str]) -> list[Flag]:
    """Split a command line before every flag: `--a 1 2 --b=3 --c` has three."""
    flags: list[Flag] = []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            flags.append(Flag(name, (value,) if equals else (), bool(equals)))
        elif flags and not flags[-1].joined:
            flags[-1] = flags[-1]._replace(values=(*flags[-1].values, word))
        else:
            flags.append(Flag("", (word,)))
    return flags


def plain(name: str) -> str:
    """Return the name of a flag as HfArgumentParser compares it: dashes are underscores."""
    return name.replace("-", "_")


def show(flag: Flag) -> str:
    """Return a flag for a log, without a secret."""
    return " ".join(hide(flag.words()))


def has_ccl(stack: Stack) -> bool:
    """Return whether `ccl` may be asked for: the image needs the bindings, and transformers must still know them."""
    return stack.backend == "ccl" and release(stack.transformers) < CCL_DROPPED


def translate(
    flags: Sequence[Flag], stack: Stack, aliases: Sequence[Alias], exists: Callable[[str], bool] = lambda _: False
) -> Translated:
    """Return flags that the installed release knows in place of those that it does not, with a note for each.

    exists: whether a directory is there; `datasets` loads a data set from there before it asks the hub. Of two that say
    the same in two releases the one counts that the installed release knows.
    """
    sides = [side for alias in aliases if (side := choose_side(alias, stack)) is not None]
    typed, result = {plain(flag.name) for flag in flags}, Translated([], [])
    for flag in flags:
        new, why = replace(flag, sides, exists)
        if new is not None and plain(flag.name) != new.name and new.name in typed:
            new = None
        if new is not None:
            result.flags.append(new)
        if why:
            result.notes.append(f"{show(flag)} {'is left out' if new is None else f'became {show(new)}'}: {why}")
    return result


def replace(flag: Flag, sides: Iterable[Side], exists: Callable[[str], bool]) -> tuple[Flag | None, str]:
    """Return what replaces a flag, None if nothing does, and why; the flag itself and no reason where it can stay."""
    new: Flag | None = flag
    why = ""
    for side in sides:
        if new is not None and is_meant(side, new, exists):
            new, why = substitute(new, side), why or side.why
    return new, why


def choose_side(alias: Alias, stack: Stack) -> Side | None:
    """Return what the image does not know of an alias, and what it knows instead; None if it knows both."""
    installed, version = release(stack.transformers), stack.transformers
    if installed >= alias.until:
        why = f"removed in transformers {write(alias.until)}, installed is {version}"
        return Side(alias.old, alias.new, NO_OWNER if alias in MOVED else why)
    if alias.lacking and stack.backend != "ccl":
        return Side(alias.old, alias.new, f"this image has no {alias.lacking}")
    if installed < alias.since:
        return Side(alias.new, alias.old, f"new in transformers {write(alias.since)}, installed is {version}")
    return None


def write(version: Release) -> str:
    """Return a release as it is written."""
    return ".".join(map(str, version))


def is_meant(side: Side, flag: Flag, exists: Callable[[str], bool]) -> bool:
    """Return whether a flag is what one side of an alias says."""
    name, equals, value = side.unknown.partition("=")
    if plain(flag.name) != name or (equals and flag.values != (value,)):
        return False
    return not (name == DATASET and exists(value))


def substitute(flag: Flag, side: Side) -> Flag | None:
    """Return a flag as the other side of an alias says it.

    None where that side is nothing, or where it is a value and the flag is switched off.
    """
    name, equals, value = side.known.partition("=")
    has_value = "=" in side.unknown
    if not name or (equals and not has_value and flag.values and is_no(flag.values[0])):
        return None
    values = (value,) if equals else () if has_value else flag.values
    return flag._replace(name=name, values=values, joined=flag.joined and bool(values))
