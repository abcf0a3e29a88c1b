"""Which projects of a set need which others, by what their metadata asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def graph(asked: Mapping[str, Iterable[str]], python: str) -> dict[str, set[str]]:
    """Answer project -> projects of the same set, for the Python of an image, such as `3.11`.

    `asked` has the Requires-Dist of each project, by canonical name; what cannot be read asks for nothing.
    Extras count where another project asks for them.
    """
    read = {project: [r for text in texts for r in _read(text)] for project, texts in asked.items()}
    environment = _environment(python)
    needs: dict[str, set[str]] = {project: set() for project in read}
    waiting = [(project, "") for project in read]
    seen = set(waiting)
    while waiting:
        project, extra = waiting.pop()
        for requirement in read[project]:
            target = canonicalize_name(requirement.name)
            if target not in read or not _holds(requirement, {**environment, "extra": extra}):
                continue
            needs[project] |= {target} - {project}
            more = {(target, canonicalize_name(name)) for name in requirement.extras} - seen
            waiting += more
            seen |= more
    return needs


def _read(text: str) -> Iterator[Requirement]:
    try:
        yield Requirement(text)
    except (ValueError, RecursionError):  # the latter for brackets within brackets, a thousand deep
        pass


def _holds(requirement: Requirement, environment: Mapping[str, str]) -> bool:
    try:
        return requirement.marker is None or requirement.marker.evaluate(dict(environment))
    except (ValueError, UndefinedEnvironmentName):
        return False


def _environment(python: str) -> dict[str, str]:
    """Name what markers ask for (PEP 508) in the image, whatever machine this runs on."""
    return {
        "implementation_name": "cpython",
        "implementation_version": python,
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": python if python.count(".") > 1 else f"{python}.0",
        "python_version": ".".join(python.split(".")[:2]),
        "sys_platform": "linux",
    }
