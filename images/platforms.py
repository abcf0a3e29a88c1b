"""What images are made for: the kinds of processors, by all the names that others have for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Platform:
    """An operating system and a kind of processor, by all the names that others have for it.

    `architecture` is Go's and Debian's word, `machine` that of the kernel and of wheels; `spellings` are those that
    engines take for it. `loader` is where programs look for theirs. `elf` is its number in ELF (e_machine),
    `cache_flags` are its libraries' in ld.so.cache.
    `legacy` maps minor releases of glibc to tags of wheels that say the same as manylinux_2_N, the oldest of which is
    `oldest_glibc`.
    """

    os: str = "linux"
    architecture: str
    machine: str
    spellings: tuple[str, ...]
    multiarch: str
    loader: str
    elf: int
    cache_flags: int
    legacy: Mapping[int, str] = field(hash=False)
    oldest_glibc: int

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the directories that shared libraries are in, relative to the root."""
        multiarch = self.multiarch
        return ("lib", "lib64", "usr/lib", "usr/lib64", f"lib/{multiarch}", f"usr/lib/{multiarch}", "usr/local/lib")

    def runs_on(self, system: str, machine: str) -> bool:
        """Return whether a machine, as uname(1) describes it, can start programs that are made for this."""
        return (system.lower(), machine) == (self.os, self.machine)


PLATFORMS = (
    Platform(
        architecture="amd64", machine="x86_64", spellings=("amd64", "x86_64", "x86-64"), multiarch="x86_64-linux-gnu",
        loader="lib64/ld-linux-x86-64.so.2", elf=62, cache_flags=0x0303,
        legacy={17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}, oldest_glibc=5,
    ),
    Platform(
        architecture="arm64", machine="aarch64", spellings=("arm64", "aarch64"), multiarch="aarch64-linux-gnu",
        loader="lib/ld-linux-aarch64.so.1", elf=183, cache_flags=0x0A03,
        legacy={17: "manylinux2014"}, oldest_glibc=17,
    ),
)  # fmt: skip
AMD64, ARM64 = PLATFORMS
TWIN = AMD64  # bytecode of any platform is made on it, too: docs/architecture.md


def platform_of(name: str) -> Platform | None:
    """Return the platform that somebody has this name for: linux/arm64, or one of its architecture alone."""
    return next((platform for platform in PLATFORMS if name in (str(platform), *platform.spellings)), None)
