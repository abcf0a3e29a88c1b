"""Programs that a base brought see neither the home directory nor the network, or do not run at all."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from images.host import process
from images.layers import sandbox
from images.platforms import AMD64
from tests.golden import base, wheels
from tests.golden.building import PIP, PROGRAMS
from tests.golden.command import Said, directory, run
from tests.support import checkout
from tests.support.stand_in import Image, layout, write

needs_bubblewrap = pytest.mark.skipif(
    bool(sandbox.find(os.environ, AMD64).refusal), reason=f"no sandbox: {sandbox.find(os.environ, AMD64).refusal}"
)
PAIR = "--torch 2.13.0 --transformers 5.23.0 --examples none --tasks text-generation"
BUILD = f"--base oci:base --python 3.11 --no-load {PAIR}"
# What a stranger's loader would do.
THIEF = """\
#!/bin/sh
echo stolen >{home}/.profile
echo stolen >~/.bash_login
(echo GET / >/dev/tcp/127.0.0.1/{port}) 2>/dev/null
exit 0
"""


@contextmanager
def machine(image: Image, *programs: str) -> Iterator[Path]:
    """Make a directory with a base, the wheels of the newest pair, and a PATH of a few programs."""
    with directory({"programs/false": b"#!/bin/false\n"}) as place:
        write(place / "base", layout({"1": image}))
        (place / "linked").mkdir()
        wheels.of_the_newest(place / "linked")
        (place / "home").mkdir()
        for name in programs:
            (place / "programs" / name).symlink_to(str(shutil.which(name)))
        yield place


def build(place: Path, typed: str) -> Said:
    """Run build.py where nothing but the programs of the machine are in PATH."""
    said = run(shlex.split(typed), {**PIP, "PATH": str(place / "programs"), "HOME": str(place / "home")})
    print(f"+ build.py {typed}\n{said.out}{said.err}[exit code {said.code}]")
    return said


def thief(place: Path, port: int = 9) -> Image:
    """Return a base whose loader writes into the home directory and calls home."""
    return Image([{**base.SYSTEM, base.LOADER: THIEF.format(home=place, port=port).encode()}], "none")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@needs_bubblewrap
def test_a_loader_that_steals_finds_nothing(home: Path) -> None:
    with machine(thief(home), "bwrap") as place:
        said = build(place, f"{BUILD} --bytecode")

        assert said.code == 1
        assert "error: the Python of the base cannot compile" in said.err and "--no-bytecode" in said.err
        assert [*home.iterdir(), *(place / "home").iterdir()] == []


def test_without_a_sandbox_nothing_runs(home: Path) -> None:
    with machine(thief(home)) as place:
        said = build(place, f"{BUILD} --bytecode")

        assert said.code == 1
        assert "nothing here may run the Python of the base" in said.err and "no bwrap in PATH" in said.err
        assert "sudo apt-get install bubblewrap" in said.err and "--no-bytecode" in said.err
        assert not (place / "cache/blobs").exists(), "it is said before anything is downloaded"
        assert [*home.iterdir(), *(place / "home").iterdir()] == []


def test_without_a_sandbox_a_build_without_bytecode_ends_well(home: Path) -> None:
    with machine(thief(home)) as place:
        said = build(place, f"{BUILD} --no-bytecode")

        assert said.code == 0
        assert [*home.iterdir(), *(place / "home").iterdir()] == []


def test_verify_without_a_sandbox_refuses_what_others_made() -> None:
    """The image was made where the stand-in for bubblewrap is; then that is gone."""
    with machine(base.COMPILING) as place:
        bwrap = place / "programs/bwrap"
        bwrap.write_bytes(PROGRAMS["programs/bwrap"])
        bwrap.chmod(0o755)
        assert build(place, f"{BUILD} --bytecode --output layout/").code == 0
        assert build(place, "verify layout").code == 0
        bwrap.unlink()

        said = build(place, "verify layout")

        assert (
            said.code,
            "nothing here may run the Python of the base" in said.err,
            "no bwrap in PATH" in said.err,
        ) == (1, True, True)
        assert "sudo apt-get install bubblewrap" in said.err


def test_packages_that_debian_did_not_sign_are_verified_like_any_others(module_path: Path) -> None:
    """They come out of a bundle, and no mirror can be asked: nothing of them is run to make the base again."""
    sources = checkout.make(module_path)
    sources.lock(*checkout.REQUEST)
    assert sources.run("bundle", "--lock", "pylock.layout.toml", "--output", "bundle").code == 0
    assert sources.run("bundle", "--offline", "bundle", "--output", "again", cache="another").code == 0
    shutil.rmtree(sources.place / "debian")

    done = sources.run("verify", "--json", "layout", cache="another")

    told = json.loads(done.out)
    assert (done.code, told["same"]) == (0, True)


def boxed(command: Sequence[str], reads: Sequence[Path]) -> process.Result:
    """Run a command in a sandbox."""
    with sandbox.around(sandbox.find(os.environ, AMD64).program, command, reads, AMD64) as line:
        return process.run(line, {}, "")


SPY = """id -u; id -g; echo "$HOME"; ls -A "$HOME"; ls -A /
grep CapEff /proc/self/status || echo no proc
cat "$1" || echo unseen
echo stolen >"$2" || echo refused
(echo GET / >/dev/tcp/127.0.0.1/"$3") || echo offline
"""


@needs_bubblewrap
def test_a_program_sees_what_it_is_given(home: Path) -> None:
    """A real shell, a file in the home directory, and somebody who listens."""
    given = home / "given"
    for path in (given, home / "secret"):
        path.write_text("as it was")
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = [str(home / "secret"), str(given), str(server.getsockname()[1])]
        reads = [path for path in map(Path, ("/usr", "/bin", "/lib", "/lib64")) if path.exists()]
        done = boxed(["/bin/bash", "-c", SPY, "spy", *arguments], [*reads, given])
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()

    top = sorted({"home", "tmp", *(path.name for path in reads), home.parts[1]})
    lines = ["65534", "65534", sandbox.HOME, *top, "no proc", "unseen", "refused", "offline"]
    assert done.out.splitlines() == lines
    assert [path.read_text() for path in (given, home / "secret")] == ["as it was", "as it was"]


SEARCH = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(250, 10, -3, b"user", b"none", 0), ctypes.get_errno())
"""


@needs_bubblewrap
def test_the_keys_of_the_session_are_out_of_reach() -> None:
    reads = [Path(place) for place in ("/usr", "/lib", "/lib64", "/bin", sys.prefix, sys.base_prefix)]
    there = [place for place in dict.fromkeys(reads) if place.exists()]

    said = boxed([sys.executable, "-I", "-c", SEARCH], there)

    assert (said.out.strip(), said.err) == (f"-1 {errno.ENOSYS}", "")
