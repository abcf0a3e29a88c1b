"""Tables that others typed -> dataclasses, by the types of the fields, with every fault at once.

This is what pydantic does too; to import it and to prepare its models takes longer than all else that a plan needs.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Made = TypeVar("Made")
Keys = tuple[int | str, ...]

KEY = "[key]"  # stands in a path after a key that is at fault itself
PLAIN: Mapping[object, str] = {str: "a text", bool: "true or false", datetime.date: "a date"}


class Mistake(NamedTuple):
    """What is wrong: the place by its keys and numbers in lists, the value there, and words that go after it."""

    path: Keys
    value: Any
    said: str


@dataclass(frozen=True)
class Rule:
    """What must hold of a value beside its type: `check` raises ValueError where it does not; `said` goes after it."""

    check: Callable[[Any], object]
    said: str


class Mistakes(ValueError):
    """A table does not fit its dataclass; `mistakes` has everything that is wrong."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__(f"{len(mistakes)} mistakes")
        self.mistakes = mistakes


def read(kind: type[Made], raw: object) -> Made:
    """Return a dataclass of this kind; a field's metadata may say which `key` it has.

    Fields are text, true or false, a date, one of several words, a list, a table or a dataclass; or None.
    Raises Mistakes with everything that is wrong.
    """
    mistakes: list[Mistake] = []
    made = _value(kind, raw, (), mistakes)
    if mistakes:
        raise Mistakes(mistakes)
    return cast("Made", made)


def _value(hint: Any, value: Any, path: Keys, mistakes: list[Mistake]) -> Any:
    """Return what a value is by its type; a fault is added to the others, and what is returned has no meaning then."""
    if hint in PLAIN:
        if type(value) is not hint:  # a time of a day is a date for isinstance(), and true is a number
            mistakes.append(Mistake(path, value, f"is not {PLAIN[hint]}"))
        return value
    if is_dataclass(hint):
        return _dataclass(hint, value, path, mistakes)
    return _KINDS[get_origin(hint)](get_args(hint), value, path, mistakes)


def _dataclass(kind: Any, value: Any, path: Keys, mistakes: list[Mistake]) -> Any:
    if not isinstance(value, dict):
        mistakes.append(Mistake(path, value, "is not a table"))
        return None
    before, found, known = len(mistakes), {}, _fields(kind)
    for key, (field, hint) in known.items():
        if key in value:
            found[field.name] = _value(hint, value[key], (*path, key), mistakes)
        elif field.default is field.default_factory is MISSING:
            mistakes.append(Mistake((*path, key), None, "is missing"))
    mistakes += [Mistake((*path, str(key)), None, "is unknown") for key in value if key not in known]
    return kind(**found) if len(mistakes) == before else None


@functools.cache
def _fields(kind: type[Any]) -> dict[str, tuple[Field[Any], Any]]:
    """Return the fields of a dataclass by the keys that they have in a table, each with its type."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.metadata.get("key", field.name): (field, hints[field.name]) for field in fields(kind)}


def _ruled(hints: tuple[Any, ...], value: Any, path: Keys, mistakes: list[Mistake]) -> Any:
    before = len(mistakes)
    made = _value(hints[0], value, path, mistakes)
    for rule in hints[1:] if len(mistakes) == before else ():
        try:
            rule.check(made)
        except ValueError:
            mistakes.append(Mistake(path, value, rule.said))
    return made


def _optional(hints: tuple[Any, ...], value: Any, path: Keys, mistakes: list[Mistake]) -> Any:
    return None if value is None else _value(hints[0], value, path, mistakes)


def _list(hints: tuple[Any, ...], value: Any, path: Keys, mistakes: list[Mistake]) -> Any:
    if not isinstance(value, list):
        mistakes.append(Mistake(path, value, "is not a list"))
        return None
    return tuple(_value(hints[0], each, (*path, number), mistakes) for number, each in enumerate(value))


def _table(hints: tuple[Any, ...], value: Any, path: Keys, mistakes: list[Mistake]) -> Any:
    if not isinstance(value, dict):
        mistakes.append(Mistake(path, value, "is not a table"))
        return None
    keys = {key: _value(hints[0], key, (*path, key, KEY), mistakes) for key in value}
    return {keys[key]: _value(hints[1], each, (*path, key), mistakes) for key, each in value.items()}


def _word(hints: tuple[Any, ...], value: Any, path: Keys, mistakes: list[Mistake]) -> Any:
    if not isinstance(value, str) or value not in hints:
        mistakes.append(Mistake(path, value, f"is not {' or '.join(hints)}"))
    return value


_KINDS: Mapping[Any, Callable[[tuple[Any, ...], Any, Keys, list[Mistake]], Any]] = {
    Annotated: _ruled, Union: _optional, UnionType: _optional, tuple: _list, Mapping: _table, Literal: _word,
}  # fmt: skip
