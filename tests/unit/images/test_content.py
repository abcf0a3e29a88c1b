"""What may be asked of an image: each field, declared once, from the command line to the lock and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images import content
from images.content import FIELDS, Content, option, option_key
from images.context import Settings
from images.host.errors import UserFault
from images.layers.configuration import ENVIRONMENT
from images.lock import lockfile
from images.lock.lock import Lock
from images.options import COMMANDS, parse_words, parser, read_request
from images.plan import catalog, matrix, planner
from images.plan.plan import REQUESTED, Pins, Request
from tests.support import locks

TABLE = catalog.load()
PLAIN: Mapping[type, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(codec="utf-8", categories=("L", "N", "S")), min_size=1, max_size=9),
    int: st.integers(1, 999_999_999),
}
# What a reader leaves of a text.
READ: Mapping[object, st.SearchStrategy[Any]] = {
    content.read_variables: st.sampled_from([("A=",), ("A=1", "B= 2 = 3"), ("KERAS_BACKEND=torch",)]),
    content.read_projects: st.sampled_from([("torch",), ("torch", "transformers"), ("transformers",)]),
}
TOKEN = "x hf_" + "a" * 34
HINTS = get_type_hints(Lock, include_extras=True)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return the values of a field, by its annotation."""
    if get_origin(kind) is Annotated:
        [grammar] = kind.__metadata__
        return st.from_regex(grammar.pattern.replace(r"\z", r"\Z"), alphabet=st.characters(codec="utf-8"))
    if get_origin(kind) is tuple:
        return st.lists(values_of(get_args(kind)[0]), min_size=1, max_size=2).map(tuple)
    if others := get_args(kind):
        return st.one_of(*map(values_of, others))
    if isinstance(kind, type) and is_dataclass(kind):
        return st.builds(kind, **{name: values_of(one) for name, one in get_type_hints(kind, None, None, True).items()})
    return PLAIN[kind] if kind in PLAIN else st.from_type(kind)


def choose_value(data: st.DataObject, one: Field[Any], *others: object) -> Any:
    """Choose what an option may be, and none of the others."""
    choices, read = one.metadata["choices"], one.metadata["read"]
    values = st.sampled_from([*choices]) if choices else READ[read] if read else values_of(HINTS[one.name])
    return data.draw(values.filter(lambda value: value not in (None, *others)))


def type_option(one: Field[Any], value: Any) -> list[str]:
    """Return the words of an option with a value."""
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{option_key(one.name)}"]
    return [f"--{option_key(one.name)}={word}" for word in (value if isinstance(value, tuple) else (value,))]


@pytest.mark.parametrize("one", FIELDS, ids=lambda one: one.name)
@given(data=st.data())
def test_an_option_is_typed_once_and_read_from_the_lock(one: Field[Any], data: st.DataObject) -> None:
    value = choose_value(data, one)
    words = type_option(one, value)

    request = read_request(parse_words("build", words))
    plan = planner.make_plan(request, TABLE)
    text = lockfile.format_lock(locks.lock(**{one.name: getattr(plan, one.name)}))
    other = lockfile.format_lock(locks.lock(**{one.name: choose_value(data, one, value)}))

    assert request.content == {one.name: value}
    assert (one.name in matrix.plan_fields(plan)) is (value != one.default)
    for asked in (request, Request()):
        assert getattr(lockfile.read_lock(text, "x", asked), one.name) == value
    with pytest.raises(UserFault, match=re.escape(words[0].partition("=")[0])):
        lockfile.read_lock(other, "x", request)


# What the lock of the tests has, as it may be asked for, and something else. Its examples are none.
ASKED = {
    "torch": ("2.13", "2.12.0"), "transformers": ("5.23", "5.22.0"), "python": ("3.11", "3.12"),
    "base": ("debian", "host:5000/a:1"), "backend": ("gloo", "ccl"), "as_of": (str(locks.DAY), "2025-12-31"),
    "tasks": (None, "translation"), "examples": ("none", "there"),
}  # fmt: skip


@pytest.mark.parametrize("one", REQUESTED, ids=lambda one: one.name)
def test_what_is_asked_for_is_that_of_the_lock(one: Field[Any]) -> None:
    text, name = lockfile.format_lock(locks.lock()), f"--{option_key(one.name)}"
    same, other = (
        read_request(parse_words("build", [f"{name}={value}"] if value else [])) for value in ASKED[one.name]
    )

    assert lockfile.read_lock(text, "x", same)
    with pytest.raises(UserFault, match=f"{name} {ASKED[one.name][1]}, but "):
        lockfile.read_lock(text, "x", other)


