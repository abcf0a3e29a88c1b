"""What a wheelhouse has of a package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from images.host.errors import UserFault
from images.platforms import AMD64
from images.wheels import wheelhouse


def wheel(directory: Path, name: str) -> Path:
    """Write what is called a wheel; nothing of it is read."""
    path = directory / f"{name}.whl"
    path.write_bytes(name.encode())
    return path


def refuse(directory: Path, *pins: tuple[str, str]) -> None:
    wheelhouse.refuse(directory, pins, "3.11", "2.36", AMD64)


@pytest.mark.parametrize(
    ("names", "fits"),
    [
        ((), True),
        (("six-1.17.0-py3-none-any", "six-1.16.0-py3-none-any"), True),
        (("six-1.17.0-cp310-cp310-linux_x86_64", "six-1.17.0-cp311-cp311-linux_x86_64"), True),
        (("six-1.16.0-cp310-cp310-linux_x86_64",), True),
        (("six-1.17.0+cpu-py3-none-any", "six-1.17.0-1-py3-none-any"), True),
        (("six-1.17.0-cp310-cp310-linux_x86_64",), False),
        (("six-1.17.0-cp311-cp311-manylinux_2_39_x86_64",), False),
        (("six-1.17.0+cpu-cp311-cp311-win_amd64", "six-1.17.0-cp310-cp310-linux_x86_64"), False),
    ],
)
def test_a_package_that_is_there_for_others_only_is_refused(tmp_path: Path, names: Sequence[str], fits: bool) -> None:
    for name in names:
        wheel(tmp_path, name)
    (tmp_path / "not-a-name.whl").write_bytes(b"")

    if fits:
        refuse(tmp_path, ("Six", "1.17.0"))
        return
    with pytest.raises(UserFault, match="another Python or system") as caught:
        refuse(tmp_path, ("Six", "1.17.0"))
    assert all(name in caught.value.value for name in names)
    assert str(tmp_path) in caught.value.remedy


def test_every_such_wheel_is_named_once(tmp_path: Path) -> None:
    for name in ("torch-2.13.0+cpu-cp310-cp310-linux_x86_64", "tqdm-1-cp310-cp310-linux_x86_64"):
        wheel(tmp_path, name)

    with pytest.raises(UserFault, match="another Python or system") as caught:
        refuse(tmp_path, ("torch", "2.13.0"), ("tqdm", "1"), ("torch", "2.13.0+cpu"))

    assert [caught.value.value.count(name) for name in ("torch-2.13.0", "tqdm-1")] == [1, 1]


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
