"""Which Python a typed torchrun runs its ranks by: the image's, in whose place a rank takes its cores, or another."""

from __future__ import annotations

from pathlib import Path

import pytest

from multinode_image.hooks.ends.ranks import identify_python


@pytest.mark.parametrize(
    ("path", "is_same"),
    [
        ("usr/bin/python3", True),
        ("usr/bin/python3.11", True),
        ("usr/local/bin/python3", True),  # a link, as some bases have
        ("venv/bin/python3", False),  # has packages of its own
        ("usr/../venv/bin/python3", False),
        ("beside/python3", False),
        ("other/bin/python3", False),
    ],
)
def test_a_virtual_environment_is_another_python(path: str, is_same: bool, tmp_path: Path) -> None:
    for place in ("usr/bin", "usr/local/bin", "venv/bin", "beside", "other/bin"):
        (tmp_path / place).mkdir(parents=True)
    python = tmp_path / "usr/bin/python3.11"
    for file in (python, tmp_path / "other/bin/python3"):
        file.touch()
    for place in ("usr/bin", "usr/local/bin", "venv/bin", "beside"):
        (tmp_path / place / "python3").symlink_to(python)
    for mark in ("venv/pyvenv.cfg", "beside/pyvenv.cfg"):
        (tmp_path / mark).touch()

    assert (identify_python(f"{tmp_path}/{path}") == identify_python(f"{tmp_path}/usr/bin/python3")) is is_same
