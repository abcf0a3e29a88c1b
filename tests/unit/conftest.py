"""Unit tests read nothing of this machine: what starts a process, reaches an address or asks the kernel fails here."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNEL = ("/proc/", "/sys/")


def is_always(args: tuple[object, ...]) -> bool:
    return True


def is_address(args: tuple[object, ...]) -> bool:
    return isinstance(args[1], tuple)


def is_of_kernel(args: tuple[object, ...]) -> bool:
    return isinstance(args[0], str) and args[0].startswith(KERNEL)


# What Python tells of what it is about to do, and whether it depends on this machine.
FORBIDDEN = {
    **dict.fromkeys(("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"), is_always),
    **dict.fromkeys(("socket.bind", "socket.connect"), is_address),
    **dict.fromkeys(("open", "os.listdir", "os.scandir"), is_of_kernel),
}
# Whether a test of this directory runs: others of the same process may do as they like, and a hook stays.
running = [False]


def forbid(event: str, args: tuple[object, ...]) -> None:
    """Raise where a test does what depends on this machine; a socket with a name of its own process is none of that."""
    if not running[0] or event not in FORBIDDEN or not FORBIDDEN[event](args):
        return
    running[0] = False  # what reports this may do the same
    raise AssertionError(f"{event} {args!r}: a test that needs it belongs to tests/integration")


sys.addaudithook(forbid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Know when a test of this directory runs, with its fixtures."""
    running[0] = HERE in item.path.parents
    try:
        return (yield)
    finally:
        running[0] = False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Look no more: with the last test of a process, what others have made in an engine is removed."""
    running[0] = False
