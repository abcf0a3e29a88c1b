"""Ask uv which packages go together."""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w
from packaging.pylock import Pylock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from images.context import Context
from images.foreign.documents import parse_toml
from images.host import process
from images.host.errors import UserFault
from images.lock import index_pages, wheelhouse
from images.lock.lock import BINDINGS, IPEX
from images.lock.uv_errors import explain
from images.pip_config import Sources, directories, local_path, trusted, without_login
from images.plan import requirements as users
from images.plan.catalog import TORCH_INDEX
from images.plan.packages import BUILT_WITH_TORCH, is_build, is_part
from images.plan.plan import Plan, SourceOnly
from images.plan.planner import FAMILY
from images.store.store import UV

# Those of uv's own variables that say how a server is reached, and not what is chosen (uv documentation, "Environment
# variables").
REACH = ("UV_SYSTEM_CERTS", "UV_NATIVE_TLS", "UV_HTTP_TIMEOUT", "UV_HTTP_CONNECT_TIMEOUT", "UV_HTTP_RETRIES")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
# Beginnings of variables that change the text of uv's errors, which is read: its width, and colours.
LOOKS = ("COLUMNS", "FORCE_COLOR", "CLICOLOR_FORCE")

# What uv logs of the pages that it asks for, where nothing else says so; and how a line of its log begins.
LOG = {"RUST_LOG": "uv_client::registry_client=trace"}
LOOKED_FOR = re.compile(r"(?m)^TRACE Fetching metadata for `([^`]+)` from ")
LOGGED = re.compile(r"(TRACE|DEBUG|INFO|WARN|ERROR) ")
REQUIRED = re.compile(r"(?m)^([\w.-]+)==\S+ +# via (.+)$")
MISSING_TORCH = re.compile(r"no version of torch==|torch was not found|\btorch==[^,]* no wheels")

NEWEST_GLIBC = Version("2.40")  # that uv knows; on a newer one wheels of an older one run as well


class UvAnswer(NamedTuple):
    """What uv said, the packages (None where nothing fits), and the names of all projects that it looked for."""

    said: str
    pylock: Pylock | None
    looked_for: tuple[str, ...]


class Chosen(NamedTuple):
    """The packages that go together, the sources that were asked in the end, and the indexes that have none of them."""

    pylock: Pylock
    sources: Sources
    empty: tuple[str, ...] = ()


def ask_sources(plan: Plan, sources: Sources, context: Context, requirements: Sequence[str]) -> Chosen:
    """Ask the configured sources, and Intel's index for a ccl stack; PyTorch's index only where they lack torch.

    Raises a Fault where nothing fits, and for an index that may not be asked, or has not answered as an index: uv goes
    on without it, and takes a package of the same name from another one.
    """
    sources.refuse_insecure()
    sources = with_bindings(plan, sources, requirements)
    answer = ask(plan, sources, context, requirements)
    directory = context.settings.wheelhouse
    while (wider := with_torch_index(sources, answer.said, answer.pylock, plan, directory)) != sources:
        if answer.pylock is None:  # maybe because an index that was asked has not answered
            _require_answers(answer, sources)
        sources, answer = wider, ask(plan, wider, context, requirements)
    if answer.pylock is None:
        fault = explain(answer.said, plan, sources, context, partial(_ask_versions, plan, sources, context))
        if isinstance(fault, UserFault):  # else uv has named who cannot be reached
            note_empty(_require_answers(answer, sources), context)
        raise fault
    return Chosen(answer.pylock, sources, tuple(_require_answers(answer, sources)))


def _require_answers(answer: UvAnswer, sources: Sources) -> list[str]:
    """Raise a Fault for a page that is no answer, though uv may have passed it over; return indexes without any page.

    Where there is one index alone, what was chosen came from it.
    """
    indexes = index_pages.list_indexes(sources)
    chosen = {str(package.name) for package in answer.pylock.packages} if answer.pylock else set[str]()
    names = dict.fromkeys((*answer.looked_for, *sorted(chosen)))
    is_proved = len(indexes) == 1 and bool(chosen)
    unproved = [name for name in names if not (is_proved and name in chosen)]
    having = index_pages.having([(index, name) for name in unproved for index in indexes], sources)
    for link in sources.links:
        if local_path(link) is None:
            index_pages.read_links(link, sources)
    return [] if is_proved else [without_login(index) for index in indexes if index not in having]


def note_empty(indexes: Iterable[str], context: Context) -> None:
    """Say of indexes that they have none of the packages that were asked for."""
    for index in indexes:
        why = "404 for each: is its path right, and does it know the login?"
        context.progress.say(f"note: an index has none of the packages: {index} ({why})")


