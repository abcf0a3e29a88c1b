"""What goes directly on a base: paths that are hidden, and files that it lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from images.layers import on_base
from images.lock.lock import Lock
from images.store.store import Store
from tests.support.bases import base
from tests.support.locks import artifact, context, lock
from tests.support.stand_in import LIBRARY, PACKAGES, SYSTEM, Files

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


@pytest.mark.parametrize("made", [True, False])
def test_what_is_not_planned_stays(made: bool) -> None:
    assert on_base.choose_hidden(base(SYSTEM, PACKAGES, made=made), planned(("tqdm", "4.67"))) == ()


def test_of_a_base_that_was_made_here_nothing_is_hidden_and_it_lacks_nothing(tmp_path: Path) -> None:
    found = base(SYSTEM, PACKAGES, made=True)
    made = context(Store(tmp_path), None, {})

    assert on_base.choose_hidden(found, OTHER) == ()
    assert on_base.list_extras(found, OTHER, (), made) == ()


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
    tmp_path: Path, files: Files, hidden: tuple[str, ...], names: list[str]
) -> None:
    found = on_base.list_extras(base(SYSTEM, files), OTHER, hidden, context(Store(tmp_path), None, {}))

    assert [extra.name for extra in found] == names


def test_what_is_added_depends_on_glibc_and_on_debians_directory(tmp_path: Path) -> None:
    """Bases that differ in either get different files or links."""
    bare = base(SYSTEM)
    elsewhere = replace(bare.facts.directories, owners={})
    others = [replace(bare.facts, glibc="2.99"), replace(bare.facts, directories=elsewhere)]
    found = [bare, *(replace(bare, facts=facts) for facts in others)]

    inputs = [on_base.list_extras(one, OTHER, (), context(Store(tmp_path), None, {}))[0].inputs for one in found]

    assert inputs[0] not in inputs[1:] and inputs[1] != inputs[2]
