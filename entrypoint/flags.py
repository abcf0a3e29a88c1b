"""Flags of the Trainer by release: what the user typed for another one is translated, and said."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .stack import release

if TYPE_CHECKING:
    from .stack import Stack

# Where a row says nothing of a release: it was always there, or it is still there.
ALWAYS, STILL = (0, 0), (1 << 30, 0)
CCL_DROPPED = (5, 1)


class Era(NamedTuple):
    """A flag, the releases [since, until) of transformers that know it, and what stands in its place elsewhere.

    Found by bisecting the wheels; an empty `instead` means that nothing is lost by leaving the flag out.
    """

    name: str
    since: tuple[int, int]
    until: tuple[int, int]
    instead: str = ""


ERAS = (
    Era("no_cuda", ALWAYS, (5, 0), "use_cpu"),
    Era("use_cpu", (4, 32), STILL, "no_cuda"),
    Era("evaluation_strategy", ALWAYS, (4, 51), "eval_strategy"),
    Era("eval_strategy", (4, 41), STILL, "evaluation_strategy"),
    Era("xpu_backend", ALWAYS, (4, 32), "ddp_backend"),
    Era("ddp_backend", (4, 30), STILL, "xpu_backend"),
    Era("use_ipex", ALWAYS, (4, 57)),
    Era("jit_mode_eval", ALWAYS, (5, 0)),
    Era("overwrite_output_dir", ALWAYS, (5, 0)),
    Era("use_mps_device", ALWAYS, (5, 0)),
    Era("fp16_backend", ALWAYS, (5, 0)),
    Era("half_precision_backend", ALWAYS, (5, 0)),
    Era("push_to_hub_token", ALWAYS, (5, 0), "hub_token"),
    Era("save_safetensors", ALWAYS, (5, 0)),
    Era("per_gpu_train_batch_size", ALWAYS, (5, 0), "per_device_train_batch_size"),
    Era("per_gpu_eval_batch_size", ALWAYS, (5, 0), "per_device_eval_batch_size"),
    Era("torchdynamo", ALWAYS, (5, 0)),
    Era("tpu_num_cores", ALWAYS, (5, 0)),
    Era("past_index", ALWAYS, (5, 0)),
    Era("ray_scope", ALWAYS, (5, 0)),
    Era("mp_parameters", ALWAYS, (5, 0)),
    Era("group_by_length", ALWAYS, (5, 3), "train_sampling_strategy"),
    # A number of steps below 1 is a share of all steps since the ratio is gone.
    Era("warmup_ratio", ALWAYS, (5, 16), "warmup_steps"),
    Era("logging_dir", ALWAYS, (5, 16)),
)
BY_NAME = {era.name: era for era in ERAS}
NO = ("false", "0", "no", "off", "f", "n")


class Flag(NamedTuple):
    """One flag of a command line with the values that follow it; words before the first flag have no name."""

    name: str
    values: tuple[str, ...]
    joined: bool = False

    def words(self) -> list[str]:
        """Spell it as it was typed."""
        if self.joined:
            return [f"--{self.name}={self.values[0]}"]
        return [*([f"--{self.name}"] if self.name else []), *self.values]


def split_flags(words: list[str]) -> list[Flag]:
    """Cut a command line before every flag: `--a 1 2 --b=3 --c` has three."""
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
    """Add a word to the last flag, or after it if that already has its value."""
    last = flags[-1]
    if not last.joined:
        return last._replace(values=(*last.values, word))
    flags.append(Flag("", (word,)))
    return flags[-1]


def plain(name: str) -> str:
    """Compare names the way HfArgumentParser does, which takes dashes for underscores."""
    return name.replace("-", "_")


def translate(flags: list[Flag], stack: Stack) -> tuple[list[Flag], list[str]]:
    """Replace the flags that the installed release does not know; the second part says which, a line each."""
    result: list[Flag] = []
    notes: list[str] = []
    for flag in flags:
        new = renew(flag, stack)
        if new is not None:
            result.append(new)
        if new != flag:
            became = f"became {' '.join(new.words())}" if new is not None else "is left out"
            notes.append(f"{' '.join(flag.words())} {became}: {reason(flag, stack)}")
    return result, notes


def renew(flag: Flag, stack: Stack) -> Flag | None:
    """Give the flag that stands for this one in the installed release, or None."""
    era = BY_NAME.get(plain(flag.name))
    if era is not None and not era.since <= release(stack.transformers) < era.until:
        if not era.instead:
            return None
        flag = flag._replace(name=era.instead)
        if era.name == "group_by_length":
            off = flag.values and flag.values[0].lower() in NO
            return None if off else flag._replace(values=("group_by_length",))
    if plain(flag.name) in ("ddp_backend", "xpu_backend") and flag.values == ("ccl",) and not has_ccl(stack):
        return flag._replace(values=("gloo",))
    return flag


def has_ccl(stack: Stack) -> bool:
    """Tell whether `ccl` may be asked for: the image needs the bindings, and transformers must still know them."""
    return stack.backend == "ccl" and release(stack.transformers) < CCL_DROPPED


def reason(flag: Flag, stack: Stack) -> str:
    """Say why a flag could not stay as it was typed."""
    era = BY_NAME.get(plain(flag.name))
    if era is not None and not era.since <= release(stack.transformers) < era.until:
        gone = release(stack.transformers) >= era.until
        edge = ".".join(map(str, era.until if gone else era.since))
        return f"{'removed in' if gone else 'new in'} transformers {edge}, installed is {stack.transformers}"
    if stack.backend != "ccl":
        return "this image has no oneCCL bindings"
    return f"transformers dropped ccl in 5.1, installed is {stack.transformers}"
