"""The user's own packages: requirements files (pip, "Requirements File Format"), pyproject.toml and single ones.

Each becomes one line, as a lock has it: a requirement (PEP 508), then ` --hash=sha256:...` for each file that it may
be, or ` --constraint` where it only bounds what others bring.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from images.foreign.documents import parse_toml
from images.host.errors import UserFault, require_text, shown
from images.host.files import is_plain
from images.pip_config import local_path
from images.plan.catalog import TORCH_INDEX
from images.plan.packages import applies, is_build, is_left_out, read_public
from images.platforms import Platform

CONSTRAINT = "--constraint"
PLACE = re.compile(r"[./~]|[\w+]+://|[^;]*@|.*\.(whl|zip|tar\.gz)$")  # a path or an address, also behind a name
HASH = re.compile(r"--hash[= ]sha256:([0-9a-f]{64})")
COMMENT, CONTINUED = re.compile(r"(^|\s)#.*"), "\\"
LONGEST = 1 << 20  # bytes of a file; of a real one some kilobytes
DEEPEST = 50  # files that name each other

WHEEL = "a wheel of it (pip wheel --no-deps --wheel-dir DIR ...), its name in the file, and --wheelhouse DIR"
# What a line may begin with that names where packages are looked for, and pip's variable that says the same.
INDEXES = {
    **dict.fromkeys(("-i", "--index-url", "--pypi-url"), "PIP_INDEX_URL"),
    "--extra-index-url": "PIP_EXTRA_INDEX_URL",
    **dict.fromkeys(("-f", "--find-links"), "PIP_FIND_LINKS"),
    "--no-index": "PIP_NO_INDEX",
    "--trusted-host": "PIP_TRUSTED_HOST",
}
NESTED = {"-r": False, "--requirement": False, "-c": True, CONSTRAINT: True}  # option -> whether it only bounds


class UserRequirement(NamedTuple):
    """A requirement of the user's, the sha256 of the files that it may be (none: any), and whether it only bounds."""

    requirement: Requirement
    hashes: tuple[str, ...] = ()
    bounds: bool = False

    @property
    def name(self) -> str:
        """Return the project in its normal form."""
        return canonicalize_name(self.requirement.name)

    def __str__(self) -> str:
        """Return the line of a lock."""
        hashes = (f"--hash=sha256:{digest}" for digest in sorted(self.hashes))
        return " ".join([str(self.requirement), *([CONSTRAINT] if self.bounds else []), *hashes])


class Passed(NamedTuple):
    """A line of a file that is passed over, and where it stands."""

    where: str


class Strict(NamedTuple):
    """A line that asks for the hash of every package, and where it stands."""

    where: str


Stated = UserRequirement | Passed | Strict


class Nesting(NamedTuple):
    """The files that were read so far, whether the one that is read only bounds, and how many name it in a row."""

    seen: set[tuple[object, ...]]
    bounds: bool = False
    depth: int = 0


class Wanted(NamedTuple):
    """The user's own packages as lines of a lock, and what of that is not as it was typed."""

    lines: tuple[str, ...]
    notes: tuple[str, ...]


def parse_line(line: str) -> UserRequirement:
    """Read a line of a lock; raise ValueError for what is none."""
    text, *words = re.split(r" (?=--)", line)
    hashes = [match[1] for word in words if (match := HASH.fullmatch(word))]
    bounds = CONSTRAINT in words
    if len(words) != len(hashes) + bounds:
        raise ValueError(f"not a requirement: {line!r}")
    try:
        return UserRequirement(Requirement(text), tuple(hashes), bounds)
    except RecursionError as error:
        raise ValueError("a requirement is nested too deep") from error


