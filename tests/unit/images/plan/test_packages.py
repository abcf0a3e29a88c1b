"""Which requirements count in an image, whichever machine builds it."""

from __future__ import annotations

import pytest
from packaging import markers
from packaging.requirements import Requirement

from images.plan import packages
from images.platforms import ARM64

HOLDS = {
    "python_version": "3.12", "python_full_version": "3.12.0", "implementation_version": "3.12.0",
    "implementation_name": "cpython", "platform_python_implementation": "CPython", "os_name": "posix",
    "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "aarch64", "platform_release": "",
    "platform_version": "", "extra": "x",
}  # fmt: skip


@pytest.mark.parametrize("field", HOLDS)
def test_a_marker_is_read_for_the_image(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "default_environment", dict[str, str])  # nothing is taken from this machine
    same, other = (Requirement(f"a; {field} {sign} '{HOLDS[field]}'") for sign in ("==", "!="))

    assert packages.applies(same, "3.12", ARM64, "x") and not packages.applies(other, "3.12", ARM64, "x")


def test_what_cannot_be_decided_counts() -> None:
    assert packages.applies(Requirement("a; sys_platform ~= 'linux'"), "3.12", ARM64)
