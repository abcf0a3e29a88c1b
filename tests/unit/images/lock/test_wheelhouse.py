"""Wheelhouses that do not say which wheel is meant, or whose wheels are not what they are called."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from images.host.errors import UserFault
from images.lock import wheelhouse


def wheel(folder: Path, name: str, said: str | None = None) -> Path:
    """Write a wheel that has METADATA and nothing else; `said` is the name and version in it."""
    project, version = name.split("-")[:2]
    project, version = said.split() if said else (project, version)
    path = folder / f"{name}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
    return path


def refuse(folder: Path, *pins: tuple[str, str]) -> None:
    wheelhouse.refuse(folder, pins, "3.11", "2.36")


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


def test_everything_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "six-1.17.0-py3-none-any.whl").write_bytes(b"")
    wheel(tmp_path, "tqdm-1-cp310-cp310-linux_x86_64")

    with pytest.raises(UserFault, match=r"damaged: six.*another Python.*tqdm"):
        refuse(tmp_path, ("tqdm", "1"), ("six", "1.17.0"))
