"""Which scripts of Debian's packages are printed, taken as known, and recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from images.debian.deb import Deb, Debian, load_control
from images.dpkg import rootfs, suites
from images.plan import catalog
from images.plan.catalog import BaseRow
from images.platforms import PLATFORMS, Platform
from images.store.blobs import sha256
from images.store.store import Store
from scripts import maintainer_scripts, program
from tests.support import locks
from tests.support.packages import package

SCRIPT = "#!/bin/sh\n\techo \x1b one\n"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Let each suite have one package with a script, and a list of known scripts of its own."""
    store, asked = Store(tmp_path / "store"), list[Any]()
    path = tmp_path / "one.deb"
    path.write_bytes(package("one", scripts={"postinst": SCRIPT}))
    digest = sha256(path)
    deb = Deb("one", "1", "amd64", store.keep(path, digest, path.name).name, digest)

    def base(suite: str, names: Sequence[str], platform: Platform, _: object) -> Debian:
        asked.append((suite, [*names], str(platform)))
        return Debian(suite, tuple(names), "", (deb,))

    def make_tree(_: object, debs: Sequence[Path], platform: Platform) -> None:
        suites.require_known(load_control(deb) for deb in debs)  # as that of a base does
        asked.append(("tree", str(platform)))

    monkeypatch.setattr(maintainer_scripts, "resolve_base", base)
    monkeypatch.setattr(maintainer_scripts, "resolve_single", lambda *_: (deb,))
    monkeypatch.setattr(program, "context", lambda *_: locks.context(store, None, {}))
    monkeypatch.setattr(rootfs, "make_tree", make_tree)
    monkeypatch.setattr(suites, "KNOWN", tmp_path / "scripts.json")
    monkeypatch.setattr(maintainer_scripts, "RECORD", tmp_path / "debian.json")
    suites.KNOWN.write_text('{"other.postinst": ["0", "1"]}')
    suites.read_known.cache_clear()
    row = BaseRow(suite="bookworm", python="3.11", glibc="2.36", packages=("tini",))
    monkeypatch.setattr(catalog, "load", lambda: SimpleNamespace(suites=[row]))
    yield asked
    suites.read_known.cache_clear()


def run(tmp_path: Path, *words: str) -> int:
    return maintainer_scripts.main([*words], {"HOME": str(tmp_path)})


def test_a_script_that_is_not_known_is_printed_without_what_steers_a_terminal(
    asked: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path) == 1

    said = capsys.readouterr()
    assert "=== one.postinst of 1 (key " in said.out and "\x1b" not in said.out and "echo" in said.out
    assert "scripts of Debian's packages are not known: one.postinst" in said.err
    assert "--known one.postinst=nothing" in said.err
    assert not (tmp_path / "debian.json").exists() and ("tree", "linux/amd64") not in asked
    assert json.loads(suites.KNOWN.read_text()) == {"other.postinst": ["0", "1"]}
    assert asked == [("bookworm", ["tini"], str(platform)) for platform in PLATFORMS]


@pytest.mark.parametrize(
    ("words", "records", "systems"),
    [([], True, 2), (["more"], False, 2), (["--suite", "bookworm"], False, 2), (["--suite", "sid", "more"], False, 2)],
)
def test_a_script_that_was_read_is_known_from_then_on(
    asked: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], records: bool, systems: int
) -> None:
    assert run(tmp_path, *words, "--known", "one.postinst=nothing") == 0

    known = json.loads(suites.KNOWN.read_text())
    [key] = known["one.postinst"]
    assert known["other.postinst"] == ["0", "1"] and len(key) == 64
    assert f"{systems} systems, 1 scripts more than before" in capsys.readouterr().out
    names = {"sid": ["more"]}.get(words[1] if len(words) > 1 else "", ["tini", *(w for w in words if w == "more")])
    assert asked[0] == ("sid" if "sid" in words else "bookworm", names, "linux/amd64")
    assert (("tree", "linux/arm64") in asked) is (tmp_path / "debian.json").exists() is records
    if records:
        system = json.loads((tmp_path / "debian.json").read_text())["bookworm"]["linux/arm64"]
        assert system == {"asked": ["tini"], "scripts": {"one.postinst": key}, "additions": ["one"]}
    assert run(tmp_path, *words) == 0


@pytest.mark.parametrize(
    ("known", "fact"),
    [("one.postinst", "is not PACKAGE.SCRIPT=nothing|rows"), ("one.postinst=all", "is not PACKAGE.SCRIPT"),
     ("one.postinst=rows", "there are no rows of that package: one"),
     ("absent.postinst=nothing", "--known names no script that is unknown: absent.postinst")],
)  # fmt: skip
def test_an_answer_for_no_such_script_is_refused(
    asked: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], known: str, fact: str
) -> None:
    assert run(tmp_path, "--known", known) == 2
    assert fact in capsys.readouterr().err and json.loads(suites.KNOWN.read_text()) == {"other.postinst": ["0", "1"]}


def test_a_script_may_have_rows(asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "rows", lambda *_: [("one", None)])

    assert run(tmp_path, "--known", "one.postinst=rows") == 0
