"""The newest releases that the user's lines allow, whether an image can have them or not."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from functools import partial

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from images.host.background import background
from images.lock import index_pages
from images.lock.index_pages import PageFile
from images.plan import markers
from images.plan import requirements as users
from images.plan.plan import Plan
from images.plan.planner import FAMILY
from images.servers.pip_config import Sources


def find_newest(plan: Plan, sources: Sources) -> dict[str, Version]:
    """Return the newest release, as of the day, of each of the user's packages that has a choice of them.

    Raises a Fault for an index that does not answer.
    """
    wanted = [one for one in map(users.parse_line, plan.user_packages) if not one.bounds]
    here = [one for one in wanted if markers.applies(one.requirement, plan.python, plan.platform)]
    exact = {one.name for one in here if users.is_exact(one.requirement)}
    stated: dict[str, list[Requirement]] = {}
    for one in here:
        if one.name not in exact:
            stated.setdefault(one.name, []).append(one.requirement)
    places = [(name, index) for name in stated for index in index_pages.list_indexes(sources)]
    newest: dict[str, Version] = {}
    with background(index_pages.AT_ONCE) as start:
        tasks = [
            (name, start(partial(_read_newest, index, name, stated[name], plan, sources))) for name, index in places
        ]
        for name, task in tasks:
            if version := task.result():
                newest[name] = max(version, newest.get(name, version))
    return newest


def day_of(name: str, plan: Plan) -> datetime.date:
    """Return the day as of which a package is resolved."""
    return plan.family_as_of if canonicalize_name(name) in FAMILY else plan.as_of


def _read_newest(index: str, name: str, stated: Sequence[Requirement], plan: Plan, sources: Sources) -> Version | None:
    """Return the newest release of a page that lines allow, of which no more is kept."""
    page = index_pages.read_page(index, name, sources)
    return max(_list_versions(page.files, stated, plan), default=None) if page else None


def _list_versions(files: Sequence[PageFile], stated: Sequence[Requirement], plan: Plan) -> Iterator[Version]:
    """Yield the releases that lines allow, but no build, preview or withdrawn one.

    Of a file whose day is not known uv takes none as of a day.
    """
    for file in files:
        version = _version_of(file.name)
        is_late = file.uploaded is None or file.uploaded[:10] > str(day_of(stated[0].name, plan))
        if version is None or version.is_prerelease or version.local or file.yanked or is_late:
            continue
        if all(requirement.specifier.contains(version) for requirement in stated):
            yield version


def _version_of(filename: str) -> Version | None:
    parse = parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename
    try:
        return parse(filename)[1]
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
