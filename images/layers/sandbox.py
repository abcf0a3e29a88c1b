"""Run a program that somebody else brought, by bubblewrap: it sees its own files, and no network."""

from __future__ import annotations

import functools
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from images.host import process
from images.platforms import Platform

PROGRAM = "bwrap"
HOME = "/home/nobody"
# Namespaces of its own for everything, and empty directories in memory (bwrap(1)). For the kernel, nobody inside is who
# started it outside. So /proc and the devices are not there: some are files that root may write to, or may chmod(2).
ISOLATED = (
    "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL",
    "--new-session", "--die-with-parent", "--chdir", "/", "--dir", HOME, "--setenv", "HOME", HOME, "--dir", "/tmp",
)  # fmt: skip
# The keys of the user's session (keyrings(7)) are in no namespace: a filter answers ENOSYS to what leads to them. A row
# is an instruction of seccomp(2): code, jumps where true and false, operand. Other architectures and x32 are killed.
BITS_64_LITTLE_ENDIAN = 0xC0000000  # include/uapi/linux/audit.h in Linux
OPENED = ("/bin/sh", "-c", 'exec 9<"$0"; exec "$@"')  # starts bubblewrap with the filter open
INSTALL = "sudo apt-get install bubblewrap (on Debian or Ubuntu)"
ALLOW = "allow user namespaces here (docs/build.md, What the machine needs)"


class Sandbox(NamedTuple):
    """bubblewrap on this machine: where it is, or in `refusal` why it cannot be used, and in `remedy` what helps."""

    program: str
    refusal: str | None = None
    remedy: str = ""


def find(environ: Mapping[str, str], platform: Platform) -> Sandbox:
    """Return bubblewrap of this machine, after one try: kernels and containers may refuse the namespaces."""
    program = shutil.which(PROGRAM, path=environ.get("PATH"))
    return Sandbox("", f"no {PROGRAM} in PATH", INSTALL) if program is None else _tried(program, platform)


@functools.cache
def _tried(program: str, platform: Platform) -> Sandbox:
    with around(program, ["/bin/true"], [Path("/")], platform) as line:
        return Sandbox(program, process.run(line, {}, INSTALL).failure, ALLOW)


def filter_of(platform: Platform) -> bytes:
    """Return the filter for a kernel of a platform."""
    first, last = platform.key_calls
    rows = (
        (0x20, 0, 0, 4), (0x15, 0, 6, platform.elf | BITS_64_LITTLE_ENDIAN), (0x20, 0, 0, 0),
        (0x35, 4, 0, 0x40000000), (0x25, 2, 0, last), (0x35, 0, 1, first),
        (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x80000000),
    )  # fmt: skip
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


@contextmanager
def around(program: str, command: Sequence[str], reads: Sequence[Path], platform: Platform) -> Iterator[list[str]]:
    """Yield the line that runs a command as nobody, without network or capabilities, with an empty home.

    `program` is bubblewrap, `platform` that of this machine. The command `reads` these files, and sees no others.
    """
    binds = [word for path in reads for word in ("--ro-bind", str(path), str(path))]
    with tempfile.NamedTemporaryFile() as file:
        file.write(filter_of(platform))
        file.flush()
        yield [*OPENED, file.name, program, *ISOLATED, "--seccomp", "9", *binds, "--", *command]
