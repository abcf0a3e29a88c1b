"""What may be asked of an image: each field once, from the command line to the lock, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images import content
from images.base.base import BaseImage
from images.content import FIELDS, LINES, Asked, kind_of, option_key
from images.context import Settings
from images.host.errors import UserFault
from images.layers.entrypoint_layer import ENVIRONMENT
from images.lock import lockfile
from images.lock.lock import Lock
from images.oci.manifest import Descriptor, Manifest
from images.options import COMMANDS, parse_words, parser, read_request
from images.plan import catalog, matrix, planner
from images.plan.plan import Pins, Request
from images.platforms import PLATFORMS
from tests.support import locks

TABLE = catalog.load()
# What a reader takes, in the one form that it leaves; a text without a reader may be any line.
LINE = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=9)
READ: Mapping[object, st.SearchStrategy[Any]] = {
    content.read_variables: st.dictionaries(st.sampled_from(["A", "B", "KERAS_BACKEND"]), LINE, min_size=1).map(
        lambda values: tuple(f"{name}={value}" for name, value in sorted(values.items()))
    ),
    content.read_projects: st.sampled_from([("torch",), ("torch", "transformers"), ("transformers",)]),
    None: LINE.filter(lambda line: not line.startswith("-")),
}


def values_of(one: Field[Any]) -> st.SearchStrategy[Any]:
    """Return what an option may be."""
    if one.metadata["choices"]:
        return st.sampled_from([*one.metadata["choices"]])
    kind = kind_of(one)
    if kind in ("bool", "int"):
        return st.booleans() if kind == "bool" else st.integers(1, 999_999_999)
    text = READ[one.metadata["read"]]
    return text if one.metadata["read"] or kind != LINES else st.lists(text, min_size=1, max_size=3).map(tuple)


def typed(one: Field[Any], value: Any) -> list[str]:
    """Return the words of an option with a value."""
    key = option_key(one.name)
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{key}"]
    return [f"--{key}={word}" for word in (value if isinstance(value, tuple) else (value,))]


@pytest.mark.parametrize("one", FIELDS, ids=lambda one: one.name)
@given(data=st.data())
def test_an_option_is_typed_once_and_read_from_the_lock(one: Field[Any], data: st.DataObject) -> None:
    value = data.draw(values_of(one))
    other = data.draw(values_of(one).filter(lambda other: other != value))

    request = read_request(parse_words("build", typed(one, value)))
    plan = planner.make_plan(request, TABLE)
    lock, another = (locks.lock(**{one.name: value}) for value in (getattr(plan, one.name), other))
    text = lockfile.format_lock(lock)

    assert request.content == {one.name: value} and getattr(plan, one.name) == value
    assert (one.name in matrix.plan_fields(plan)) is (value != one.default)
    for asked in (request, Request()):
        assert getattr(lockfile.read_lock(text, "x", asked), one.name) == value
    with pytest.raises(UserFault, match=re.escape(typed(one, value)[0].partition("=")[0])):
        lockfile.read_lock(lockfile.format_lock(another), "x", request)


# What a field of Asked may be, and another value: whatever else a lock says follows from torch and transformers.
OTHERS: Mapping[str, tuple[str, str]] = {
    "torch": ("2.13", "2.12.0"), "transformers": ("5.23.0", "5.22.0"), "python": ("3.11", "3.12"),
    "base": ("debian", "host:5000/a:1"), "backend": ("gloo", "ccl"), "as_of": (str(locks.DAY), "2025-12-31"),
    "examples": ("none", "there"),
}  # fmt: skip


@pytest.mark.parametrize("one", [one for one in fields(Asked) if one.name != "tasks"], ids=lambda one: one.name)
def test_what_is_asked_for_is_that_of_the_lock(one: Field[Any]) -> None:
    text, option = lockfile.format_lock(locks.lock()), f"--{option_key(one.name)}"
    same, other = (read_request(parse_words("build", [f"{option}={value}"])) for value in OTHERS[one.name])

    assert [getattr(request, one.name) for request in (same, other)] == [*OTHERS[one.name]]
    lockfile.read_lock(text, "x", same)
    with pytest.raises(UserFault, match=f"{option} {OTHERS[one.name][1]}, but "):
        lockfile.read_lock(text, "x", other)


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Return the values of a field of a lock, by its annotation."""
    if get_origin(kind) is Annotated:
        [grammar] = kind.__metadata__
        return st.from_regex(grammar.pattern.replace(r"\z", r"\Z"), alphabet=st.characters(codec="utf-8"))
    if get_origin(kind) is tuple:
        return st.lists(of_type(get_args(kind)[0]), max_size=2).map(tuple)
    if others := get_args(kind):
        return st.one_of(*map(of_type, others))
    if isinstance(kind, type) and is_dataclass(kind):
        return st.builds(
            kind, **{name: of_type(inner) for name, inner in get_type_hints(kind, include_extras=True).items()}
        )
    return st.none() if kind is NoneType else st.from_type(kind)


