"""Plan -> the packages of a lock: Python's, every file by sha256 and as of a day, and Debian's, chosen meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import unquote, urlsplit

import tomli_w
from packaging.markers import Environment
from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock, PylockSelectError
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

from images.base import debian
from images.debian import packages as debs
from images.debian.packages import Choice
from images.host.context import Background, Context, Started
from images.host.errors import UserFault
from images.host.pip_config import Sources, check_addresses
from images.host.store import Store
from images.lock import missing, uv
from images.lock.uv import TORCH_INDEX, Question
from images.model import BINDINGS, Artifact, Base, Debian, Lock, SourceOnly
from images.plan.planner import Plan
from images.wheels import wheelhouse

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Making = Started[Base] | None  # a base that is being made


class Resolved(NamedTuple):
    """Every file that was chosen, and the packages that came from a place that does not say when."""

    artifacts: tuple[Artifact, ...]
    undated: tuple[str, ...]


def choose_debs(planned: Plan, context: Context, background: Background | None) -> tuple[Callable[[], Choice], Making]:
    """Choose Debian's packages; with `background`, begin this and the making of their base in the background.

    Return what waits for the choice, and the base that is being made; None without `background`.
    """
    row, store, environ = planned.debian, context.store, context.environ
    text = "choosing Debian's packages"
    if background is None:
        with context.progress.step(text):
            chosen = debs.resolve(row.suite, row.packages, context)
        return lambda: chosen, None
    choosing = background.start(lambda: debs.resolve(row.suite, row.packages, context))
    making = background.start(lambda: debian.make(store, recipe(planned, choosing()), planned.python, environ))

    def choose() -> Choice:
        with context.progress.step(text):
            return choosing()

    return choose, making


def recipe(planned: Plan, chosen: Choice) -> Debian:
    """Return Debian's part of a lock."""
    return Debian(planned.debian.suite, planned.debian.packages, chosen.sources, chosen.debs)


def packages(planned: Plan, context: Context) -> Resolved:
    """Resolve a plan, or take the resolution of the same question from the store.

    As of a day that is not over, there may be more packages later: such a resolution is not kept.

    Raises WorldFault when an index cannot be reached, UserFault when nothing fits or the result would be for a GPU.
    """
    sources = _with_wheelhouse(planned.wheelhouse, context)
    question = _with_wheels(_with_bindings_index(of_plan(planned), context), sources)
    inputs = [asdict(question), asdict(sources), _listing(sources.links, context.store), version("uv")]

    def ask() -> str:
        return tomli_w.dumps(_resolve(question, sources, context).to_dict())

    is_over = max(question.as_of, question.family_as_of) < context.today
    found = context.store.cached("locks", inputs, ask).value if is_over else ask()
    taken = context.store.cached("files of locks", [inputs, found], lambda: _chosen(found, question)).value
    return Resolved(tuple(Artifact(**fields) for fields in taken["artifacts"]), tuple(taken["undated"]))


def _chosen(found: str, question: Question) -> dict[str, object]:
    """Return the chosen files of a resolution, given as TOML, as the store keeps them."""
    pylock = Pylock.from_dict(tomllib.loads(found))
    if question.wheelhouse:
        pins = [(package.name, str(package.version)) for package in pylock.packages]
        wheelhouse.refuse(Path(question.wheelhouse), pins, question.python, question.glibc)
    taken = choose(pylock, question)
    return {"artifacts": [asdict(artifact) for artifact in taken.artifacts], "undated": taken.undated}


def choose(pylock: Pylock, question: Question) -> Resolved:
    """Choose the file of each package that fits the image best, as an installer would (PEP 751, "Installation").

    One of the user's own wheelhouse wins over others of the same release, if it fits at all.
    Raises UserFault when none fits.
    """
    tags = wheelhouse.tags(question.python, question.glibc)
    preferred = [_preferred(package, question.wheelhouse, frozenset(tags)) for package in pylock.packages]
    artifacts, undated = [], []
    try:
        environment = cast("Environment", {"python_full_version": f"{question.python}.0"})
        for package, file in replace(pylock, packages=preferred).select(environment=environment, tags=tags):
            assert isinstance(file, PackageWheel | PackageSdist), "uv was asked for files of an index"
            artifacts.append(_artifact(package, file))
            undated += [] if file.upload_time else [str(package.name)]
    except PylockSelectError as error:
        remedy = "--wheelhouse DIR with a wheel for that Python, or another --python"
        raise UserFault("a package has no wheel for the image", str(error), remedy) from error
    return Resolved(tuple(artifacts), tuple(undated))


def _preferred(package: Package, directory: str | None, tags: frozenset[Tag]) -> Package:
    """Leave of a package the wheels of the user's own directory, where one of them fits."""
    if directory is None:
        return package
    own = [wheel for wheel in package.wheels or () if wheelhouse.holds(directory, wheel.url)]
    fitting = [wheel for wheel in own if tags & parse_wheel_filename(filename(wheel))[3]]
    return replace(package, wheels=fitting, sdist=None) if fitting else package


def _artifact(package: Package, file: PackageWheel | PackageSdist) -> Artifact:
    return Artifact(
        name=str(package.name), version=str(package.version), filename=filename(file), url=address(file),
        sha256=_sha256(file),
    )  # fmt: skip


