"""Layers over layers, with whiteouts and links."""

from __future__ import annotations

import io

import pytest

from images.base import overlay
from images.base.overlay import OverlayTree
from images.foreign.tars import Tar
from images.host.errors import WorldFault
from images.store.blobs import Readable
from tests.support.base_facts import tree_of
from tests.support.hostile import END, entry
from tests.support.stand_in import Files


def whole(_: str, content: Readable) -> str:
    return content.read(1 << 20).decode()


def tree(*layers: Files) -> OverlayTree:
    return tree_of(*layers, keep=whole)


def paths(merged: OverlayTree) -> list[str]:
    return [path for path, _ in merged.walk()]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([{"a/b": b"", "a/c": b""}, {"a/.wh.b": b""}], ["a", "a/c"]),
        ([{"a/b": b"", "c": b""}, {".wh.a": b""}], ["c"]),
        ([{"a/b": b"", "a/c/d": b""}, {"a/.wh..wh..opq": b""}], ["a"]),
        ([{"a/b": b""}, {"a/c": b"", "a/.wh..wh..opq": b""}], ["a", "a/c"]),
        ([{"a/b": b""}, {"a/.wh..wh..opq": b"", "a/c": b""}], ["a", "a/c"]),
        ([{"a/b": b""}, {".wh.a": b"", "a/c": b""}], ["a", "a/c"]),
        ([{"a": b""}, {".wh.b": b""}], ["a"]),
        ([{"c": b"", ".wh.c": b""}], ["c"]),
        ([{"a/c": b"", ".wh.a": b"", "a/.wh..wh..opq": b""}], ["a", "a/c"]),
        ([{"a": b""}, {"a/b": b""}], ["a", "a/b"]),
        ([{"../../a": b"", "./b": b""}], ["a", "b"]),
        (
            [{"usr/lib/a": b"", "usr/lib/b": b"", "lib": "usr/lib"}, {"lib/.wh.a": b""}],
            ["lib", "usr", "usr/lib", "usr/lib/b"],
        ),
        ([{"a/old": b""}, {"a/new": b"", **{f"{n}/../a/.wh..wh..opq": b"" for n in range(1000)}}], ["a", "a/new"]),
    ],
)
def test_a_layer_is_laid_over_another(layers: list[Files], expected: list[str]) -> None:
    assert paths(tree(*layers)) == expected


def test_an_entry_goes_through_the_links_of_lower_layers() -> None:
    merged = tree({"lib": "usr/lib", "usr/lib/a": b"1"}, {"lib/b": b"2"})

    assert paths(merged) == ["lib", "usr", "usr/lib", "usr/lib/a", "usr/lib/b"]
    assert merged.find("lib/b") == merged.find("usr/lib/b")
    assert merged.text("lib/b") == "2"


def test_links_are_followed_from_where_they_are() -> None:
    merged = tree({"etc/a": "../usr/a", "usr/a": "b", "usr/b": b"text", "c": "/etc/a", "up": "../../usr/b", "d": "usr"})

    assert [merged.text(path) for path in ("etc/a", "c", "up")] == ["text"] * 3
    itself, below = merged.find("c", follow=False), merged.find("d/a", follow=False)
    assert itself and below and (itself[0], below[0], below[1].target) == ("c", "usr/a", "b")
    assert merged.directory("etc/a") is None


def test_a_circle_of_links_leads_nowhere() -> None:
    merged = tree({"a": "b", "b": "a", "c": "c/c"})

    assert [merged.find(path) for path in ("a", "b/x", "c")] == [None] * 3


def test_a_folder_keeps_its_content_when_a_layer_names_it_again() -> None:
    assert paths(tree({"a/b": b""}, {"a": None})) == ["a", "a/b"]


def test_names_are_in_order_and_those_of_no_directory_are_none() -> None:
    merged = tree({f"a/{name}": b"" for name in "cab"}, {"a/aa": b""})

    assert (merged.names("a"), merged.names("b")) == (("a", "aa", "b", "c"), ())


def test_a_file_takes_the_place_of_a_directory() -> None:
    assert paths(tree({"a/b": b""}, {"a": b""})) == ["a"]


def test_a_hard_link_has_the_text_of_its_target() -> None:
    merged = OverlayTree()

    merged.add(Tar(io.BytesIO(entry(b"a", b"text") + entry(b"b", kind=b"1", link=b"./a") + END)), whole)

    assert merged.text("b") == "text"


def test_a_tree_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    few: Files = {"a": b"", "b": b"text"}
    monkeypatch.setattr(overlay, "LARGEST", 2 * (overlay.PER_ENTRY + len("/a")) + len("text"))

    assert paths(tree(few)) == ["a", "b"]
    with pytest.raises(WorldFault, match="too many files"):
        tree({**few, "c": b""})


def test_the_work_over_links_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer of some hundred bytes, compressed, would keep a build busy for minutes."""
    monkeypatch.setattr(overlay, "FOLLOWED", 1 << 20)
    deep = "/".join(["d"] * 150)
    links: Files = {f"{deep}/l{number}": f"l{number + 1}" for number in range(30)}

    with pytest.raises(WorldFault, match="too many links"):
        tree({**links, f"{deep}/l30": "/d"}, {f"{deep}/l0/{number}": b"" for number in range(200)})