TORCH, TRANSFORMERS = locks.lock().artifacts
ONE = BaseImage(Manifest("sha256:" + "d" * 64, Descriptor("x", "sha256:" + "e" * 64, 7), ()), ())
# Fields with which others change: a lock that has another value of each.
TOGETHER: Mapping[str, Mapping[str, Any]] = {
    "platform": {"platform": PLATFORMS[1]},
    "torch": {"torch": "2.12.0", "artifacts": (locks.artifact("torch", "2.12.0+cpu"), TRANSFORMERS)},
    "transformers": {"transformers": "5.22.0", "artifacts": (TORCH, locks.artifact("transformers", "5.22.0"))},
    "backend": {
        "backend": "ccl", "module": "m", "artifacts": (TORCH, TRANSFORMERS, locks.artifact("oneccl-bind-pt", "1")),
    },
    "base": {"base": "host/a:1", "base_image": ONE},
}  # fmt: skip
DECIDED = {one.name: get_type_hints(Lock, include_extras=True)[one.name] for one in fields(Pins)}


@pytest.mark.parametrize("name", [name for name in DECIDED if name not in {one.name for one in FIELDS}])
@given(data=st.data())
def test_what_a_plan_decides_is_in_the_lock_and_read_back(name: str, data: st.DataObject) -> None:
    usual = locks.lock()
    changes = TOGETHER.get(name) or {name: data.draw(of_type(DECIDED[name]))}
    lock = lockfile.without_addresses(locks.lock(**changes))
    text = lockfile.format_lock(lock)

    assert lockfile.read_lock(text, "x", Request()) == lock
    assert (text == lockfile.format_lock(usual)) is (changes[name] == getattr(usual, name))


@pytest.mark.parametrize("one", [*fields(Settings), *fields(Asked)], ids=lambda one: one.name)
def test_what_shows_in_no_byte_is_in_no_lock(one: Field[Any]) -> None:
    table = lockfile.lock_fields(locks.lock(), with_origin=True)["tool"]["multinode"]

    assert (option_key(one.name) in table) is (one.name in DECIDED)
    assert hasattr(Request(), one.name) is (one in fields(Asked))
    for command in COMMANDS:
        takes = f"--{option_key(one.name)}" in parser(command).format_help()
        assert takes is (command in one.metadata["commands"].split())


# Variables of an image that the user names.


@pytest.mark.parametrize(
    ("typed", "lines"),
    [
        (["KERAS_BACKEND=torch"], ("KERAS_BACKEND=torch",)),
        (["b=2 = 3", "A=", "b=2 = 3"], ("A=", "b=2 = 3")),
        (["TOKENIZERS_PARALLELISM=false", "KEYS=1"], ("KEYS=1", "TOKENIZERS_PARALLELISM=false")),
    ],
)
def test_each_variable_is_there_once_and_in_one_order(typed: Sequence[str], lines: Sequence[str]) -> None:
    assert content.read_variables(typed) == lines
    assert [f"{name}={value}" for name, value in content.parse_variables(lines).items()] == [*lines]


@pytest.mark.parametrize(
    ("typed", "fact", "value"),
    [
        (["KERAS_BACKEND"], "not a variable", "KERAS_BACKEND"),
        (["=1"], "not a variable", "=1"),
        (["2A=1"], "not a variable", "2A=1"),
        (["A=1", "A=2"], "two values", "A: 1 and 2"),
        (["HF_TOKEN=x"], "a secret", "HF_TOKEN"),
        (["wandb_api_key=x"], "a secret", "wandb_api_key"),
        (["MyPassword=1234"], "a secret", "MyPassword"),
        (["INDEX=https://me:hunter@h/simple"], "a secret", "INDEX"),
        (["HUB=hf_" + "a" * 34], "a secret", "HUB"),
        *([[f"{name}=x"], "sets that variable itself", name] for name in ("PYTHONPATH", *ENVIRONMENT)),
    ],
)
def test_what_cannot_be_a_variable_of_an_image_is_refused(typed: Sequence[str], fact: str, value: str) -> None:
    with pytest.raises(UserFault, match=fact) as caught:
        content.read_variables(typed)

    assert caught.value.value == value and "hf_" not in str(caught.value) and "hunter" not in str(caught.value)
