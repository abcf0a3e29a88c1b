"""Ask uv which packages go together, and say in the user's words why there are none."""

from __future__ import annotations

import datetime
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.pylock import Pylock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from images.host import process
from images.host.context import Context
from images.host.errors import REMEDIES, Fault, UserFault, WorldFault, disk_fault
from images.host.pip_config import Sources
from images.lock import wheelhouse
from images.lock.files import TORCH_INDEX
from images.lock.lock import SourceOnly
from images.plan.planner import FAMILY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, kw_only=True)
class Question:
    """What uv is asked: requirements, the Python and glibc of the image, and the days as of which it answers.

    `index` and `find_links` are where Intel keeps the oneCCL bindings, `bindings` their version; `wheelhouse` is the
    user's own directory of wheels.
    """

    requirements: tuple[str, ...]
    torch: str
    transformers: str
    bindings: str | None
    python: str
    glibc: str
    as_of: datetime.date
    family_as_of: datetime.date
    source_only: tuple[SourceOnly, ...]
    index: str | None
    find_links: str | None
    wheelhouse: str | None


def search(
    question: Question, sources: Sources, context: Context, requirements: Sequence[str], *more: str
) -> tuple[str, Pylock | None]:
    """Ask the configured sources; ask PyTorch's and Intel's own places for what they do not have.

    Return what uv printed, and the packages; None where nothing fits.
    """
    said, found = _compile(question, sources, context, requirements, *more)
    while (asked := wider(sources, said, found, question)) != sources:
        sources = asked
        said, found = _compile(question, sources, context, requirements, *more)
    return said, found


def wider(sources: Sources, said: str, found: Pylock | None, question: Question) -> Sources:
    """Add the place of what was missed, unless it was asked already, or the user wants no index at all."""
    if sources.no_index:
        return sources
    extra, links = sources.extra, sources.links
    if (for_gpu(found) if found is not None else _misses(said, "torch")) and TORCH_INDEX not in extra:
        extra = (*extra, TORCH_INDEX)
    if found is None and _misses(said, "oneccl-bind-pt"):
        extra = (*extra, *(place for place in (question.index,) if place and place not in extra))
        links = (*links, *(place for place in (question.find_links,) if place and place not in links))
    return replace(sources, extra=extra, links=links)


def _misses(said: str, name: str) -> bool:
    return f"no version of {name}==" in said or f"{name} was not found" in said or _without_wheels(said, name)


def _without_wheels(said: str, name: str) -> bool:
    return re.search(rf"\b{name}==[^,]* no wheels", said) is not None


def _compile(
    question: Question, sources: Sources, context: Context, requirements: Sequence[str], *more: str
) -> tuple[str, Pylock | None]:
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "uv.toml"
        config.write_text("".join(map(metadata, question.source_only)))
        command = [
            _uv(),
            "pip",
            "compile",
            "-",
            "--config-file",
            str(config),
            "--cache-dir",
            str(context.store.root / "uv"),
        ]
        command += ["--python", sys.executable]  # what uv finds by itself may not be for this user to start
        command += [*options(question, requirements), *more, *sources.uv_options()]
        env = {**context.environ, **({"SSL_CERT_FILE": sources.certificate} if sources.certificate else {})}
        done = process.run(command, env, "pip install -e .", feed="\n".join(requirements), tick=context.tick)
    if done.code:
        return done.err, None
    parsed = tomllib.loads(done.out)
    return done.err, Pylock.from_dict(parsed)


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def options(question: Question, requirements: Sequence[str]) -> list[str]:
    glibc = question.glibc.replace(".", "_")
    options = ["--format", "pylock.toml", "--no-header", "--no-progress", "--only-binary", ":all:"]
    options += ["--python-version", question.python, "--python-platform", f"x86_64-manylinux_{glibc}"]
    options += ["--exclude-newer", _end_of(question.as_of)]
    days = dict.fromkeys(FAMILY, _end_of(question.family_as_of)) | dict.fromkeys(_pinned(requirements), "false")
    for name, day in sorted(days.items()):
        options += ["--exclude-newer-package", f"{name}={day}"]
    for row in question.source_only:
        options += ["--no-binary", row.name]
    return options


def _pinned(requirements: Sequence[str]) -> list[str]:
    """List what is asked for by version: no day decides about it, and its index may not know the days."""
    asked = [Requirement(text) for text in requirements]
    return [canonicalize_name(each.name) for each in asked if str(each.specifier).startswith("==")]


def _end_of(day: datetime.date) -> str:
    one = datetime.timedelta(days=1)
    return f"{min(day, datetime.date.max - one) + one}T00:00:00Z"


