"""Which packages are chosen, as apt chooses them on an empty system."""

from __future__ import annotations

from dataclasses import replace

import pytest

from images.debian import archive, packages
from images.debian.archive import Paragraph
from images.debian.packages import Question, Universe, Unsolvable, closure
from images.platforms import AMD64, ARM64
from images.store.store import Store
from tests.support import locks


def rows(*said: str, suite: str = "bookworm") -> list[Paragraph]:
    """Read `NAME VERSION; Field: value; ...`."""
    paragraphs = []
    for row in said:
        head, *others = row.split("; ")
        name, version = head.split()
        text = "\n".join(["", f"Package: {name}", f"Version: {version}", *others, ""]).encode()
        paragraphs.append(Paragraph(suite, text, 1, len(text)))
    return paragraphs


@pytest.mark.parametrize(
    ("universe", "names", "expected"),
    [
        (["a 1; Depends: b, c", "b 1; Pre-Depends: d", "c 1", "d 1", "e 1"], ["a"], "a b c d"),
        (["a 1; Depends: b | c", "b 1", "c 1"], ["a"], "a b"),  # the first alternative
        (["a 1; Depends: b | c", "b 1", "c 1"], ["a", "c"], "a c"),  # unless another one is there
        (["a 1; Depends: x", "b 1; Provides: x", "c 1; Provides: x"], ["a"], "a b"),
        (["a 1; Depends: x (>= 2)", "b 1; Provides: x", "c 1; Provides: x (= 3)"], ["a"], "a c"),
        (["a 1; Depends: b (>= 2)", "b 1", "b 2~x", "b 2"], ["a"], "a b"),  # the newest, whichever suite has it
        (["a 1; Depends: b; Conflicts: c", "b 1", "c 1"], ["a"], "a b"),
        (["b 1; Provides: a (= 1)"], ["a"], "b"),  # the only one that provides it
        (["a 1", "b 1; Provides: a"], ["a"], "a"),
        (["a 1; Provides: x; Conflicts: x"], ["a"], "a"),  # a package may replace what it provides
    ],
)
def test_packages_come_with_what_they_need(universe: list[str], names: list[str], expected: str) -> None:
    assert " ".join(row["Package"] for row in closure(Universe(rows(*universe)), names)) == expected


@pytest.mark.parametrize(
    ("universe", "said"),
    [
        (["b 1"], "there is no package a$"),
        (["b 1; Provides: a", "c 1; Provides: a"], "there is no package a, which b and c provide"),
        (["a 1; Depends: b (>= 2) | c", "b 1"], "a needs b or c"),
        (["a 1; Depends: b", "b 1; Breaks: a (<< 2)"], "b does not go with a"),
    ],
)
def test_what_cannot_be_is_said(universe: list[str], said: str) -> None:
    with pytest.raises(Unsolvable, match=said.replace("(", r"\(")):
        closure(Universe(rows(*universe)), ["a"])


def test_what_no_system_is_without_is_in_every_base() -> None:
    release = rows("a 1; Essential: yes", "b 1; Priority: required", "c 1; Priority: important")
    updates = rows("d 1; Essential: yes", suite="bookworm-updates")

    assert Universe([*release, *updates]).essential("bookworm") == ["a", "b"]


def test_a_package_comes_before_one_that_provides_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"a": "Package: a\nProvides: tini, b (= 1)\n", "tini": "Package: tini\n"}
    monkeypatch.setattr(packages, "read_control", lambda _, deb: said[deb.package])
    one, tini = debs = [replace(locks.TINI, package=name) for name in said]

    assert [packages.find_provider(store, debs, name) for name in ("tini", "b", "a", "c")] == [tini, one, one, None]


def test_questions_that_differ_have_different_answers() -> None:
    one = Question("bookworm", AMD64, ("a",))
    others = [one._replace(suite="trixie"), one._replace(platform=ARM64), one._replace(names=("b",))]

    assert len({str(asked.inputs) for asked in (one, *others, one._replace(alone=True))}) == 5


@pytest.mark.parametrize(("environ", "asked"), [({}, True), ({archive.VARIABLE: "file:///mirror"}, False)])
def test_where_a_mirror_is_named_no_other_place_is_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], asked: bool
) -> None:
    places = list[object]()
    monkeypatch.setattr(packages, "_indexes", lambda *_: [])
    monkeypatch.setattr(archive, "places", lambda *given: places.append(given) or {})  # type: ignore[func-returns-value]

    packages.download_packages("bookworm", [locks.TINI], AMD64, locks.context(store, None, environ))

    assert bool(places) is asked