def read_requirements(files: Sequence[str], packages: Sequence[str]) -> Wanted:
    """Return the lines of all files and of single packages, each once, in one order.

    What is for a GPU is left out, or read as the same release for CPUs, with a note. Raises UserFault for what cannot
    be read, or is not followed.
    """
    typed = [one for file in files for one in _read_typed(file)]
    passed = [one.where for one in typed if isinstance(one, Passed)]
    stated = [*(one for one in typed if isinstance(one, UserRequirement)), *map(_exact, packages)]
    if strict := next((one.where for one in typed if isinstance(one, Strict)), None):
        _require_each_hash(stated, strict)
    kept = {line: _for_cpu(line) for line in stated if not is_left_out(line.name)}
    lines = tuple(sorted({str(line) for line in kept.values()}))
    left_out = sorted({line.name for line in stated if is_left_out(line.name)})
    builds = sorted({str(line.requirement) for line in kept if any(map(is_build, _stated_versions(line)))})
    notes = {
        f"not asked, for builds for CPUs come from {TORCH_INDEX}: ": passed,
        "left out of your packages, as they are for a GPU: ": left_out,
        "of your packages the same releases are taken for CPUs: ": builds,
    }
    return Wanted(lines, tuple(f"{text}{', '.join(values)}" for text, values in notes.items() if values))


def _require_each_hash(stated: Iterable[UserRequirement], where: str) -> None:
    """Raise UserFault for requirements without a hash; those that others bring are looked at when they are known."""
    asked = (line for line in stated if not line.bounds and not is_left_out(line.name))
    if without := [str(line.requirement) for line in asked if not line.hashes]:
        value, remedy = f"{', '.join(without)} ({where})", "pip-compile --generate-hashes, or leave that option out"
        raise UserFault("requirements have no hash, and a file asks for the hash of each", value, remedy)


def _for_cpu(line: UserRequirement) -> UserRequirement:
    """Return what is taken of a requirement; the hashes of a build for a GPU are of no other file."""
    requirement = read_public(line.requirement)
    hashes = () if any(map(is_build, _stated_versions(line))) else line.hashes
    return UserRequirement(requirement, hashes, line.bounds)


def _stated_versions(line: UserRequirement) -> Iterator[str]:
    return (one.version for one in line.requirement.specifier)


def is_exact(requirement: Requirement) -> bool:
    """Return whether a requirement names one release: `==1.*` leaves a choice, which a day decides."""
    return bool(re.fullmatch(r"===?[^,*]+", str(requirement.specifier)))


def _exact(text: str) -> UserRequirement:
    requirement = _requirement(text, "--package", bounds=False)
    if not is_exact(requirement.requirement):
        remedy = f"--package {requirement.name}==VERSION; a name alone may be a line of --requirements FILE"
        raise UserFault("a package is named with its version", text, remedy)
    return requirement


def _read_typed(typed: str) -> Iterator[Stated]:
    """Read a file as it was typed: after a pyproject.toml there may be its optional groups, in brackets."""
    match = re.fullmatch(r"(.*\.toml)(?:\[([^\[\]]*)\])?", typed)
    if match and not Path(typed).name.startswith("requirements"):
        yield from _project(match[1], re.findall(r"[^,\s]+", match[2] or ""))
    else:
        yield from _lines(Path(typed), Nesting(set()))


