"""What is said of bases and wheels that cannot be used: builds that are refused after the command line was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.golden import wheels
from tests.golden.base import PACKAGES, PLAIN, STATUS, SYSTEM
from tests.golden.building import Debian, built
from tests.support.stand_in import Files, Image

NONE = "--examples none"
WHEELHOUSE = f"{NONE} --wheelhouse wheels"
OLD = STATUS.replace("2.36-9", "2.17-1").encode()
WITHOUT_LIST = {path: content for path, content in PACKAGES.items() if not path.endswith("RECORD")}


def on(*layers: Files, architecture: str = "amd64", typed: str = NONE) -> Debian:
    """Return a build on a base of these layers."""
    return Debian(Image(layers, "none", architecture), wheels.of_the_newest, typed)


def without(path: str) -> Files:
    """Return the files of the base but one."""
    return {name: content for name, content in SYSTEM.items() if name != path}


def with_wheels(change: Callable[[Path], object], typed: str = WHEELHOUSE) -> Debian:
    """Return a build from the wheels of the newest pair after a change."""

    def fill(place: Path) -> None:
        change(wheels.of_the_newest(place))

    return Debian(PLAIN, fill, typed)


def rename(old: str, new: str) -> Callable[[Path], object]:
    """Return a change that gives a wheel another name."""
    return lambda place: next(place.glob(f"{old}-*.whl")).rename(place / new)


BASES = {
    "nothing in it": on({"etc": None}),
    "another machine": on(SYSTEM, architecture="arm64"),
    "an old glibc": on({**SYSTEM, "var/lib/dpkg/status": OLD}),
    "no shell": on(without("usr/bin/sh")),
    "another Python": on({**without("usr/bin/python3.11"), "usr/bin/python3.12": b"", "usr/bin/python3": "python3.12"}),
    "another python3": on({**SYSTEM, "usr/bin/python3.12": b"", "usr/bin/python3": "python3.12"}),
    "a package without a list of its files": on(SYSTEM, WITHOUT_LIST),
    "a path in the place of the examples": on(SYSTEM, typed="--examples nowhere"),
    "a directory without examples": on(SYSTEM, typed="--examples programs"),
    "no such directory of wheels": on(SYSTEM, typed=f"{NONE} --wheelhouse nowhere"),
}
WHEELS = {
    "for another Python": with_wheels(rename("impi_rt", "impi_rt-2021.18.0-cp310-cp310-linux_x86_64.whl")),
    "named as another release": with_wheels(rename("six", "six-1.18.0-cp311-cp311-linux_x86_64.whl")),
}
GROUPS = {"bases": BASES, "wheels": WHEELS}


def refused(recipe: Debian) -> dict[str, object]:
    """Return what is said of a build: exit code, and the lines on stderr from the error on.

    Raises AssertionError when something is printed on stdout.
    """
    with built(recipe) as (said, place):
        assert said.out == "", said
        _, error, text = said.err.replace(str(place), "PLACE").partition("error: ")
        return {"exit code": said.code, "stderr": (error + text).splitlines()}


def produce() -> dict[str, dict[str, dict[str, object]]]:
    """Return what is said of every build: name of the group -> name of the build -> what is said."""
    return {group: {name: refused(recipe) for name, recipe in rows.items()} for group, rows in GROUPS.items()}
