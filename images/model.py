"""The nouns of a build, each defined once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Platform:
    """An operating system and a kind of processor, by all the names that others have for it.

    `architecture` is Go's and Debian's word, `machine` that of the kernel and of wheels; `spellings` are those that
    engines take for it. `elf` is its number in ELF (e_machine), `cache_flags` are its libraries' in ld.so.cache.
    `legacy` maps minor releases of glibc to tags of wheels that say the same as manylinux_2_N, the oldest of which is
    `oldest_glibc`.
    """

    os: str = "linux"
    architecture: str
    machine: str
    spellings: tuple[str, ...]
    multiarch: str
    loader: str
    musl_loader: str
    elf: int
    cache_flags: int
    legacy: Mapping[int, str]
    oldest_glibc: int

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


PLATFORMS = (
    Platform(
        architecture="amd64", machine="x86_64", spellings=("amd64", "x86_64", "x86-64"), multiarch="x86_64-linux-gnu",
        loader="ld-linux-x86-64.so.2", musl_loader="ld-musl-x86_64.so.1", elf=62, cache_flags=0x0303,
        legacy={17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}, oldest_glibc=5,
    ),
    Platform(
        architecture="arm64", machine="aarch64", spellings=("arm64", "aarch64"), multiarch="aarch64-linux-gnu",
        loader="ld-linux-aarch64.so.1", musl_loader="ld-musl-aarch64.so.1", elf=183, cache_flags=0x0A03,
        legacy={17: "manylinux2014"}, oldest_glibc=17,
    ),
)  # fmt: skip
PLATFORM = PLATFORMS[0]  # what images are made for
