"""Wheelhouses that do not say which wheel is meant, or whose wheels are not what they are called."""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from images.host.errors import UserFault
from images.host.store import Store, sha256
from images.wheels import wheelhouse
from tests.support.wheels import WHEEL, record


def wheel(directory: Path, name: str, said: str | None = None, files: Mapping[str, bytes] | None = None) -> Path:
    """Write a wheel; `said` is the name and version in its METADATA, `files` are what else it has."""
    project, version = name.split("-")[:2]
    info = f"{project}-{version}.dist-info"
    whole = {f"{info}/METADATA": metadata(*(said or f"{project} {version}").split()), f"{info}/WHEEL": WHEEL}
    whole |= files or {}
    path = directory / f"{name}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in {**whole, f"{info}/RECORD": record(whole, info).encode()}.items():
            archive.writestr(member, data)
    return path


def metadata(name: str, version: str) -> bytes:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()


def refuse(directory: Path, *pins: tuple[str, str]) -> None:
    wheelhouse.refuse(directory, pins, "3.11", "2.36")


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("six-1.17.0-py3-none-any",),
        ("six-1.17.0-py3-none-any", "six-1.16.0-py3-none-any"),
        ("six-1.17.0-cp310-cp310-linux_x86_64", "six-1.17.0-cp311-cp311-linux_x86_64"),
        ("six-1.16.0-cp310-cp310-linux_x86_64",),
        ("six-1.17.0+cpu-py3-none-any",),
        ("other-1.17.0-py3-none-any", "other-1.17.0-1-py3-none-any"),
    ],
)
def test_one_wheel_for_a_package_or_none_is_good(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        wheel(tmp_path, name)
    (tmp_path / "not-a-name.whl").write_bytes(b"")

    refuse(tmp_path, ("six", "1.17.0"))


@pytest.mark.parametrize(
    ("names", "fact"),
    [
        (("six-1.17.0-py3-none-any", "six-1.17.0-1-py3-none-any"), "more than one wheel"),
        (("six-1.17.0-py3-none-any", "six-1.17.0+cpu-py3-none-any"), "more than one wheel"),
        (("six-1.17.0-py3-none-any", "six-1.17.0-cp311-cp311-linux_x86_64"), "more than one wheel"),
        (("six-1.17.0-cp310-cp310-linux_x86_64",), "another Python or system"),
        (("six-1.17.0-cp311-cp311-manylinux_2_39_x86_64",), "another Python or system"),
        (("six-1.17.0-cp311-cp311-win_amd64",), "another Python or system"),
    ],
)
def test_what_is_in_doubt_is_refused(tmp_path: Path, names: tuple[str, ...], fact: str) -> None:
    for name in names:
        wheel(tmp_path, name)

    with pytest.raises(UserFault, match=fact) as caught:
        refuse(tmp_path, ("Six", "1.17.0"))

    assert all(name in caught.value.value for name in names)
    assert str(tmp_path) in caught.value.remedy


@pytest.mark.parametrize(
    ("tags", "remedy"),
    [
        (("cp310-cp310-linux_x86_64", "cp310-cp310-manylinux2014_x86_64"), "--python 3.10, for which these wheels are"),
        (("cp310-cp310-linux_x86_64", "cp39-cp39-linux_x86_64"), "mend "),
        (("cp310-cp310-win_amd64", "cp310-cp310-win_amd64"), "mend "),
        (("cp311-cp311-win_amd64", "cp311-cp311-win_amd64"), "mend "),
    ],
)
def test_a_wheelhouse_for_another_python_says_which(tmp_path: Path, tags: tuple[str, str], remedy: str) -> None:
    for name, tag in zip(("six", "seven"), tags, strict=True):
        wheel(tmp_path, f"{name}-1.17.0-{tag}")

    with pytest.raises(UserFault) as caught:
        refuse(tmp_path, ("six", "1.17.0"), ("seven", "1.17.0"))

    assert caught.value.remedy.startswith(remedy) and str(tmp_path) in caught.value.remedy


@pytest.mark.parametrize("said", ["six 1.16.0", "seven 1.17.0", "six not-a-version"])
def test_a_wheel_with_another_name_inside_is_refused(tmp_path: Path, said: str) -> None:
    path = wheel(tmp_path, "six-1.17.0-py3-none-any", said)

    with pytest.raises(UserFault, match="not what its name says") as caught:
        refuse(tmp_path, ("six", "1.17.0"))

    assert path.name in caught.value.value and said in caught.value.value


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and nothing else"])
def test_a_damaged_wheel_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "six-1.17.0-py3-none-any.whl").write_bytes(data)

    with pytest.raises(UserFault, match=r"damaged: six-1.17.0-py3-none-any.whl"):
        refuse(tmp_path, ("six", "1.17.0"))


