"""What a wheelhouse has of a package."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import UserFault
from images.lock import wheelhouse
from images.platforms import AMD64


def wheel(directory: Path, name: str) -> Path:
    """Write what is called a wheel; nothing of it is read."""
    path = directory / f"{name}.whl"
    path.write_bytes(name.encode())
    return path


def refuse(directory: Path, *pins: tuple[str, str]) -> None:
    wheelhouse.refuse_unfit(directory, pins, "3.11", "2.36", AMD64)


@pytest.mark.parametrize(
    ("names", "fits"),
    [
        ((), True),
        (("six-1.17.0-py3-none-any", "six-1.16.0-py3-none-any"), True),
        (("six-1.17.0-cp310-cp310-linux_x86_64", "six-1.17.0-cp311-cp311-linux_x86_64"), True),
        (("six-1.16.0-cp310-cp310-linux_x86_64",), True),
        (("six-1.17.0+cpu-py3-none-any", "six-1.17.0-1-py3-none-any"), True),
        (("six-1.17.0-cp310-cp310-linux_x86_64",), False),
        *(((f"six-1.17.0-cp311-cp311-manylinux{old}_x86_64",), True) for old in ("_2_5", "1", "2010", "2014")),
        (("six-1.17.0-cp311-cp311-manylinux_2_39_x86_64",), False),
        (("six-1.17.0-cp311-cp311-manylinux_2_4_x86_64",), False),
        (("six-1.17.0+cpu-cp311-cp311-win_amd64", "six-1.17.0-cp310-cp310-linux_x86_64"), False),
    ],
)
def test_a_package_that_is_there_for_others_only_is_refused(tmp_path: Path, names: Sequence[str], fits: bool) -> None:
    for name in names:
        wheel(tmp_path, name)
    (tmp_path / "not-a-name.whl").write_bytes(b"")

    if fits:
        refuse(tmp_path, ("Six", "1.17.0"), ("six", "no-version"))
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

    assert caught.value.value == (
        "torch-2.13.0+cpu-cp310-cp310-linux_x86_64.whl, tqdm-1-cp310-cp310-linux_x86_64.whl "
        "(the image: Python 3.11, glibc 2.36, x86_64)"
    )


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
    assert wheelhouse.is_file_of(directory, url) is holds


TORCH = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64", f"mv '{{0}}' {{1}}/{TORCH}.whl"),
        (f"{TORCH} (1)", f"mv '{{0}}' {{1}}/{TORCH}.whl"),
        (f"{TORCH}(2)", f"mv '{{0}}' {{1}}/{TORCH}.whl"),
        ("torch-2.13.0%2bcpu-cp311-cp311-manylinux_2_28_x86_64 (12)", f"mv '{{0}}' {{1}}/{TORCH}.whl"),
        ("torch", "the name that its index has for it; or move it out of the directory: mv {0} ..."),
        ("six-1.17.0-py3-none-any (1)", "rm '{0}': six-1.17.0-py3-none-any.whl is there, too"),
    ],
)
def test_a_wheel_that_would_be_passed_over_for_its_name_is_refused(tmp_path: Path, name: str, remedy: str) -> None:
    wheel(tmp_path, "six-1.17.0-py3-none-any")
    path = wheel(tmp_path, name)
    wheel(tmp_path, "z")

    with pytest.raises(UserFault, match="not the name of a wheel") as caught:
        wheelhouse.require_directory(str(tmp_path))

    assert caught.value.value == f"{path.name}, z.whl (in {tmp_path})"
    expected = remedy.format(path, tmp_path)
    assert caught.value.remedy.replace("'", "") == expected.replace("'", "")


@given(
    project=st.from_regex(r"[a-z](_?[a-z0-9]){0,5}", fullmatch=True),  # no installer reads two underscores in a row
    local=st.from_regex(r"(\+[a-z0-9]{1,5}(\.[a-z0-9]{1,5})?)?", fullmatch=True),
    encoded=st.booleans(),
    copy=st.sampled_from(["", " (1)", "(3)", " (27)"]),
)
def test_the_name_that_is_proposed_is_that_of_the_wheel(project: str, local: str, encoded: bool, copy: str) -> None:
    good = f"{project}-1.0{local}-py3-none-any"
    odd = f"{good.replace('+', '%2B') if encoded else good}{copy}"
    with tempfile.TemporaryDirectory() as place:
        wheel(Path(place), odd)
        if odd == good:
            assert wheelhouse.require_directory(place) == Path(place)
            return
        with pytest.raises(UserFault) as caught:
            wheelhouse.require_directory(place)
        _, old, new = shlex.split(caught.value.remedy)
        Path(old).rename(new)

        assert [path.name for path in wheelhouse.require_directory(place).iterdir()] == [f"{good}.whl"]