def _sha256(file: PackageWheel | PackageSdist) -> str:
    if digest := file.hashes.get("sha256"):
        return digest
    value = f"{address(file)} (it has {', '.join(file.hashes)})"
    remedy = "an index that announces it (PyPI does), or --wheelhouse DIR with that file"
    raise UserFault("an index announces a file without its sha256, which a lock needs", value, remedy)


def address(file: PackageWheel | PackageSdist) -> str:
    """Return where uv found a file: an address, or a path."""
    return str(file.url or file.path)


def filename(file: PackageWheel | PackageSdist) -> str:
    """Return the name of a file that uv found."""
    return Path(unquote(urlsplit(address(file)).path)).name


def asked(lock: Lock, context: Context) -> tuple[Question, Sources]:
    """Return what is asked for files of a lock, and where."""
    question = _with_bindings_index(of_lock(lock, context.wheelhouse), context)
    return question, _with_wheelhouse(context.wheelhouse, context)


def of_plan(plan: Plan) -> Question:
    """Return what is asked for a plan."""
    bindings = str(plan.torch.bindings) if plan.index or plan.find_links else None
    return Question(
        requirements=plan.requirements, torch=str(plan.torch.version), transformers=str(plan.transformers.version),
        bindings=bindings, python=plan.base.python, glibc=plan.base.glibc, as_of=plan.as_of,
        family_as_of=plan.family_as_of, source_only=source_only(plan), index=plan.index, find_links=plan.find_links,
        wheelhouse=plan.wheelhouse, cpu_suffix=plan.torch.cpu_suffix,
    )  # fmt: skip


def of_lock(lock: Lock, directory: str | None) -> Question:
    """Return what is asked for the packages of a lock; `directory` is a wheelhouse."""
    bindings = [artifact.version for artifact in lock.artifacts if artifact.name == BINDINGS]
    archives = {artifact.name for artifact in lock.artifacts if not artifact.filename.endswith(".whl")}
    return Question(
        requirements=(), torch=lock.torch, transformers=lock.transformers, bindings=bindings[0] if bindings else None,
        python=lock.python, glibc=lock.glibc, as_of=lock.as_of, family_as_of=lock.family_as_of,
        source_only=tuple(row for row in lock.source_only if row.name in archives), index=lock.index,
        find_links=lock.find_links, wheelhouse=directory,
    )  # fmt: skip


def _with_bindings_index(question: Question, context: Context) -> Question:
    """Put the index that the user names for the oneCCL bindings in the place of Intel's."""
    places = filter(None, (question.index, question.find_links, context.bindings_index))
    check_addresses("--bindings-index", places)
    missing.require_indexes("--bindings-index", filter(None, [context.bindings_index]))
    if context.bindings_index is None or not (question.index or question.find_links):
        return question
    return replace(question, index=context.bindings_index, find_links=None)


def _with_wheels(question: Question, sources: Sources) -> Question:
    """Ask for no source archive where a directory of the user's has a wheel that the image can install.

    An index's wheel changes nothing: the same request gives the same image.
    """
    fit, places = frozenset(wheelhouse.tags(question.python, question.glibc)), wheelhouse.directories(sources.links)

    def has_wheel(row: SourceOnly) -> bool:
        return any(wheelhouse.has(place, row.name, row.version, fit) for place in places)

    return replace(question, source_only=tuple(row for row in question.source_only if not has_wheel(row)))


def source_only(plan: Plan) -> tuple[SourceOnly, ...]:
    """Return the projects of a plan that have no wheels."""
    return tuple(SourceOnly(row.name, str(row.version), tuple(row.requires)) for row in plan.source_only)


def _with_wheelhouse(directory: str | None, context: Context) -> Sources:
    """Return pip's sources, the wheelhouse first; what is not there on this machine is left out, as pip does."""
    assert context.pip is not None, "nothing can be resolved without sources"
    links = context.pip.links
    missing.require_indexes("index-url", filter(None, [context.pip.index]))
    missing.require_indexes("extra-index-url", context.pip.extra)
    for link in filter(wheelhouse.is_absent, links):
        context.progress.say(f"note: a place of pip's find-links is not there, and is left out: {link}")
    own = () if directory is None else (str(wheelhouse.require(directory)),)
    return replace(context.pip, links=(*own, *(link for link in links if not wheelhouse.is_absent(link))))


def _listing(links: Iterable[str], store: Store) -> list[object]:
    """Return what is in directories of wheels: it has no days, so a change of it makes another question for uv."""
    return [wheelhouse.contents(place, store) for place in wheelhouse.directories(links)]


def _resolve(question: Question, sources: Sources, context: Context) -> Pylock:
    """Resolve, and refuse what is for a GPU."""
    root = context.store.root
    said, found = uv.search(question, sources, context, question.requirements)
    if found is None:
        raise missing.explain(said, question, sources, root)
    if unfit := uv.for_gpu(found, question):
        remedy = "a source with torch's build for the CPU: --wheelhouse DIR, or " + TORCH_INDEX
        raise UserFault("the resolution has packages for a GPU", ", ".join(unfit), remedy)
    return found
