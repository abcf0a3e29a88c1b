"""What others wrote as text, read within bounds: numbers, addresses of a network, JSON."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Callable

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


# Hosts and ports in text that others wrote.

# Names of this machine. They are those that distributions write into /etc/hosts.
NAMES = ("localhost", "localhost.localdomain", "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback")
# Addresses to listen at; whoever connects to one of them reaches this machine itself.
ANYWHERE = ("0.0.0.0", "::")
# ::1, and how ::ffff:127.0.0.1 begins, which is loopback of IPv4 written as IPv6.
ONE, MAPPED = bytes(15) + b"\x01", bytes(10) + b"\xff\xff\x7f"
# Where rank 0 listens if nobody says otherwise, as torchrun's.
PORT = 29500


def is_loopback(host: str) -> bool:
    """Return whether a name or an address can only mean the machine it is used on."""
    return host.lower() in NAMES or host.startswith("127.") or read_ipv6(host).startswith((ONE, MAPPED))


def read_ipv6(text: str) -> bytes:
    """Return the bytes of an address of IPv6, which may have a zone; none of what is no such address."""
    if ":" not in text:
        return b""
    try:
        return socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    except (OSError, ValueError):  # a name with a port, or bytes that are no text
        return b""


def unbracket(host: str) -> str:
    """Return an address of IPv6 without the brackets that URLs need."""
    return host.strip().strip("[]")


def can_be_host(text: str) -> bool:
    """Return whether a text may be a name, an address, or nothing; Docker's names have underscores."""
    return bool(read_ipv6(text)) or all(letter.isalnum() or letter in "-._" for letter in text)


def read_host(text: str, name: str) -> str:
    """Return the host of a variable; raise Refusal for what is none, and would be waited for in vain."""
    host = unbracket(text)
    if not can_be_host(host):
        port = f"; a port belongs in {name[:-4]}PORT" if name.endswith("_ADDR") else ", and without a port"
        remedy = f"export {name}=HOST without quotes and blanks{port}"
        raise Refusal(f"{name} is neither a name nor an address", repr(text), remedy)
    return host


def read_port(text: str, remedy: str = f"export MASTER_PORT={PORT}") -> int | None:
    """Return the port of the master, None if the text is empty. Raise Refusal for no port: torchrun would wait at 0."""
    if not text.strip():
        return None
    port = whole(text)
    if not port or port > LAST_PORT:
        raise Refusal("the master's port is not a number from 1 to 65535", repr(text.strip()), remedy)
    return port


# JSON that others wrote, with numbers that are finite or have 64 bits, and bounds of depth and of what it takes.

# Objects and lists within each other, of which ours have four and configurations of models ten.
DEEPEST = 100
# Values, each of which takes some thirty times its bytes: a list of all packages of an image has 20,000.
MOST_VALUES = 1_000_000
# Integers that programs in other languages read, and letters of one.
WHOLE, LONGEST = range(-(2**63), 2**64), 20


def parse_json(text: str | bytes, most: int = MOST_VALUES) -> Any:
    """Return what a text of JSON has; most: values in it.

    Raise ValueError for what is no JSON, for a number that is not finite or has more than 64 bits, for more values, and
    for what is nested so deep that a walk through it would not end well.
    """
    return _parse(text, most, _read_finite)


def parse_logged(text: str | bytes, most: int = MOST_VALUES) -> Any:
    """Return what a text has that Python wrote: as JSON, but with the words NaN and Infinity, of a loss that has none.

    Raise ValueError as `parse_json` does.
    """
    return _parse(text, most, float)


def _parse(text: str | bytes, most: int, read_word: Callable[[str], float]) -> Any:
    if isinstance(text, bytes):
        text = text.decode("utf-8")  # json would take any other encoding
    if sum(map(text.count, ",[{")) > most:
        raise ValueError(f"more than {most} values")
    try:
        document = json.loads(text, parse_constant=read_word, parse_float=_read_finite, parse_int=_read_whole)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if _is_deep(document):
        raise ValueError("nested too deep")
    return document


def _read_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:LONGEST]} is no number of JSON")
    return number


def _read_whole(text: str) -> int:
    if len(text) > LONGEST or int(text) not in WHOLE:
        raise ValueError(f"{text[:LONGEST]}... is no integer of 64 bits")
    return int(text)


def _is_deep(value: object) -> bool:
    inside, depth = [value], 0
    while inside and depth < DEEPEST:
        inside, depth = [part for outer in inside for part in _list_inner(outer)], depth + 1
    return bool(inside)


def _list_inner(value: object) -> Iterable[object]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (part for part in parts if isinstance(part, (dict, list)))


def as_list(value: object) -> list[object]:
    """Return a list of JSON; anything else as one with nothing in it."""
    return value if isinstance(value, list) else []


def read_number(value: object) -> float | None:
    """Return a number of JSON; None for anything else. It may be infinite, or none at all (NaN)."""
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)
