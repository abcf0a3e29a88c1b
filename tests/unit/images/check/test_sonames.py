"""Libraries that two packages bring, by the name of the file and by the name inside (DT_SONAME)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from images.check import sonames
from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from images.model import Wheel
from tests.support.elf import library
from tests.support.wheels import damaged, pack


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def wheel(directory: Path, project: str, files: Mapping[str, bytes]) -> Wheel:
    members = {f"{project}-1.0.{name}" if name.startswith("data/") else name: data for name, data in files.items()}
    return Wheel(project, "1.0", f"sha256 of {project}", pack(directory, members, project))


HERE, USUAL = "data/data/lib", "usr/lib/x86_64-linux-gnu"


@pytest.mark.parametrize(
    ("first", "second", "below"),
    [
        ({f"{HERE}/liba.so.1": b"1"}, {f"{HERE}/libb.so.1": b"1"}, [f"{USUAL}/libc.so.6"]),
        ({f"{HERE}/liba.so.1": b"1"}, {f"{HERE}/liba.so.1": b"1"}, []),
        ({f"{HERE}/liba.so.1": b"1"}, {}, ["usr/local/lib/liba.so.1"]),
        ({f"{HERE}/liba.so.1": b"1", f"{HERE}/liba.so": b"1"}, {}, [f"{USUAL}/liba.so.2"]),
        ({f"{HERE}/liba-1.so": library("liba.so"), f"{HERE}/liba-2.so": library("liba.so")}, {}, []),
        ({f"{HERE}/sub/liba.so.1": b"1"}, {f"{HERE}/liba.so.1": b"2"}, [f"{USUAL}/sub/liba.so.1"]),
        ({"first/liba.so.1": b"1"}, {"second/liba.so.1": b"2"}, [f"{USUAL}/liba.so.1"]),
    ],
)
def test_a_name_that_one_package_has_is_good(
    tmp_path: Path, store: Store, first: Mapping[str, bytes], second: Mapping[str, bytes], below: list[str]
) -> None:
    found = [wheel(tmp_path, "first", first), wheel(tmp_path, "second", second)]

    sonames.refuse(found, below, (), store, trimmed=True)


@pytest.mark.parametrize(
    ("first", "second", "below", "words"),
    [
        ({f"{HERE}/liba.so.1": b"1"}, {f"{HERE}/liba.so.1": b"2"}, [], ("liba.so.1", "first", "second")),
        ({f"{HERE}/liba.so.1": b"1"}, {}, [f"{USUAL}/liba.so.1"], (f"the base: /{USUAL}/liba.so.1",)),
        ({f"{HERE}/liba-9.so": library("liba.so.1")}, {}, [f"{USUAL}/liba.so.1"], ("/usr/local/lib/liba-9.so",)),
        (
            {f"{HERE}/liba-9.so": library("liba.so.1")},
            {f"{HERE}/x86_64-linux-gnu/liba.so.1": b"1"},
            [],
            ("/usr/local/lib/x86_64-linux-gnu/liba.so.1",),
        ),
    ],
)
def test_a_name_that_two_packages_have_is_refused(
    tmp_path: Path,
    store: Store,
    first: Mapping[str, bytes],
    second: Mapping[str, bytes],
    below: list[str],
    words: tuple[str, ...],
) -> None:
    found = [wheel(tmp_path, "first", first), wheel(tmp_path, "second", second)]

    with pytest.raises(UserFault, match="two packages bring the same library") as caught:
        sonames.refuse(found, below, (), store, trimmed=True)

    assert all(word in caught.value.value for word in words)


@pytest.mark.parametrize("hidden", [f"{USUAL}/liba.so.1", USUAL])
def test_what_is_hidden_is_not_in_the_way(tmp_path: Path, store: Store, hidden: str) -> None:
    found = [wheel(tmp_path, "first", {f"{HERE}/liba.so.1": b"1"})]

    sonames.refuse(found, [f"{USUAL}/liba.so.1"], (hidden,), store, trimmed=True)


def test_what_is_trimmed_is_not_in_the_way(tmp_path: Path, store: Store) -> None:
    found = [wheel(tmp_path, "umf", {f"{HERE}/libumf.so.1": b"1"})]
    below = [f"{USUAL}/libumf.so.1"]

    sonames.refuse(found, below, (), store, trimmed=True)
    with pytest.raises(UserFault):
        sonames.refuse(found, below, (), store, trimmed=False)


def test_a_damaged_library_is_said_of_its_wheel(tmp_path: Path, store: Store) -> None:
    found = wheel(tmp_path, "first", {f"{HERE}/liba.so.1": library("liba.so.1")})
    damaged(found.path, "liba.so.1")

    with pytest.raises(WorldFault, match=r"cannot install a wheel: first-1\.0-py3-none-any\.whl \(") as caught:
        sonames.refuse([found], (), (), store, trimmed=True)
    assert caught.value.remedy.startswith("--wheelhouse DIR with a good copy")
