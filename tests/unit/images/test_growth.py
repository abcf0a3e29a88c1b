"""What strangers write takes time by its length, and not by its square: each regular expression, and each reader."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]  # what `re` itself reads a pattern with
from typing import Any

import pytest

from images.check import components
from images.debian import control
from images.foreign import documents
from images.foreign.paths import find_flaw
from images.host.errors import shown
from images.lock import lockfile
from images.oci import reference
from tests.support.growth import assert_linear, repeat
from tests.support.harness import ROOT

WHOLE = ("match", "fullmatch")  # methods that begin at one place, and not at each
UNLIKE = "\0"  # what ends a text, so that a pattern that has come so far fails


def test_a_quadratic_reader_is_told() -> None:
    with pytest.raises(AssertionError):
        assert_linear(lambda text: re.search("a+b", text), "a".__mul__)


def sample(items: Any) -> str:
    """Return a short text that a parsed pattern matches."""
    return "".join(map(_of_item, items))


def _of_item(item: tuple[Any, Any]) -> str:
    kind, value = item
    name = str(kind)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return sample(value[2]) * max(1, int(value[0]))
    if name == "SUBPATTERN":
        return sample(value[3])
    if name == "BRANCH":
        return sample(value[1][0])
    if name == "LITERAL":
        return chr(value)
    if name == "IN":
        return _of_class(value)
    return {"ANY": "a", "NOT_LITERAL": "a"}.get(name, "")


def _of_class(parts: Any) -> str:
    """Return a character of a class, for what is not in one a letter, or a stranger one."""
    matching = re.compile(f"[{''.join(map(_written, parts))}]")
    return next(
        character for character in "a0-. \t:/@_=bA\n~" + "".join(map(chr, range(33, 127))) if matching.match(character)
    )


def _written(part: tuple[Any, Any]) -> str:
    kind, value = part
    name = str(kind)
    if name == "NEGATE":
        return "^"
    if name == "RANGE":
        return "-".join(re.escape(chr(end)) for end in value)
    if name == "CATEGORY":
        wanted = str(value).removeprefix("CATEGORY_").lower().replace("uni_", "")
        letter = {"digit": "d", "space": "s", "word": "w"}[wanted.removeprefix("not_")]
        return "\\" + (letter.upper() if wanted.startswith("not_") else letter)
    return re.escape(chr(value))


def repeated(items: Any) -> Iterator[Any]:
    """Yield each part of a pattern that may be there again and again."""
    for kind, value in items:
        if str(kind).endswith("REPEAT"):
            if value[1] is _constants.MAXREPEAT:
                yield value[2]
            yield from repeated(value[2])
        elif str(kind) == "SUBPATTERN":
            yield from repeated(value[3])
        elif str(kind) == "BRANCH":
            for branch in value[1]:
                yield from repeated(branch)


def attacks(pattern: str | bytes, flags: int) -> Iterator[str]:
    """Yield what a pattern is to be fed with: each beginning of what it matches, and each part that may repeat."""
    items = list(_parser.parse(pattern if isinstance(pattern, str) else pattern.decode("latin-1"), flags & ~re.UNICODE))
    yield from dict.fromkeys(filter(None, (sample(items[:number]) for number in range(1, len(items) + 1))))
    yield from dict.fromkeys(filter(None, map(sample, repeated(items))))


def modules() -> Iterator[Path]:
    for root in ("images", "scripts"):
        for path in sorted((ROOT / root).rglob("*.py")):
            if "rootfs" not in path.parts and "programs" not in path.parts:
                yield path


def patterns() -> Iterator[tuple[str, re.Pattern[Any], bool]]:
    """Yield the regular expressions of a module, and whether each begins to match at one place only."""
    sources = {path: path.read_text() for path in modules()}
    uses: dict[str, set[str]] = {}
    for module, method in re.findall(r"\b(\w+)\.(?=(\w+))", "\n".join(sources.values())):
        uses.setdefault(module, set()).add(method)
    for path, source in sources.items():
        name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        if "re.compile(" in source and not name.endswith("__main__"):
            for known, value in vars(import_module(name)).items():
                if isinstance(value, re.Pattern) and re.search(rf"^{known}\b.*= ?re\.compile", source, re.MULTILINE):
                    yield f"{name}.{known}", value, known in uses and uses[known] <= {*WHOLE}
        for call in ast.walk(ast.parse(source)) if "import re\n" in source else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
                method, first = call.func.attr, call.args[0]
                of_re = isinstance(call.func.value, ast.Name) and call.func.value.id == "re"
                if of_re and isinstance(first, ast.Constant) and method != "compile":
                    yield f"{name}:{call.lineno}", re.compile(first.value), method in WHOLE


PATTERNS = {name: (pattern, whole) for name, pattern, whole in patterns()}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_regular_expression_takes_time_by_the_length(name: str) -> None:
    pattern, whole = PATTERNS[name]
    find: Callable[[Any], object] = pattern.fullmatch if whole else lambda text: list(pattern.finditer(text))
    for attack in attacks(pattern.pattern, pattern.flags):
        begin = next(iter(attacks(pattern.pattern, pattern.flags))) if whole else ""

        def make(size: int, attack: str = attack, begin: str = begin) -> Any:
            text = begin + attack * (size // len(attack)) + UNLIKE
            return text.encode("latin-1") if isinstance(pattern.pattern, bytes) else text

        assert_linear(find, make)


def keys_for(text: str) -> list[str]:
    return [str(number) for number in range(len(text) // 9)]


READERS: dict[str, Callable[[str], object]] = {
    "messages": shown,
    "JSON": lambda text: documents.parse_json(text.encode()),
    "paths": find_flaw,
    "control files": control.parse_fields,
    "relations": control.parse_relations,
    "names of images": reference.parse_reference,
    "licences": lambda text: components.licences({"license_expression": text}),
    "licences in words": lambda text: components.licences({"license": text}),
    "locks": lambda text: lockfile.parse_lock(text, "it"),
}  # fmt: skip
# These have texts of their own, whose length counts alone.
KEYS: dict[str, Callable[[str], object]] = {
    "JSON with many keys": lambda text: documents.parse_json(json.dumps(dict.fromkeys(keys_for(text), 0)).encode()),
    "JSON with a key twice": lambda text: documents.parse_json(
        json.dumps(dict.fromkeys(keys_for(text), 0)).replace("}", f', "{len(text) // 9 - 1}": 0}}').encode()
    ),
}
PIECES = (
    "a", " ", "\n", "/", "//", "://", "https://", "@", "a@", "a:", "(a:", "a:b@", "://:", "https://a:'", "=", "?", "?a",
    "#", "-", ".", "_", "a.", "a-", "[", "{", '"', '"a":', "(", "MIT OR ", "a = ", "[[a]]\n", ",", "|", "\0",
)  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("piece", PIECES)
def test_a_reader_takes_time_by_the_length(reader: str, piece: str) -> None:
    assert_linear(READERS[reader], repeat(piece))


@pytest.mark.parametrize("reader", KEYS)
def test_a_reader_of_keys_takes_time_by_their_number(reader: str) -> None:
    assert_linear(KEYS[reader], "a".__mul__)