def _read_text(path: Path) -> str:
    if not is_plain(path):
        raise UserFault("there is no such file of requirements", path, "--requirements FILE with its path")
    with path.open("rb") as file:
        data = file.read(LONGEST + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserFault("a file of requirements is not UTF-8", path, "the file in UTF-8") from error
    if len(data) > LONGEST:
        raise UserFault("a file of requirements is longer than 1 MiB", path, "the requirements themselves")
    return text


def _lines(path: Path, inside: Nesting) -> Iterator[Stated]:
    """Read a requirements file, and those that it names, each once, by whatever way it is named.

    The directory belongs to that: what a file names is beside it.
    """
    text = _read_text(path)
    known = (inside.bounds, *((place.stat().st_dev, place.stat().st_ino) for place in (path, path.parent)))
    if known in inside.seen:
        return
    if inside.depth > DEEPEST:
        raise UserFault("files of requirements name each other too deep", path, "the requirements themselves")
    inside.seen.add(known)
    for number, stated in _joined(text.splitlines()):
        where = f"{path}, line {number}"
        if stated.startswith("-"):
            for option in re.split(r"(?<!\s)\s+(?=-)", stated):  # pip takes several of one line
                yield from _read_option(option, path, where, inside)
        else:
            yield _requirement(stated, where, bounds=inside.bounds)


def _joined(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield what lines state, each with the number of its first one; a comment goes on to no other line, as in pip."""
    begun, first = "", 0
    for number, line in enumerate((*lines, ""), 1):
        stated = COMMENT.sub("", line)
        first = first or number
        begun += f" {stated.removesuffix(CONTINUED)}"
        if not stated.endswith(CONTINUED):
            if begun.strip():
                yield first, begun.strip()
            begun, first = "", 0


def _read_option(stated: str, path: Path, where: str, inside: Nesting) -> Iterator[Stated]:
    option = re.match(r"(--[a-z-]+|-[a-z]|)[=\s]*", stated)
    assert option is not None  # it may be empty
    if option[1] in NESTED:
        name = stated[option.end() :].strip("\"'")
        if "://" in name:
            raise UserFault(
                "a file of requirements names an address", f"{where}: {stated}", "a copy of it on this machine"
            )
        bounds = inside.bounds or NESTED[option[1]]
        yield from _lines(path.parent / name, inside._replace(bounds=bounds, depth=inside.depth + 1))
    elif option[1] in INDEXES:
        address = stated[option.end() :].strip("\"'")
        if urlsplit(TORCH_INDEX).hostname not in (address, _host(address)):
            raise _names_index(INDEXES[option[1]], address, f"{where}: {option[1]}")
        yield Passed(f"{where}: {option[1]} {shown(address)}")
    elif option[1] in ("-e", "--editable"):
        raise UserFault("only wheels of an index or of a wheelhouse go into an image", f"{where}: {stated}", WHEEL)
    elif option[1] == "--require-hashes":
        yield Strict(f"{where}: {option[1]}")
    elif option[1] not in ("--only-binary", "--prefer-binary"):  # these say what is done anyway
        raise UserFault("an option in a file of requirements is not followed", f"{where}: {stated}", "leave it out")


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:  # brackets that are no address
        return None


def _names_index(variable: str, address: str, where: str) -> UserFault:
    """Return the fault of a line that says where packages are: a file that others write would choose their origin."""
    said = f"{variable}={shlex.quote(shown(address) or '1')} python build.py ..."
    remedy = f"leave it out, and tell pip, whose configuration counts: {said}"
    return UserFault("a file of requirements names an index, which is not asked", f"{where} {address}".strip(), remedy)


def _requirement(stated: str, where: str, *, bounds: bool) -> UserRequirement:
    """Read one requirement with its hashes."""
    text, *options = re.split(r"(?<!\s)\s+(?=--)", stated)
    if PLACE.match(text):
        fact, remedy = "only wheels of an index or of a wheelhouse go into an image", WHEEL
        if name := _name_elsewhere(text):
            fact = "a requirement is a file of another machine"
            remedy = f"{name}==VERSION in its place, as in what `pip list --format=freeze` writes there"
        raise UserFault(fact, f"{where}: {stated}", remedy)
    hashes = [match[1] for word in options if (match := HASH.fullmatch(word.strip()))]
    others = [word for word in options if not word.startswith("--hash")]
    if others:
        raise UserFault("an option in a file of requirements is not followed", f"{where}: {stated}", "leave it out")
    if options and not hashes:
        raise UserFault("a requirement has no hash that a lock can use", f"{where}: {stated}", "--hash=sha256:...")
    require_text(text, where)
    try:
        requirement = Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        remedy = "NAME==VERSION, as pip has it"
        raise UserFault("that is not a requirement", f"{where}: {stated}", remedy) from error
    return UserRequirement(requirement, tuple(hashes), bounds)


def _name_elsewhere(text: str) -> str | None:
    """Return the name before an address of a file that is not here: conda's packages are named by their builders'."""
    name, _, place = (part.strip() for part in text.partition("@"))
    try:
        path = local_path(place.partition(";")[0].strip()) if place.startswith("file:") else None
    except ValueError:  # brackets that are no address
        return None
    return name if path and not os.path.exists(path) else None  # noqa: PTH110 - exists() raises where it may not look


def _project(path: str, groups: Sequence[str]) -> Iterator[UserRequirement]:
    """Read the dependencies of a pyproject.toml (PyPA, "pyproject.toml specification") and of its optional groups."""
    try:
        table = parse_toml(_read_text(Path(path)))
        project, optional = table["project"], table["project"].get("optional-dependencies", {})
        dynamic = {"dependencies", "optional-dependencies"} & {*project.get("dynamic", ())}
        listed = {"": project.get("dependencies", []), **{str(canonicalize_name(k)): v for k, v in optional.items()}}
        _require_lists(listed.values())
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        fact = "that pyproject.toml states no dependencies as a project does"
        raise UserFault(fact, f"{path}: {error}", "[project] with dependencies, or a requirements file") from error
    if dynamic:
        remedy = "a requirements file, such as pip freeze or pip-compile writes"
        raise UserFault("the dependencies are known only to the program that builds it", f"{path}: dynamic", remedy)
    wanted = ["", *(str(canonicalize_name(group)) for group in groups)]
    if unknown := [group for group in wanted if group not in listed]:
        known = ", ".join(filter(None, listed)) or "none"
        value = f"{path}: {unknown[0]} (it has: {known})"
        raise UserFault("the project has no such optional group", value, f"one that it has, or --requirements {path}")
    requirements = list(_of_groups(wanted, listed, str(project.get("name", "")), path))
    _require_no_sources(table, requirements, path)
    yield from requirements


def _require_lists(values: Iterable[object]) -> None:
    for value in values:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise TypeError(f"{value!r} is not a list of texts")


def _of_groups(groups: Sequence[str], listed: Mapping[str, Any], name: str, path: str) -> Iterator[UserRequirement]:
    """Yield the requirements of groups; one on the project itself means its groups, and no package of an index."""
    ahead, seen = [*groups], set[str]()
    while ahead:
        group = ahead.pop(0)
        if group in seen:
            continue
        seen.add(group)
        for text in listed.get(group, ()):
            requirement = _requirement(text, f"{path}: {group or 'dependencies'}", bounds=False)
            if name and requirement.name == canonicalize_name(name):
                ahead += [str(canonicalize_name(extra)) for extra in sorted(requirement.requirement.extras)]
            else:
                yield requirement


def _require_no_sources(table: Mapping[str, Any], requirements: Iterable[UserRequirement], path: str) -> None:
    """Raise UserFault where uv would take a package from elsewhere: that of an index may be another one."""
    tool = table.get("tool")
    settings = tool.get("uv") if isinstance(tool, dict) else None
    sources = settings.get("sources") if isinstance(settings, dict) else None
    names = {str(canonicalize_name(name)) for name in sources} if isinstance(sources, dict) else set[str]()
    if taken := sorted(names & {requirement.name for requirement in requirements}):
        value = f"{path}: {', '.join(taken)} (tool.uv.sources)"
        raise UserFault("a project takes packages from places of its own, which are not asked", value, WHEEL)


def parse_wanted(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the requirements of lines, without hashes; those that only bound are none."""
    return tuple(str(requirement.requirement) for requirement in map(parse_line, lines) if not requirement.bounds)


def list_release_conflicts(
    lines: Sequence[str], releases: Mapping[str, str], python: str, platform: Platform
) -> list[str]:
    """Say which lines want other releases than are planned for an image with this Python (3.N)."""
    conflicts = []
    for requirement in map(parse_line, lines):
        planned = releases.get(requirement.name)
        here = planned and applies(requirement.requirement, python, platform)
        if here and not any(
            requirement.requirement.specifier.contains(f"{planned}{cpu}", True) for cpu in ("", "+cpu")
        ):
            conflicts.append(f"{requirement.requirement} of yours, and {requirement.name} {planned} of the image")
    return conflicts
