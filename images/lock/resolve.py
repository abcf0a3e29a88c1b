"""Plan -> the packages of a lock: Python's, every file by sha256 and as of a day, and Debian's, chosen meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, cast

from packaging.markers import Environment
from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock, PylockSelectError
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

from images.base import debian
from images.base.base import Base
from images.context import Context
from images.debian import packages as debs
from images.debian.deb import Deb, Debian
from images.host.background import Start
from images.host.errors import Damaged, UserFault, WorldFault
from images.lock import index_pages, uv, uv_errors, wheelhouse
from images.lock.index_pages import day_of, find_newest
from images.lock.lock import Artifact, UserPackages
from images.pip_config import Sources, directories, is_absent
from images.plan import packages
from images.plan import requirements as users
from images.plan.catalog import TORCH_INDEX
from images.plan.plan import Plan, SourceOnly
from images.platforms import TWIN


def list_held_back(plan: Plan, chosen: uv.Chosen, context: Context, requirements: Sequence[str]) -> list[str]:
    """Say of each package of the user's that leaves a choice, where it is not the newest as of the day, why not.

    uv is asked for the newest one, and says what does not go with it. Raises a Fault for an index that does not answer.
    """
    versions, notes = {str(package.name): package.version for package in chosen.pylock.packages}, []
    for name, newest in sorted(find_newest(plan, chosen.sources).items()):
        if (taken := versions.get(name)) and taken < newest:
            answer = uv.ask(plan, chosen.sources, context, (*requirements, f"{name}=={newest}"))
            why = (
                "others of your packages would be older beside it" if answer.pylock else uv_errors.shorten(answer.said)
            )
            build = "" if answer.pylock else uv_errors.how_to_build(answer.said, context)
            day = day_of(name, plan)
            notes.append(
                f"{name} {taken}, not {newest}, the newest of {day}: {why}{f'; build one: {build}' if build else ''}"
            )
    return notes


Making = Future[Base] | None  # a base that is being made
# What of a plan decides which packages are found.
DECISIVE = ("requirements", "python", "glibc", "as_of", "family_as_of", "bindings_index", "find_links", "bindings",
            "cpu_suffix", "user_packages")  # fmt: skip


class Resolved(NamedTuple):
    """Every file that was chosen, the packages out of places that do not say when, and notes for the user.

    `indexes` are the indexes and pages of links that were asked, `empty` those that have none of the packages, and
    `silent` those of them that do not answer for themselves either; all without logins.
    """

    artifacts: tuple[Artifact, ...]
    undated: tuple[str, ...]
    notes: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()


def choose_debs(planned: Plan, context: Context, background: Start | None) -> tuple[Callable[[], Debian], Making]:
    """Choose Debian's packages; with `background`, do this and build their base in the background.

    Return a function that waits for the choice, and the build of the base, which is None without `background`.
    """
    text = "choosing Debian's packages"

    def choose() -> Debian:
        return debs.resolve_base(planned.suite, planned.packages, planned.platform, context)

    if background is None:
        with context.progress.step(text):
            chosen = choose()
        return lambda: chosen, None
    choosing = background(choose)

    def make() -> Base:
        if gone := debs.list_missing_debs(
            context.store, choosing.result().debs
        ):  # of an earlier choice, where no mirror answers
            raise Damaged(gone[0].filename)
        return debian.make_base(
            context.store, choosing.result(), planned.platform, planned.python, context.environ, planned
        )

    making = background(make)

    def wait() -> Debian:
        with context.progress.step(text):
            return choosing.result()

    return wait, making


def choose_twin(planned: Plan, recipe: Debian, context: Context) -> tuple[Deb, ...] | None:
    """Choose the packages of the same Python for TWIN, which compiles where that of the image cannot be started.

    None where the image is for TWIN itself, or has no bytecode. Raises WorldFault where Debian has another one there.
    """
    if planned.platform == TWIN or not planned.bytecode:
        return None
    names = debs.python_packages(planned.python)
    with context.progress.step("choosing Debian's packages"):
        twin = debs.resolve_single(planned.suite, names, TWIN, context)
    there, here = ({deb.package: _source_version(deb) for deb in part} for part in (twin, recipe.debs))
    python = names[0]
    if there[python] != here.get(python):
        value = f"{python} {there[python]} for {TWIN}, {here.get(python)} for {planned.platform}"
        remedy = "run it again when Debian has built it for both, or --no-bytecode"
        raise WorldFault("Debian has another release of Python for the machine that compiles", value, remedy)
    return twin


def _source_version(deb: Deb) -> str:
    """Return the version of a package without the number of a new build of the same source (Debian Policy 5.6.12)."""
    return re.sub(r"\+b[0-9]+$", "", deb.version)


def resolve_packages(planned: Plan, context: Context) -> Resolved:
    """Resolve a plan, or take the resolution of the same question from the store: files, and which have no day.

    As of a day that is not over, there may be more packages later: such a resolution is not kept.
    Raises WorldFault when an index cannot be reached, UserFault when nothing fits or the result would be for a GPU.
    """
    sources = with_wheelhouse(context)
    plan = _with_wheels(planned, sources)
    listing = [wheelhouse.hash_files(place, context.store) for place in directories(sources.links)]
    decisive = {name: getattr(plan, name) for name in DECISIVE}
    rows = [asdict(row) for row in plan.source_only]
    # A directory of wheels has no days, so a change of it makes another question.
    inputs = [str(plan.platform), decisive, rows, context.settings.wheelhouse, asdict(sources), listing, version("uv")]

    def ask() -> dict[str, Any]:
        requirements = (*plan.requirements, *users.parse_wanted(plan.user_packages))
        answer = uv.ask_sources(plan, sources, context, requirements)
        if unfit := uv.list_for_gpu(answer.pylock, plan, context.settings.wheelhouse):
            raise _for_gpu(unfit, plan, uv.ask_requirers(plan, answer.sources, context, requirements))
        files = choose_files(answer.pylock, plan, context.settings.wheelhouse)
        notes = list_held_back(plan, answer, context, requirements)
        asked = index_pages.list_addresses(answer.sources)
        return {
            **files._asdict(), "artifacts": [asdict(artifact) for artifact in files.artifacts], "notes": notes,
            "empty": answer.empty, "indexes": asked,
            "silent": [index for index in answer.empty if not index_pages.has_root(index, answer.sources)],
        }  # fmt: skip

    is_over = max(plan.as_of, plan.family_as_of) < context.today
    kept = context.store.cached("locks", inputs, ask).value if is_over else ask()
    artifacts = tuple(Artifact(**fields) for fields in kept.pop("artifacts"))
    return Resolved(artifacts, **{name: tuple(value) for name, value in kept.items()})


def _for_gpu(unfit: Sequence[str], plan: Plan, requirers: Mapping[str, Sequence[str]]) -> UserFault:
    """Return the fault of packages for a GPU, with those of the user's own that bring them."""
    names = [text.partition(" ")[0] for text in unfit]
    typed = {users.parse_line(line).name for line in plan.user_packages}
    bring = sorted({one for name in names for one in _list_above(name, requirers) if one in typed})
    remedy = f"a source with builds for the CPU: --wheelhouse DIR, or {TORCH_INDEX}"
    if bring and not {*names} <= {*packages.BUILT_WITH_TORCH}:
        remedy = f"leave out what needs a GPU, or take another release of it: {', '.join(bring)}"
    return UserFault(f"the resolution for {plan.platform} has packages for a GPU", ", ".join(unfit), remedy)