def with_bindings(plan: Plan, sources: Sources, requirements: Sequence[str]) -> Sources:
    """Add the index of the bindings where they or IPEX are required, unless a directory here has the bindings."""
    if sources.no_index or not {BINDINGS, IPEX} & _required_names(requirements) or _find_directory(plan, sources):
        return sources
    extra = (plan.bindings_index,) if plan.bindings_index and plan.bindings_index not in sources.extra else ()
    links = (plan.find_links,) if plan.find_links and plan.find_links not in sources.links else ()
    return replace(sources, extra=(*sources.extra, *extra), links=(*sources.links, *links))


def _find_directory(plan: Plan, sources: Sources) -> Path | None:
    """Return the first directory of wheels that has the bindings."""
    if plan.bindings is None:
        return None
    places = directories(sources.links)
    return next((place for place in places if wheelhouse.has_wheel(place, BINDINGS, plan.bindings)), None)


def with_torch_index(sources: Sources, log: str, pylock: Pylock | None, plan: Plan, directory: str | None) -> Sources:
    """Add PyTorch's index where torch was missed, unless it was asked already, or the user wants no index at all."""
    if sources.no_index:
        return sources
    unfit = list_for_gpu(pylock, plan, directory) if pylock is not None else []
    if plan.user_packages and plan.requirements[0].endswith("+cpu"):  # a build that brings none of the others
        unfit = [text for text in unfit if text.partition(" ")[0] in BUILT_WITH_TORCH]
    missed = unfit if pylock is not None else MISSING_TORCH.search(log)
    if missed and TORCH_INDEX not in sources.extra:
        return replace(sources, extra=(*sources.extra, TORCH_INDEX))
    return sources


def ask(plan: Plan, sources: Sources, context: Context, requirements: Sequence[str]) -> UvAnswer:
    """Ask these sources and no other."""
    done = _run_uv(plan, sources, context, requirements, ("--format", "pylock.toml"))
    log = "\n".join(line for line in done.err.splitlines() if not LOGGED.match(line))
    looked_for = tuple(dict.fromkeys([*LOOKED_FOR.findall(done.err), *sorted(_required_names(requirements))]))
    if done.code:
        return UvAnswer(replace(done, err=log).account, None, looked_for)
    return UvAnswer(log, Pylock.from_dict(parse_toml(done.out)), looked_for)


def _ask_versions(
    plan: Plan, sources: Sources, context: Context, requirements: Sequence[str]
) -> tuple[str, Mapping[str, str] | None]:
    answer = ask(plan, sources, context, requirements)
    packages = answer.pylock.packages if answer.pylock else None
    return answer.said, None if packages is None else {str(one.name): str(one.version) for one in packages}


def ask_requirers(
    plan: Plan, sources: Sources, context: Context, requirements: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """Ask which packages require each package directly; none where nothing fits."""
    style = ("--format", "requirements.txt", "--annotate", "--annotation-style", "line")
    rows = REQUIRED.findall(_run_uv(plan, sources, context, requirements, style).out)
    return {name: [one.strip().partition(" ")[0] for one in via.split(",")] for name, via in rows}


def _run_uv(
    plan: Plan, sources: Sources, context: Context, requirements: Sequence[str], output: Sequence[str]
) -> process.Result:
    with context.store.temporary(directory=True) as directory:
        project_file = directory / "pyproject.toml"
        project_file.write_text(project(plan, sources, requirements))
        command = [_uv(), "pip", "compile", str(project_file), "--config-file", "/dev/stdin", *output]
        command += ["--cache-dir", str(context.store.root / UV)]
        command += ["--python", sys.executable]  # what uv finds by itself may not be for this user to start
        command += options(plan, requirements, sources)
        environ = variables(context.environ, sources)
        with process.nameless(format_config(plan, sources)) as settings:
            return process.run(command, environ, "pip install -e .", settings)


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def project(plan: Plan, sources: Sources, requirements: Sequence[str]) -> str:
    """Return the pyproject.toml that is resolved; as a workspace it is the root for uv, which looks no higher.

    The oneCCL bindings come from their own place and from no other: on the public index anybody can take their name.
    """
    table = {"name": "this-image", "version": "0", "dependencies": list(requirements)}
    uv: dict[str, Any] = {"workspace": {}}
    if BINDINGS in _required_names(requirements):
        uv |= {"index": [_of_bindings(plan, sources)], "sources": {BINDINGS: {"index": "bindings"}}}
    return tomli_w.dumps({"project": table, "tool": {"uv": uv}})


def _of_bindings(plan: Plan, sources: Sources) -> dict[str, Any]:
    """Return the index of the bindings as uv has it; its login is among the sources."""
    if directory := _find_directory(plan, sources):
        return {"name": "bindings", "explicit": True, "url": _absolute(str(directory)), "format": "flat"}
    place = None if sources.no_index else plan.bindings_index or plan.find_links
    if place is None:
        fact = "no directory of wheels has the oneCCL bindings, and no index may be asked for them"
        raise UserFault(fact, f"oneccl_bind_pt {plan.bindings}", "--wheelhouse DIR with their wheel")
    plain = _absolute(without_login(place))
    return {"name": "bindings", "explicit": True, "url": plain, "format": "simple" if plan.bindings_index else "flat"}


def format_config(plan: Plan, sources: Sources) -> str:
    """Return the uv.toml that uv reads instead of any other: the sources, whose addresses may have passwords.

    It is a file without a name: a command line is seen by everybody, and another file stays when a process is killed.
    """
    indexes = [{"url": _absolute(url)} for url in sources.extra]
    usual = [{"url": _absolute(sources.index), "default": True}] if sources.index else []
    table = {
        "index-strategy": "unsafe-best-match",  # over all indexes, as pip chooses
        "no-index": sources.no_index,
        "index": [*indexes, *usual],
        "find-links": [_absolute(link) for link in sources.links],
        "allow-insecure-host": list(sources.trusted),
        # == takes 1.2.2+anything, too
        "constraint-dependencies": [*(f"{row.name}==={row.version}" for row in plan.source_only), *_bounds(plan)],
        "dependency-metadata": [_state_metadata(row) for row in plan.source_only],
    }
    return tomli_w.dumps(table)


def _bounds(plan: Plan) -> list[str]:
    return [
        str(requirement.requirement) for requirement in map(users.parse_line, plan.user_packages) if requirement.bounds
    ]


def _absolute(place: str) -> str:
    """Return a place as an address: uv reads a path only as far as its first #."""
    return place if "://" in place or place.startswith("file:") else Path(place).absolute().as_uri()


def variables(environ: Mapping[str, str], sources: Sources) -> dict[str, str]:
    """Return the environment of uv: none of its own variables but REACH, no LOOKS, and what pip says of servers.

    A variable such as UV_CONSTRAINT or UV_INDEX would choose other packages for the same request.
    """
    environment = {
        name: value for name, value in environ.items() if name in REACH or not name.startswith(("UV_", *LOOKS))
    }
    if sources.proxy:
        environment = {name: value for name, value in environment.items() if name.lower() not in PROXIES}
        environment |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), sources.proxy)
    environment |= trusted(environ, sources.certificate)
    environment |= {"SSL_CLIENT_CERT": sources.client_certificate} if sources.client_certificate else {}
    return environment | LOG