def test_a_wheel_whose_directory_points_before_its_beginning_is_damaged(tmp_path: Path) -> None:
    path = wheel(tmp_path, "six-1.17.0-py3-none-any", "six 1.17.0")
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, data.rindex(b"PK\x05\x06") + 16, len(data) + 1)
    path.write_bytes(data)

    with pytest.raises(UserFault, match=r"damaged: six-1.17.0-py3-none-any.whl \(its directory points"):
        refuse(tmp_path, ("six", "1.17.0"))


def test_a_wheel_without_metadata_is_said_to_have_none(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "six-1.17.0-py3-none-any.whl", "w") as archive:
        archive.writestr("six.py", b"")

    with pytest.raises(UserFault, match=r"damaged: six-1.17.0-py3-none-any.whl \(no METADATA\)\n"):
        refuse(tmp_path, ("six", "1.17.0"))


@pytest.mark.parametrize(
    "files", [{"../six.py": b""}, {"six-1.17.0.data": b""}, {"six-1.17.0.dist-info/entry_points.txt": b"six"}]
)
def test_a_wheel_that_cannot_be_installed_is_the_users_to_mend(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    path = wheel(tmp_path, "six-1.17.0-py3-none-any", files=files)

    with pytest.raises(UserFault, match=rf"cannot be installed: {path.name} \("):
        refuse(tmp_path, ("six", "1.17.0"))


def test_a_package_that_is_pinned_twice_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0+cpu-py3-none-any.whl").write_bytes(b"")

    with pytest.raises(UserFault, match="a wheel of the wheelhouse is damaged") as caught:
        refuse(tmp_path, ("torch", "2.13.0"), ("torch", "2.13.0+cpu"), ("Torch", "2.13.0"))

    assert caught.value.value.count("torch-2.13.0") == 1


def test_a_directory_with_the_name_of_a_wheel_is_none(tmp_path: Path) -> None:
    (tmp_path / "six-1.17.0-py3-none-any.whl").mkdir()

    refuse(tmp_path, ("six", "1.17.0"))


def test_a_file_is_read_again_when_it_was_written_again(tmp_path: Path) -> None:
    store, path = Store(tmp_path / "store"), wheel(tmp_path, "six-1.17.0-py3-none-any")
    (tmp_path / "notes.txt").write_bytes(b"not a wheel")
    before, time = path.read_bytes(), path.stat().st_mtime_ns

    assert wheelhouse.contents(tmp_path, store) == [(path.name, sha256(path))]
    path.write_bytes(before[::-1])
    os.utime(path, ns=(time, time))

    assert wheelhouse.contents(tmp_path, store) == [(path.name, hashlib.sha256(before[::-1]).hexdigest())]


def test_all_bad_wheels_are_named_in_one_message(tmp_path: Path) -> None:
    (tmp_path / "six-1.17.0-py3-none-any.whl").write_bytes(b"")
    wheel(tmp_path, "tqdm-1-cp310-cp310-linux_x86_64")

    with pytest.raises(UserFault, match=r"damaged: six.*another Python.*tqdm"):
        refuse(tmp_path, ("tqdm", "1"), ("six", "1.17.0"))


@pytest.mark.parametrize(
    ("directory", "url", "holds"),
    [
        ("/a+b c", "file:///a+b%20c/d-1-py3-none-any.whl", True),
        ("/a+b c", "file:///a%2Bb%20c/d-1-py3-none-any.whl", True),
        ("/b/../a", "file:///a/d-1-py3-none-any.whl", True),
        ("/b/./c/../../a/", "file:///a/d-1-py3-none-any.whl", True),
        ("/a", "file:///b/../a/d-1-py3-none-any.whl", True),
        ("/a/..", "file:///a/d-1-py3-none-any.whl", False),
        ("/a", "file:///ab/d-1-py3-none-any.whl", False),
        ("/a", "https://host/a/d-1-py3-none-any.whl", False),
        ("/a", None, False),
        (None, "file:///a/d-1-py3-none-any.whl", False),
    ],
)
def test_a_file_of_the_wheelhouse_is_known_by_its_address(directory: str | None, url: str | None, holds: bool) -> None:
    assert wheelhouse.holds(directory, url) is holds
