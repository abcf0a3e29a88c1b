"""What is in an image by an option alone: each field is an option of build.py, a key of its lock, and a line of a plan.

All belongs here that any byte of an image depends on, be it of a compressed layer. Whoever needs a value reads it from
the lock; all that is between hands it on. Options of other classes are declared in the same way: what a plan is decided
by in Request of plan/plan.py, and in Settings of context.py that on which no image depends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from images.host.errors import UserFault
from multinode_image.printing.secrets import is_secret
from multinode_image.printing.shapes import find_kind

LINES, NAMES = "tuple[str, ...]", "names"
EVERY = "build plan lock bundle"  # the commands that have a request
AT_START = "give it to the container at its start: docker run --env-file FILE, or -v FILE:/run/secrets/NAME:ro"

Value = bool | int | str | tuple[str, ...]


def option(
    default: bool | int | str | tuple[str, ...] | None,
    text: str,
    metavar: str | None = None,
    *,
    commands: str = EVERY,
    commas: bool = False,
    choices: Collection[str] | Collection[int] | None = None,
    read: Callable[[Any], Value] | None = None,
) -> Any:
    """Return a field: its default, what --help says and shows for a value, and the commands that take it.

    `read` brings free text of Content into one form, or refuses it.
    """
    rest = {"help": text, "metavar": metavar, "commands": commands, "commas": commas, "choices": choices}
    return field(default=default, metadata={**rest, "read": read})


def kind_of(one: Field[Any]) -> str:
    """Return what a field takes: bool for one that is on or off, int for a whole number, str for a line of text.

    One that may be typed more than once takes LINES, and one that is typed with commas NAMES.
    """
    return NAMES if one.metadata["commas"] else str(one.type).removesuffix(" | None")


def option_key(name: str) -> str:
    """Return how an option is written in a lock, and after two hyphens on a command line."""
    return name.replace("_", "-")


# Variables of an image that the user names, as NAME=VALUE: each once, and no secret.

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What an image sets itself (layers/configuration.py), and what keeps its programs from starting.
OF_IMAGE = (
    "ACCELERATE_USE_CPU", "HF_HOME", "HF_HUB_DISABLE_TELEMETRY", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "LANG",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PIP_CONSTRAINT", "PYTHONHOME", "PYTHONPATH",
)  # fmt: skip


def read_variables(lines: Iterable[str]) -> tuple[str, ...]:
    """Return lines in one order.

    Raises UserFault for one that is no variable, is there with another value, is the image's own, or is a secret:
    whoever may pull an image reads its variables.
    """
    values: dict[str, str] = {}
    for line in dict.fromkeys(lines):
        name, equals, value = line.partition("=")
        if not (equals and VARIABLE.fullmatch(name)):
            raise UserFault("that is not a variable", line, "--env NAME=VALUE")
        if is_secret(name, value) or find_kind(line.encode()):
            raise UserFault("a secret would be in the image", name, AT_START)
        if name in OF_IMAGE:
            raise UserFault("an image sets that variable itself", name, f"docker run -e {name}=... at the start")
        if name in values:
            raise UserFault("a variable has two values", f"{name}: {values[name]} and {value}", "one of them")
        values[name] = value
    return tuple(f"{name}={value}" for name, value in sorted(values.items()))


def parse_variables(lines: Iterable[str]) -> dict[str, str]:
    """Return the values by their names."""
    return dict(line.split("=", 1) for line in lines)


def read_projects(typed: Iterable[str]) -> tuple[str, ...]:
    """Return the names of packages as a lock has them, each once; raise UserFault for what is none."""
    from packaging.utils import canonicalize_name  # --help does without

    for name in typed:
        if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", name):  # PyPA, "Names and normalization"
            raise UserFault("that is not the name of a package", name, "--no-import with the name of a package alone")
    return tuple(sorted({canonicalize_name(name) for name in typed}))


@dataclass(frozen=True, kw_only=True)
class Content:
    """The options; one that is on or off has a default, and a number, a text, or several texts, may be None."""

    trim: bool = option(True, "leave out tests, GPU parts and the like (default)")
    bytecode: bool = option(True, "compile the modules of Python (default)")
    env: tuple[str, ...] | None = option(
        None, "a variable of the image, more than once for more", "NAME=VALUE", read=read_variables
    )
    no_import: tuple[str, ...] | None = option(
        None, "a package that the check at the end need not import, more than once for more", "PACKAGE",
        read=read_projects,
    )  # fmt: skip


FIELDS = fields(Content)


def read_typed(typed: Mapping[str, Any]) -> dict[str, Value]:
    """Return the options that were typed, by their names, each as its field reads it.

    Raises UserFault for a text that cannot be in an image.
    """
    values = {one: typed[one.name] for one in FIELDS if typed[one.name] is not None}
    return {one.name: _read(one, tuple(value) if isinstance(value, list) else value) for one, value in values.items()}


def require_written(content: Content, table: Mapping[str, object]) -> None:
    """Raise ValueError or UserFault where the table of a lock has for an option what build.py does not write.

    `content` is what was read from it, where "yes" and 1 may have become a switch.
    """
    for one in FIELDS:
        value, there = getattr(content, one.name), table.get(option_key(one.name))
        plain = [*value] if isinstance(value, tuple) else value
        if repr(plain) != repr(there) or (value is not None and not _may_be_typed(one, value)):
            raise ValueError(f"{option_key(one.name)}: {there!r} is nothing that build.py writes")


def _may_be_typed(one: Field[Any], value: Value) -> bool:
    if one.metadata["choices"] is not None:
        return value in one.metadata["choices"]
    if isinstance(value, str | tuple):
        return "".join(value).isprintable() and _read(one, value) == value
    return isinstance(value, bool) or value > 0


def _read(one: Field[Any], value: Value) -> Value:
    """Bring a value into its one form; raise UserFault for a text that is none of the field, or a secret."""
    value = one.metadata["read"](value) if one.metadata["read"] else value
    for line in value if isinstance(value, tuple) else (str(value),):
        if kind := find_kind(line.encode()):
            raise UserFault("a secret would be in the image", f"--{option_key(one.name)} ({kind})", AT_START)
    return value
