"""Run programs that somebody else brought, by bubblewrap: they see what they are given, and no network."""

from __future__ import annotations

import functools
import secrets
import shutil
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from images.host import process
from images.host.errors import WorldFault

PROGRAM = "bwrap"
HOME = "/home/nobody"
# Namespaces of its own for everything, and empty directories in memory (bwrap(1)). For the kernel, nobody inside is who
# started it outside. So /proc and the devices are not there: some are files that root may write to, or may chmod(2).
ISOLATED = (
    "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL",
    "--new-session", "--die-with-parent", "--chdir", "/", "--dir", HOME, "--dir", "/tmp", "--dir", "/dev/shm",
)  # fmt: skip
# The keys of the user's session (keyrings(7)) are in no namespace: a filter answers ENOSYS to what leads to them. A row
# is an instruction of seccomp(2): code, jumps where true and false, operand. Other architectures and x32 are killed.
KEYS = (248, 249, 250)  # add_key, request_key, keyctl: arch/x86/entry/syscalls/syscall_64.tbl in Linux
FILTER = b"".join(struct.pack("=HBBI", *row) for row in (
    (0x20, 0, 0, 4), (0x15, 0, 6, 0xC000003E), (0x20, 0, 0, 0), (0x35, 4, 0, 0x40000000), (0x25, 2, 0, KEYS[-1]),
    (0x35, 0, 1, KEYS[0]), (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x80000000),
))  # fmt: skip
OPENED = ("/bin/sh", "-c", 'exec 9<"$0"; exec "$@"')  # starts bubblewrap with the filter open
ENOUGH = 1 << 16  # bytes of /dev/urandom, which torch opens; for keys the kernel is asked, getrandom(2)
INSTALL = "sudo apt-get install bubblewrap (on Debian or Ubuntu)"
ALLOW = "allow user namespaces here (docs/build.md, What the machine needs)"


@dataclass(frozen=True)
class Given:
    """What a program is given: its environment, and what it may read or write, each at its own path."""

    environment: Mapping[str, str]
    reads: Sequence[Path]
    writes: Sequence[Path] = ()


@dataclass(frozen=True)
class Sandbox:
    """bubblewrap on this machine: where it is, or in `refusal` why it cannot be used."""

    program: str
    refusal: str | None = None

    @property
    def remedy(self) -> str:
        """Return what makes it usable."""
        return ALLOW if self.program else INSTALL

    def run(self, command: Sequence[str], given: Given, remedy: str) -> process.Result:
        """Run a command to its end as nobody, without network or capabilities, with an empty home and what is `given`.

        Raises WorldFault when there is no sandbox: nothing is ever run without.
        """
        if self.refusal:
            raise WorldFault("there is no sandbox to run the programs of a base image in", self.refusal, self.remedy)
        with tempfile.TemporaryDirectory() as place:  # its maker's alone: what is inside may be made setuid
            Path(place, "null").touch()
            Path(place, "random").write_bytes(secrets.token_bytes(ENOUGH))
            Path(place, "filter").write_bytes(FILTER)
            line = [*OPENED, f"{place}/filter", *wrapped(self.program, command, given, Path(place))]
            return process.run(line, {}, remedy)


def wrapped(program: str, command: Sequence[str], given: Given, devices: Path) -> list[str]:
    """Return the command line that runs `command` in a sandbox; `devices` has the files that stand for devices."""
    environment = {"HOME": HOME, **given.environment}
    variables = [word for name, value in environment.items() for word in ("--setenv", name, value)]
    reads = [word for path in given.reads for word in ("--ro-bind", str(path), str(path))]
    writes = [word for path in given.writes for word in ("--bind", str(path), str(path))]
    stand_ins = ["--bind", f"{devices}/null", "/dev/null", "--ro-bind", f"{devices}/random", "/dev/urandom"]
    return [program, *ISOLATED, "--seccomp", "9", *stand_ins, *variables, *reads, *writes, "--", *command]


def find(environ: Mapping[str, str]) -> Sandbox:
    """Return bubblewrap, after one try: kernels and containers may refuse the namespaces."""
    program = shutil.which(PROGRAM, path=environ.get("PATH"))
    return Sandbox("", f"no {PROGRAM} in PATH") if program is None else _tried(program)


@functools.cache
def _tried(program: str) -> Sandbox:
    failure = Sandbox(program).run(["/bin/true"], Given({}, [Path("/")]), INSTALL).failure
    return Sandbox(program, failure)