def metadata(row: SourceOnly) -> str:
    """Return what a source archive would state if it were run; TOML strings and lists are Python's here."""
    lines = [f'name = "{row.name}"', f'version = "{row.version}"', f"requires-dist = {list(row.requires)}"]
    return "\n".join(["[[dependency-metadata]]", *lines, ""])


def for_gpu(pylock: Pylock) -> list[str]:
    """Return the packages, as name and version, that are made for a GPU."""
    names = [f"{package.name} {package.version}" for package in pylock.packages]
    return [name for name in names if re.match(r"nvidia-|triton |cuda-|torch \S+\+(cu|rocm|xpu)", name)]


# uv's own index, where none is configured: uv documentation, "Package indexes".
USUAL = "PyPI"
NO_DAY = "is missing an upload date"


def fault(said: str, question: Question, sources: Sources, root: Path) -> Fault:
    """Return what failed: the disk, an address, a file, a place without days, or a requirement that nothing meets.

    Raises UserFault when the wheelhouse has what was looked for, and it cannot be used.
    """
    refused = re.search(r"\(os error (\d+)\)", said)
    if refused and int(refused[1]) in REMEDIES:
        return disk_fault(root, OSError(int(refused[1]), said))
    if question.wheelhouse:
        asked = [*_pins("\n".join(question.requirements)), *_pins(said)]
        wheelhouse.refuse(Path(question.wheelhouse), asked, question.python, question.glibc)
    if failed := re.search(r"Failed to fetch: `?(\S+?)`?$", said, re.MULTILINE):
        return _unreachable(failed[1], question)
    if damaged := re.search(r"Failed to extract archive: (\S+\.whl)", said):
        return _damaged(damaged[1], question.wheelhouse)
    if undated := _undated(said):
        return _without_days(undated, sources)
    lines = [line.strip() for line in said.splitlines() if NO_DAY not in line]
    remedy = f"another release than --transformers {question.transformers}, or --wheelhouse with what is missing"
    return UserFault("no set of packages fits", " ".join(lines)[:800], remedy)


def _pins(text: str) -> list[tuple[str, str]]:
    """Find each name==version in a text."""
    return re.findall(r"([\w.-]+)==([\w.!+-]*\w)", text)


def _last_resorts(question: Question) -> Iterable[tuple[str, str, str, str]]:
    """List the places that are asked only for what no other has: the place, what that is, whose it is, its release."""
    yield TORCH_INDEX, "build of torch for the CPU", "PyTorch's", f"torch {question.torch}"
    for place in filter(None, (question.index, question.find_links)):
        yield place, "oneCCL bindings", "Intel's", f"oneccl_bind_pt {question.bindings}"


def _unreachable(failed: str, question: Question) -> WorldFault:
    for place, what, whose, name in _last_resorts(question):
        if failed.startswith(place):
            fact = f"pip's sources have no {what}, and {whose} own index cannot be reached"
            remedy = "--wheelhouse DIR with that wheel in it, or a mirror as pip's extra-index-url"
            return WorldFault(fact, f"{name}, {place}", remedy)
    remedy = "check the network and proxy settings (HTTPS_PROXY) or pip's index-url; or --wheelhouse DIR"
    return WorldFault("cannot reach a package index", failed, remedy)


def _damaged(name: str, wheelhouse: str | None) -> Fault:
    if wheelhouse and Path(wheelhouse, name).is_file():
        remedy = f"download it again, or take it out of {wheelhouse}"
        return UserFault("a wheel of the wheelhouse is damaged", name, remedy)
    return WorldFault("a wheel is damaged where it comes from", name, "--wheelhouse DIR with a good one")


def _undated(said: str) -> list[str]:
    """Name the packages that were left out because their files have no day of upload."""
    files = re.findall(rf"`(\S+)` {NO_DAY}", said)
    undated = {canonicalize_name(file.partition("-")[0]) for file in files}
    left_out = re.findall(r"`(\S+)` was filtered by `exclude-newer`", said)
    return sorted({name for name in left_out if canonicalize_name(name) in undated})


def _without_days(names: list[str], sources: Sources) -> UserFault:
    fact = "nothing can be resolved as of a day from an index that does not say when its files were uploaded"
    places = ", ".join((sources.index or USUAL, *sources.extra))
    remedy = (
        "--lock FILE, made by build.py lock where an index says it (PyPI does), with which this index will do; "
        "or --wheelhouse DIR with all wheels: directories are not asked"
    )
    return UserFault(fact, f"{', '.join(names)} (asked: {places})", remedy)