@pytest.mark.parametrize(
    "name", [one.name for one in fields(Pins) if one not in FIELDS and one.name not in {"platform", *ASKED}]
)
@given(data=st.data())
def test_what_a_plan_decides_by_itself_is_read_from_the_lock(name: str, data: st.DataObject) -> None:
    usual, value = locks.lock(), data.draw(values_of(HINTS[name]))
    text = lockfile.format_lock(locks.lock(**{name: value}))

    assert getattr(lockfile.read_lock(text, "x", Request()), name) == value
    assert (text == lockfile.format_lock(usual)) is (value == getattr(usual, name))


@pytest.mark.parametrize("one", [*fields(Settings), *REQUESTED], ids=lambda one: one.name)
def test_what_shows_in_no_byte_is_in_no_lock(one: Field[Any]) -> None:
    table = lockfile.lock_fields(locks.lock(), with_origin=True)["tool"]["multinode"]

    assert (option_key(one.name) in table) is (one in REQUESTED and one.name not in {"tasks", "examples"})


@pytest.mark.parametrize("one", [*FIELDS, *fields(Settings), *REQUESTED], ids=lambda one: one.name)
def test_an_option_is_of_the_commands_that_it_names(one: Field[Any]) -> None:
    taking = {command for command in COMMANDS if f"--{option_key(one.name)}" in parser(command).format_help()}

    assert taking == {*one.metadata["commands"].split()}


@dataclass(frozen=True, kw_only=True)
class OneOfEach(Content):
    """Options of the kinds that an image may have."""

    switch: bool = option(False, "x")
    number: int | None = option(None, "x", "N")
    text: str | None = option(None, "x", "TEXT")
    texts: tuple[str, ...] | None = option(None, "x", "TEXT")
    choice: int | None = option(None, "x", "N", choices=(1, 9))


@pytest.mark.parametrize(
    ("name", "read", "there", "is_typed"),
    [
        ("switch", True, True, True), ("switch", True, 1, False), ("switch", True, "yes", False),
        ("switch", True, None, False), ("number", 7, 7, True), ("number", 0, 0, False), ("number", 7, "7", False),
        ("text", "a b", "a b", True), ("text", "a\nb", "a\nb", False), ("text", TOKEN, TOKEN, False),
        ("texts", ("b", "a"), ["b", "a"], True), ("texts", ("a", TOKEN), ["a", TOKEN], False),
        ("choice", 9, 9, True), ("choice", 2, 2, False), ("choice", None, None, True),
    ],
)  # fmt: skip
def test_a_lock_has_what_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, name: str, read: Any, there: object, *, is_typed: bool
) -> None:
    monkeypatch.setattr(content, "FIELDS", [one for one in fields(OneOfEach) if one.name == name])

    with nullcontext() if is_typed else pytest.raises((ValueError, UserFault), match=r"nothing that|a secret"):
        content.require_written(OneOfEach(**{name: read}), {name: there})


@pytest.mark.parametrize(
    ("name", "typed", "lines"),
    [
        ("env", ["KERAS_BACKEND=torch"], ("KERAS_BACKEND=torch",)),
        ("env", ["b=2 = 3", "A=", "b=2 = 3"], ("A=", "b=2 = 3")),
        ("env", ["TOKENIZERS_PARALLELISM=false", "KEYS=1"], ("KEYS=1", "TOKENIZERS_PARALLELISM=false")),
        ("no_import", ["keras", "Absl_Py", "absl-py"], ("absl-py", "keras")),
    ],
)
def test_each_text_is_there_once_and_in_one_order(name: str, typed: Sequence[str], lines: Sequence[str]) -> None:
    request = read_request(parse_words("build", [f"--{option_key(name)}={text}" for text in typed]))

    assert request.content == {name: lines}


@pytest.mark.parametrize(
    ("typed", "fact", "value"),
    [
        (["--no-import=keras==3"], "not the name of a package", "keras==3"),
        (["--env=KERAS_BACKEND"], "not a variable", "KERAS_BACKEND"),
        (["--env==1"], "not a variable", "=1"),
        (["--env=2A=1"], "not a variable", "2A=1"),
        (["--env=A=1", "--env=A=2"], "two values", "A: 1 and 2"),
        (["--env=HF_TOKEN=x"], "a secret", "HF_TOKEN"),
        (["--env=wandb_api_key=x"], "a secret", "wandb_api_key"),
        (["--env=MyPassword=1234"], "a secret", "MyPassword"),
        (["--env=INDEX=https://me:hunter@h/simple"], "a secret", "INDEX"),
        (["--env=HUB=hf_" + "a" * 34], "a secret", "HUB"),
        *(([f"--env={name}=x"], "sets that variable itself", name)
          for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH", *ENVIRONMENT)),
    ],
)  # fmt: skip
def test_what_cannot_be_in_an_image_is_refused(typed: Sequence[str], fact: str, value: str) -> None:
    with pytest.raises(UserFault, match=fact) as caught:
        read_request(parse_words("build", typed))

    assert caught.value.value == value and "hf_" not in str(caught.value) and "hunter" not in str(caught.value)
