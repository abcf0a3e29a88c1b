"""Numbers, lists and flags in text that others wrote."""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.errors import Refusal

# No machine has more processors; a larger number is a typing error that must not fill the memory.
MOST = 1 << 20
# More processes than any node has cores, which is a typing error as well.
MOST_PROCESSES = 4096
LAST_PORT = 65535
# How a flag of a script is switched off (transformers/hf_argparser.py, string_to_bool).
NO = ("false", "0", "no", "off", "f", "n")


def whole(text: str) -> int | None:
    """Return a number without a sign; None if the text is anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def number(environ: Mapping[str, str], name: str, example: int = 1) -> int | None:
    """Return a variable that must be a number if it is set; an empty one counts as unset. Raise Refusal otherwise.

    example: what may be set instead.
    """
    text = environ.get(name, "")
    if not text.strip():
        return None
    value = whole(text)
    if value is None:
        raise Refusal(f"{name} is not a number", repr(text), f"export {name}={example}, or unset {name}")
    return value


def first_number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """Return the first of several variables that is set, a number; None if none is."""
    return next((value for value in (number(environ, name) for name in names) if value is not None), None)


def first_set(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Return the first of several variables that has a value; empty if none has."""
    return next((environ[name] for name in names if environ.get(name)), "")


def read_range(text: str) -> tuple[int, int | None] | None:
    """Return the smallest and the largest number of `2`, `1:4` or `2:`, which has no largest; all are above 0.

    None for any other text, and for a range whose end is below its start.
    """
    first, colon, last = text.partition(":")
    low = whole(first)
    if not low:
        return None
    if colon and not last.strip():
        return low, None
    high = whole(last) if colon else low
    return None if high is None or high < low else (low, high)


def is_no(word: str) -> bool:
    """Return whether a word behind a flag switches it off; a flag without a word, which has an empty one, is on."""
    return word.lower() in NO


def is_true(value: object) -> bool:
    """Return whether an argument is true in a script: a word that its parser has read, or any value of a JSON file.

    None is the value of an argument that nobody has given.
    """
    return bool(value) and not (isinstance(value, str) and is_no(value))


def read_field(text: str, name: str) -> str:
    """Return what the first row `name: value` says in a text of the kernel (proc_pid_status(5)); empty without one."""
    rows = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for key, _, value in rows if key.strip() == name), "")


def read_cpus(text: str) -> frozenset[int]:
    """Return the processors of a list like `0-3,8,10-11`; what is no number in it is left out."""
    ranges = []
    for part in text.replace("\n", ",").split(","):
        low, _, high = part.partition("-")
        first, last = whole(low), whole(high or low)
        if first is not None and last is not None and first <= last < MOST:
            ranges.append((first, last))
    cpus: list[int] = []
    for first, last in sorted(ranges):  # a variable has room for thousands of ranges, each of which has all processors
        cpus.extend(range(max(first, cpus[-1] + 1 if cpus else 0), last + 1))
    return frozenset(cpus)


def write_cpus(cpus: frozenset[int]) -> str:
    """Return a list of processors as the kernel writes it."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
