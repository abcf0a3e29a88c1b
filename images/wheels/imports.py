"""Which modules the modules of a wheel import, as their text says.

Nothing is compiled: what is read may not depend on the release of Python that builds. A name that is put together while
a program runs, and what a compiled module imports, are not seen.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from images.wheels import archive

WORD = re.compile(r"import\b")
# What stands before it on its line, of which no more than so many characters are looked at.
BEFORE, LONGEST = re.compile(r"(?:.*[;:])?[ \t]*(?:from[ \t]+(?P<source>[\w.]+)[ \t]+)?"), 400
# What comes after it: names in brackets, with comments between, or on one line, which may go on behind a \\.
NAMES = re.compile(r"[ \t]*(?:\([^)#]*(?:#[^\n]*\n?[^)#]*)*|[^\n#;\\]*(?:\\\r?\n[^\n#;\\]*)*)")
NAMES_IN_BYTES = re.compile(NAMES.pattern.encode())
NO_NAME = re.compile(r"#[^\n]*|[()\\]")
# The first letters of a line that begins, or ends, a block: no brackets, which may close the head of a function.
LINE = re.compile(r"^(?P<indent>[ \t]*)(?:(?P<function>(?:async[ \t]+)?def\b)|[^\s)\]}#])", re.MULTILINE)
MODULE = re.compile(r"(?P<name>.+?)(?:\.py|(?:\.(?:cpython|abi)[\w-]*)?\.so)")


class Import(NamedTuple):
    """A module that is imported, by its whole name, and by which file; `deferred` until a function is called.

    What `*` takes of a package is `PACKAGE.*`. A name that is imported from a module may be another module, or none.
    """

    path: str
    module: str
    deferred: bool


def dotted_name(path: str) -> str | None:
    """Return what a file of a site is imported as; None for no module. `a/__init__.py` and `a.cpython-311.so` are a."""
    match = MODULE.fullmatch(path)
    return match["name"].removesuffix("/__init__").replace("/", ".") if match else None


def list_imports(wheel: Path, is_asked_for: Callable[[str], bool], words: Sequence[str]) -> list[Import]:
    """List the imports of a wheel that have one of the words among the parts of their names.

    Of its modules those count whose path a caller asks for.
    """
    imports, mentioned = list[Import](), re.compile(rf"\b(?:{'|'.join(words)})\b".encode())
    with archive.open_wheel(wheel) as opened:
        for name, member in opened.members.items():
            path = archive.site_path(name)
            if path and path.endswith(".py") and is_asked_for(path) and _may_import(data := member.read(), mentioned):
                imports += parse_imports(data.decode(errors="replace"), path, words)
    return imports


def _may_import(data: bytes, mentioned: re.Pattern[bytes]) -> bool:
    """Return whether something is mentioned beside the word `import`: most modules need no closer look."""
    end = 0
    while (at := data.find(b"import", end)) >= 0:
        begin, names = max(end, data.rfind(b"\n", end, at)), NAMES_IN_BYTES.match(data, at + len(b"import"))
        end = names.end() if names else len(data)
        if mentioned.search(data, begin, end):
            return True
    return False


def parse_imports(text: str, path: str, words: Collection[str] | None = None) -> list[Import]:
    """Return the imports of a module, or those with one of the words among the parts of their names.

    `path` is its place in a site.
    """
    named = [(at, name) for at, name in _read_statements(text, path)
             if words is None or not set(name.split(".")).isdisjoint(words)]  # fmt: skip
    functions = list(_outermost_functions(text)) if named else []
    return [Import(path, name, _is_inside(at, functions)) for at, name in named]


def _read_statements(text: str, path: str) -> Iterator[tuple[int, str]]:
    """Yield where a module may be imported, and its whole name."""
    end = 0
    for word in WORD.finditer(text):
        at = word.start()
        head = BEFORE.fullmatch(text, max(text.rfind("\n", 0, at) + 1, at - LONGEST), at)
        if at < end or head is None or (listed := NAMES.match(text, word.end())) is None:
            continue
        end = listed.end()
        names = [words[0] for part in NO_NAME.sub(" ", listed[0]).split(",") if (words := part.split())]
        if head["source"]:
            whole = _whole_name(head["source"], path)
            names = [whole, *(f"{whole}.{name}" for name in names)]
        yield from ((at, name) for name in names)


def _whole_name(source: str, path: str) -> str:
    """Return the name of a package that a module imports from: one that begins with a dot is beside it, or above."""
    below = source.lstrip(".")
    dots = len(source) - len(below)
    return ".".join([*(path.split("/")[:-dots] if dots else ()), *([below] if below else ())])


def _is_inside(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    before = bisect(spans, (at, at)) - 1
    return before >= 0 and at < spans[before][1]


def _outermost_functions(text: str) -> Iterator[tuple[int, int]]:
    """Yield where functions that are in no other one begin and end."""
    begun: tuple[int, int] | None = None  # by which indent, and where
    for line in LINE.finditer(text):
        indent = len(line["indent"])
        if begun and indent <= begun[0]:
            yield begun[1], line.start()
            begun = None
        if begun is None and line["function"]:
            begun = indent, line.start()
    if begun:
        yield begun[1], len(text)
