"""What goes directly on a base: paths that are hidden, and files that it lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.base import additions
from images.base.base import Facts
from images.layers import on_base
from images.lock.lock import Lock
from images.store.store import Store
from tests.support.base_facts import facts_of, tree_of
from tests.support.bases import base
from tests.support.locks import artifact, context, lock
from tests.support.stand_in import IPEX, LIBRARY, PACKAGES, RECORD, SITE, SYSTEM, Files

OLD = f"{SITE}/intel_extension_for_pytorch-2.3.0+cpu.dist-info"
PLANNED = [
    ("intel-extension-for-pytorch", "2.4.0+cpu"),
    ("oneccl_bind_pt", "2.4.0"),
    ("six", "1.17.0"),
    ("torch", "2.4.0+cpu"),
]


@pytest.mark.parametrize(
    ("installed", "planned", "same"),
    [
        ("2.4.0+cpu", "2.4.0+cpu", True),
        ("2.4.0+cpu", "2.4.0", True),
        ("2.4.0", "2.4.0+cpu", False),
        ("2.4", "2.4.0", True),
        ("2.4.0rc1", "2.4.0", False),
        ("2.4.0rc1", "2.4.0rc1", True),
        ("not a version", "2.4.0", False),
    ],
)
def test_versions_are_compared_as_python_packages_are(installed: str, planned: str, same: bool) -> None:
    assert on_base.fits(installed, planned) == same


def hidden(facts: Facts) -> tuple[str, ...]:
    return on_base.list_hidden(facts, on_base.compare_packages(facts, "3.10", PLANNED).replaced)


def test_bytecode_that_no_list_has_is_hidden_too() -> None:
    more: Files = {f"{IPEX}/__pycache__/__init__.cpython-310.opt-1.pyc": b"", f"{OLD}/direct_url.json": b""}

    assert hidden(facts_of(SYSTEM, PACKAGES, more)) == ("usr/local/bin/ipexrun", IPEX, OLD)


def test_a_hidden_folder_is_not_opened_again() -> None:
    record = RECORD + f"{Path(OLD).name}/licenses/LICENSE,,\n"
    more: Files = {f"{OLD}/RECORD": record.encode(), f"{OLD}/licenses/LICENSE": b"", f"{OLD}/licenses/unlisted": b""}

    assert hidden(facts_of(SYSTEM, PACKAGES, more)) == ("usr/local/bin/ipexrun", IPEX, OLD)


PLACES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)


@given(st.sets(PLACES), st.sets(PLACES), st.sets(PLACES))
def test_what_is_hidden_is_the_old_and_nothing_else(old: set[str], kept: set[str], nobodys: set[str]) -> None:
    """Whatever lies beside it: what stays is as it was, and no path is hidden below another."""
    files: Files = {f"{SITE}/p/{place}.py": b"" for place in old | kept | nobodys}
    lists: Files = {
        f"{SITE}/{name}-1.dist-info/RECORD": "".join(f"p/{place}.py,,\n" for place in sorted(places)).encode() + b"x,,"
        for name, places in (("old", old), ("kept", kept))
    }
    below: list[Files] = [SYSTEM, {**files, **lists}]
    facts = facts_of(*below)
    paths = on_base.list_hidden(facts, [d for d in facts.distributions if d.name == "old"])

    whiteouts: Files = {str(Path(path).with_name(f".wh.{Path(path).name}")): b"" for path in paths}
    left = {path for path, node in tree_of(*below, whiteouts).walk() if node.kind == "f"}

    assert left == {path for path, node in tree_of(*below).walk() if node.kind == "f"} - {
        f"{SITE}/old-1.dist-info/RECORD",
        *(f"{SITE}/p/{place}.py" for place in old - kept),
    }
    assert not any(one != two and one.startswith(f"{two}/") for one in paths for two in paths)


def test_the_folders_of_packages_and_programs_stay_even_when_empty() -> None:
    alone: Files = {path: data for path, data in PACKAGES.items() if "oneccl" not in path}

    assert hidden(facts_of(SYSTEM, alone)) == ("usr/local/bin/ipexrun", IPEX, OLD)


WHOLE: Files = {
    f"{LIBRARY}/libtcmalloc.so.4": b"",
    f"{LIBRARY}/libnss_wrapper.so": b"",
    f"{LIBRARY}/libunwind.so.8": b"",
    "usr/bin/tini": b"",
}


def planned(*versions: tuple[str, str]) -> Lock:
    return lock([artifact(name, version) for name, version in versions], python="3.10")


OTHER = planned(("intel-extension-for-pytorch", "2.4.0"))


def test_what_forbids_pip_to_install_is_hidden() -> None:
    marks: Files = {f"usr/lib/python{python}/EXTERNALLY-MANAGED": b"" for python in ("3.10", "3.12")}

    assert on_base.choose_hidden(base(SYSTEM, marks), planned()) == ("usr/lib/python3.10/EXTERNALLY-MANAGED",)


@pytest.mark.parametrize("is_debian", [True, False])
def test_what_is_not_planned_stays(is_debian: bool) -> None:
    assert on_base.choose_hidden(base(SYSTEM, PACKAGES, is_debian=is_debian), planned(("tqdm", "4.67"))) == ()


def test_of_a_base_that_was_made_here_nothing_is_hidden_and_it_lacks_nothing(tmp_path: Path) -> None:
    below = base(SYSTEM, PACKAGES, is_debian=True)
    at_hand = context(Store(tmp_path), None, {})

    assert on_base.choose_hidden(below, OTHER) == ()
    assert on_base.list_extras(below, OTHER, (), at_hand) == ()


@pytest.mark.parametrize(
    ("files", "hidden", "names"),
    [
        (WHOLE, (), []),
        (WHOLE, ("usr/bin/old",), ["replaced"]),
        ({}, (), ["additions"]),
        ({}, ("usr/bin/old",), ["replaced", "additions"]),
    ],
)
def test_a_layer_for_what_is_hidden_and_one_for_what_is_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Files, hidden: tuple[str, ...], names: list[str]
) -> None:
    extras = on_base.list_extras(base(SYSTEM, files), OTHER, hidden, context(Store(tmp_path), None, {}))

    assert [extra.name for extra in extras] == names
    layer, written = mock.Mock(), list[object]()
    monkeypatch.setattr(additions, "read_pieces", lambda *given: given[1:3])
    monkeypatch.setattr(additions, "write_pieces", lambda *given: written.append(given[:2]))
    for extra in extras:
        extra.fill(layer)
    assert layer.whiteout.call_args_list == [mock.call(path) for path in hidden]
    lacking = (OTHER.debian.debs, additions.list_missing_pieces(base(SYSTEM, files).facts))
    assert written == [(layer, lacking)] * ("additions" in names)


def test_what_is_added_depends_on_glibc_and_on_debians_directory(tmp_path: Path) -> None:
    """Bases that differ in either get different files or links."""
    bare = base(SYSTEM)
    elsewhere = replace(bare.facts.directories, owners={})
    others = [replace(bare.facts, glibc="2.99"), replace(bare.facts, directories=elsewhere)]
    bases = [bare, *(replace(bare, facts=facts) for facts in others)]

    inputs = [on_base.list_extras(below, OTHER, (), context(Store(tmp_path), None, {}))[0].inputs for below in bases]

    assert inputs[0] not in inputs[1:] and inputs[1] != inputs[2]