def options(plan: Plan, requirements: Sequence[str], sources: Sources) -> list[str]:
    """Return uv's options: wheels only, for the Python and the glibc of the image, as of the days of the plan.

    PyTorch's index says no days: there the release of torch decides on what is built with it.
    """
    glibc = str(min(Version(plan.glibc), NEWEST_GLIBC)).replace(".", "_")
    options = ["--no-header", "--no-progress", "--only-binary", ":all:"]
    options += ["--python-version", plan.python, "--python-platform", f"{plan.platform.machine}-manylinux_{glibc}"]
    options += ["--exclude-newer", _end_of(plan.as_of)]
    undated = (*_pinned(requirements), *(BUILT_WITH_TORCH if TORCH_INDEX in sources.extra else ()))
    days = dict.fromkeys(FAMILY, _end_of(plan.family_as_of)) | dict.fromkeys(undated, "false")
    for name, day in sorted(days.items()):
        options += ["--exclude-newer-package", f"{name}={day}"]
    for row in plan.source_only:
        options += ["--no-binary", row.name]
    return options


def _required_names(requirements: Sequence[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def _pinned(requirements: Sequence[str]) -> list[str]:
    """List what is asked for by version: no day decides about it, and its index may not know the days."""
    parsed = [Requirement(text) for text in requirements]
    return [canonicalize_name(requirement.name) for requirement in parsed if users.is_exact(requirement)]


def _end_of(day: datetime.date) -> str:
    one = datetime.timedelta(days=1)
    return f"{min(day, datetime.date.max - one) + one}T00:00:00Z"


def _state_metadata(row: SourceOnly) -> dict[str, object]:
    """Return what an archive would state if it were run; without a version it counts for any, and uv builds none."""
    return {"name": row.name, "requires-dist": list(row.requires)}


def list_for_gpu(pylock: Pylock, plan: Plan | None = None, directory: str | None = None) -> list[str]:
    """Return the packages for a GPU, as name and version; of builds that do not say so only a plan tells.

    They are told by what stands beside them: torch, and what is built with it, are all of one kind. What comes out of
    the user's `directory` of wheels counts as built for the CPU.
    """
    torch = next((str(package.version) for package in pylock.packages if package.name == "torch"), "")
    is_told = plan is not None and (plan.cpu_suffix or "+cpu" in torch)
    unfit = []
    for package in pylock.packages:
        name, version = str(package.name), str(package.version)
        of_users = any(wheelhouse.is_file_of(directory, wheel.url) for wheel in package.wheels or ())
        if is_part(name) or is_build(version):
            unfit.append(f"{name} {version}")
        elif is_told and name in BUILT_WITH_TORCH and "+" not in version and not of_users:
            unfit.append(f"{name} {version} (without +cpu it contains CUDA)")
    return unfit