def _list_above(name: str, requirers: Mapping[str, Sequence[str]]) -> set[str]:
    """Return a package, and all that require it, directly or not."""
    above, ahead = set[str](), [name]
    while ahead:
        if (one := ahead.pop()) not in above:
            above.add(one)
            ahead += requirers.get(one, ())
    return above


def resolve_with_users(planned: Plan, context: Context) -> tuple[Resolved, UserPackages | None]:
    """Resolve a plan as `resolve_packages` does, and return which packages only the user's packages need.

    The image alone is resolved first, so that a later failure is a conflict of the two. Raises UserFault also for a
    file whose sha256 is not one that the user states, and for a package without one where any is stated.
    """
    alone = resolve_packages(replace(planned, user_packages=()), context)
    if not planned.user_packages:
        _judge_empty(alone, context)
        return alone, None
    resolved = resolve_packages(_with_torch_of(alone, planned), context)
    _judge_empty(resolved, context)
    usual = {artifact.name for artifact in alone.artifacts}
    names = sorted(artifact.name for artifact in resolved.artifacts if artifact.name not in usual)
    _require_hashes(planned, resolved, names)
    return resolved, UserPackages(planned.user_packages, tuple(names))


def _judge_empty(resolved: Resolved, context: Context) -> None:
    """Say of indexes that they have none of the packages; raise UserFault for one that may only not know the login.

    Its packages were taken from another index, where anybody can have their names.
    """
    if resolved.silent:
        fact = "an index answers for none of the packages, and not for itself"
        raise UserFault(fact, f"{', '.join(resolved.silent)} (404, or another refusal)", index_pages.ANSWER)
    uv.note_empty(resolved.empty, context)


