"""What stays of the files that trim.TABLE names: what other modules of the image import, in whichever release."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from images.content import Content
from images.context import Context
from images.foreign import libraries
from images.host.background import side_by_side
from images.layers import trim
from images.layers.trim import Patterns
from images.store.store import Store
from images.wheels import archive, imports
from images.wheels.archive import Wheel
from images.wheels.imports import Import

# Modules whose imports are no reason to keep what is imported: pytest's own, and programs that make tables for tests.
ASIDE = re.compile(r"(?:.*/)?conftest\.py|scipy/special/_precompute/")
# In what Python says: names, and the name that a package should have and has not.
WORD, NO_NAME_IN = re.compile(r"[\w./+-]+"), re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
AT_ONCE = 2  # wheels: inflating is half of the work


class Candidate(NamedTuple):
    """A module that is left out unless another one imports it: its wheel, and its path in the site."""

    wheel: Wheel
    path: str


def choose_left_out(wheels: Sequence[Wheel], options: Content, context: Context) -> Patterns:
    """Return what is left out of each wheel: what the table names, but for what a module of any wheel imports."""
    named = {wheel.project: trim.trimmed_pattern(wheel.project, options) for wheel in wheels}
    inputs = [[wheel.sha256, wheel.path.name, named[wheel.project].pattern] for wheel in wheels]
    needed = context.store.cached("needed", inputs, lambda: _find_needed(wheels, named, context)).value
    return {project: trim.trimmed_pattern(project, options, needed.get(project, ())) for project in named}


def find_left_out(said: str, wheels: Sequence[Wheel], left_out: Patterns) -> str | None:
    """Return a file that was left out and is in what Python said of an import, as a module, a library or a path."""
    words = {word.rstrip(".") for word in WORD.findall(said)}
    words |= {f"{package}.{name}" for name, package in NO_NAME_IN.findall(said)}
    for wheel in wheels:
        pattern = left_out[wheel.project]
        for path in map(archive.path_in_scheme, _list_left_out(wheel, pattern)):
            library = {posixpath.basename(path)} if ".so" in path else set()
            if words & {*_modules(path, pattern), *library} or any(word.endswith(f"/{path}") for word in words):
                return path
    return None


def _modules(path: str, left_out: re.Pattern[str]) -> Iterator[str]:
    """Yield the packages that are left out with a file, the highest first, and what it is imported as itself."""
    parts = path.split("/")
    for n in range(1, len(parts)):
        if left_out.match("/".join([*parts[:n], ""])):
            yield ".".join(parts[:n])
    yield imports.dotted_name(path) or path


def _list_left_out(wheel: Wheel, pattern: re.Pattern[str]) -> list[str]:
    with archive.open_wheel(wheel.path) as opened:
        return [name for name in opened.members if pattern.match(archive.path_in_scheme(name))]


def _find_needed(wheels: Sequence[Wheel], left_out: Patterns, context: Context) -> dict[str, list[str]]:
    """Return the paths of the files that stay, by project."""
    candidates = dict(_list_candidates(wheels, left_out))
    ahead = _list_imported(wheels, left_out, candidates, context)
    stay: dict[str, set[str]] = {}
    seen = set[str]()
    while ahead:
        if (module := ahead.pop()) not in seen:
            seen.add(module)
            files, imported = _read_candidate(candidates[module], left_out)
            stay.setdefault(candidates[module].wheel.project, set()).update(files)
            ahead += [other for name in imported for other in _loaded(name, candidates)]
    return {project: sorted(paths) for project, paths in stay.items()}


def _list_candidates(wheels: Sequence[Wheel], left_out: Patterns) -> Iterator[tuple[str, Candidate]]:
    for wheel in wheels:
        for path in filter(None, map(archive.site_path, _list_left_out(wheel, left_out[wheel.project]))):
            if module := imports.dotted_name(path):
                yield module, Candidate(wheel, path)


def _list_imported(
    wheels: Sequence[Wheel], left_out: Patterns, candidates: Mapping[str, Candidate], context: Context
) -> list[str]:
    """List the candidates that modules of the image import.

    A function of a package that imports what is left out of that package runs its tests, and is no reason.
    """
    # What an import from outside has in it: the last part of the highest name that is left out.
    highest = {next(_modules(path, left_out[wheel.project])) for wheel, path in candidates.values()}
    words = sorted({name.rpartition(".")[2] for name in highest})
    tasks = [partial(_read_imports, wheel, left_out[wheel.project], words, context.store) for wheel in wheels]
    read = side_by_side(context.progress, "reading imports", tasks, AT_ONCE) if words else ()
    return [
        module
        for wheel, imported in zip(wheels, read, strict=False)
        for one in imported
        for module in _loaded(one.module, candidates)
        if not (one.deferred and candidates[module].wheel == wheel)
    ]


def _read_imports(wheel: Wheel, left_out: re.Pattern[str], words: Sequence[str], store: Store) -> list[Import]:
    def is_kept(path: str) -> bool:
        return not left_out.match(path) and not ASIDE.match(path)

    inputs = [wheel.sha256, left_out.pattern, words]
    rows = store.cached("imports", inputs, lambda: imports.list_imports(wheel.path, is_kept, words)).value
    return [Import(*row) for row in rows]


def _loaded(name: str, candidates: Collection[str]) -> Iterator[str]:
    """Yield the candidates that the import of a name loads: its own, those above it, and of * all directly below."""
    parts = name.split(".")
    yield from (module for n in range(len(parts)) if (module := ".".join(parts[: n + 1])) in candidates)
    if parts[-1] == "*":
        package = ".".join(parts[:-1])
        yield from (module for module in candidates if module.rpartition(".")[0] == package)


def _read_candidate(candidate: Candidate, left_out: Patterns) -> tuple[list[str], list[str]]:
    """Return what comes with a module: paths of its wheel, which a compiled one may be linked to, and its imports."""
    wheel, path = candidate
    with archive.open_wheel(wheel.path) as opened:
        files = {archive.path_in_scheme(name): member for name, member in opened.members.items()}
        if path.endswith(".py"):
            text = files[path].read().decode(errors="replace")
            return [path], [one.module for one in imports.parse_imports(text, path)]
        ahead, linked = [path], dict.fromkeys([path])
        trimmed = {posixpath.basename(name): name for name in files if left_out[wheel.project].match(name)}
        while ahead:
            needs = libraries.list_needed(io.BytesIO(files[ahead.pop()].read()))
            new = [name for need in needs if (name := trimmed.get(need)) and name not in linked]
            ahead += new
            linked |= dict.fromkeys(new)
        return [*linked], []
