"""What a machine, as uname(1) describes it, is."""

from __future__ import annotations

import pytest

from images.platforms import AMD64, ARM64, PLATFORMS, platform_of


@pytest.mark.parametrize(
    ("system", "machine", "runs"),
    [("Linux", "x86_64", [AMD64]), ("linux", "aarch64", [ARM64]), ("Darwin", "x86_64", []), ("Linux", "riscv64", [])],
)
def test_a_machine_starts_programs_of_its_system_and_kind(system: str, machine: str, runs: list[object]) -> None:
    assert [one for one in PLATFORMS if one.runs_on(system, machine)] == runs


@pytest.mark.parametrize(("name", "platform"), [("linux/arm64", ARM64), ("aarch64", ARM64), ("x86-64", AMD64),
                                                ("x86_64", AMD64), ("amd64", AMD64), ("arm", None)])  # fmt: skip
def test_a_platform_has_several_names(name: str, platform: object) -> None:
    assert platform_of(name) == platform