def _with_torch_of(alone: Resolved, planned: Plan) -> Plan:
    """Require the build of torch that the image alone has: then only the user's packages can bring one for a GPU."""
    build = next(artifact.version for artifact in alone.artifacts if artifact.name == "torch")
    others = (text for text in planned.requirements if not text.startswith("torch=="))
    return replace(planned, requirements=(f"torch=={build}", *others))


def _list_stated(plan: Plan) -> dict[str, set[str]]:
    """Return the sha256 that the user's lines state for packages; of several lines for one what all of them state."""
    stated: dict[str, set[str]] = {}
    for line in map(users.parse_line, plan.user_packages):
        if line.hashes and packages.applies(line.requirement, plan.python, plan.platform):
            stated[line.name] = stated.get(line.name, {*line.hashes}) & {*line.hashes}
    return stated


def _require_hashes(planned: Plan, resolved: Resolved, only: Sequence[str]) -> None:
    """Raise UserFault for a file that is none of those stated; and where any are, for a package without one.

    Of what the image has anyway none is wanted: `only` are the packages that nobody but the user needs.
    """
    stated, files = _list_stated(planned), {artifact.name: artifact for artifact in resolved.artifacts}
    odd = [files[name] for name in stated if name in files and files[name].sha256 not in stated[name]]
    if odd:
        value = ", ".join(f"{file.filename} sha256 {file.sha256}" for file in odd)
        remedy = "hashes of these files, if they are right: pip-compile --generate-hashes; or an index with yours"
        if of_image := [file.name for file in odd if file.name not in only]:
            remedy = f"leave the lines of {', '.join(of_image)} out, which the image brings; or {remedy}"
        raise UserFault("a file is none of those that the requirements state", value, remedy)
    if stated and (without := [name for name in only if name not in stated]):
        fact = "a package has no hash, though one requirement has: so each needs one, as for pip"
        value = ", ".join(f"{files[name].name}=={files[name].version}" for name in without)
        raise UserFault(fact, value, "pip-compile --generate-hashes, which states those of all; or no hashes")


def choose_files(pylock: Pylock, plan: Plan, directory: str | None = None) -> Resolved:
    """Choose the file of each package that fits the image best, as an installer would (PEP 751, "Installation").

    A wheel of the user's wheelhouse wins over others of the same release. Where the user states sha256, files of
    others are no candidates.
    Raises UserFault when none fits, or when those of the wheelhouse cannot be used.
    """
    if directory:
        pins = [(package.name, str(package.version)) for package in pylock.packages]
        wheelhouse.refuse_unfit(Path(directory), pins, plan.python, plan.glibc, plan.platform)
    tags = wheelhouse.tags(plan.python, plan.glibc, plan.platform)
    stated = _list_stated(plan)
    listed = [_only_stated(package, stated.get(str(package.name))) for package in pylock.packages]
    preferred = [_preferred(package, directory, frozenset(tags)) for package in listed]
    artifacts, undated = [], []
    try:
        environment = cast("Environment", {"python_full_version": f"{plan.python}.0"})
        for package, file in replace(pylock, packages=preferred).select(environment=environment, tags=tags):
            assert isinstance(file, PackageWheel | PackageSdist), "uv was asked for files of an index"
            artifacts.append(_choose_artifact(package, file))
            undated += [] if file.upload_time else [str(package.name)]
    except PylockSelectError as error:
        remedy = "--wheelhouse DIR with a wheel for that Python, or another --python"
        raise UserFault("a package has no wheel for the image", str(error), remedy) from error
    return Resolved(tuple(artifacts), tuple(undated))


def _only_stated(package: Package, stated: set[str] | None) -> Package:
    """Keep only the files that the user states, if the release has any of them: else it is refused by name."""
    wheels = [wheel for wheel in package.wheels or () if wheel.hashes.get("sha256") in (stated or ())]
    sdist = package.sdist if package.sdist and package.sdist.hashes.get("sha256") in (stated or ()) else None
    return replace(package, wheels=wheels, sdist=sdist) if wheels or sdist else package


def _preferred(package: Package, directory: str | None, tags: frozenset[Tag]) -> Package:
    """Keep only the wheels of the user's directory, if there is one, and one of them fits."""
    of_users = [wheel for wheel in package.wheels or () if wheelhouse.is_file_of(directory, wheel.url)]
    fitting = [wheel for wheel in of_users if tags & parse_wheel_filename(wheel.filename)[3]]
    return replace(package, wheels=fitting, sdist=None) if fitting else package


def _choose_artifact(package: Package, file: PackageWheel | PackageSdist) -> Artifact:
    return Artifact(
        name=str(package.name), version=str(package.version), filename=file.filename, url=address(file),
        sha256=_require_sha256(file),
    )  # fmt: skip


def _require_sha256(file: PackageWheel | PackageSdist) -> str:
    if digest := file.hashes.get("sha256"):
        return digest
    value = f"{address(file)} (it has {', '.join(file.hashes)})"
    remedy = "an index that announces it (PyPI does), or --wheelhouse DIR with that file"
    raise UserFault("an index announces a file without its sha256, which a lock needs", value, remedy)


def address(file: PackageWheel | PackageSdist) -> str:
    """Return the location of a file in uv's answer: an address, or a path."""
    return str(file.url or file.path)


def _with_wheels(plan: Plan, sources: Sources) -> Plan:
    """Ask for no source archive where a directory of the user's has a wheel that the image can install.

    An index's wheel changes nothing: the same request gives the same image.
    """
    fit = frozenset(wheelhouse.tags(plan.python, plan.glibc, plan.platform))
    places = directories(sources.links)

    def has_wheel(row: SourceOnly) -> bool:
        return any(wheelhouse.has_wheel(place, row.name, row.version, fit) for place in places)

    return replace(plan, source_only=tuple(row for row in plan.source_only if not has_wheel(row)))


def with_wheelhouse(context: Context) -> Sources:
    """Return pip's sources, the wheelhouse first; what is not there on this machine is left out, as pip does."""
    assert context.pip is not None, "nothing can be resolved without sources"
    links = context.pip.links
    for link in filter(is_absent, links):
        context.progress.say(f"note: a place of pip's find-links is not there, and is left out: {link}")
    first = (str(wheelhouse.require_directory(context.settings.wheelhouse)),) if context.settings.wheelhouse else ()
    return replace(context.pip, links=(*first, *(link for link in links if not is_absent(link))))
