"""The Python of a base that others made runs in an engine, or not at all."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.golden import base, wheels
from tests.golden.building import PIP, PROGRAMS
from tests.golden.command import Said, directory, run
from tests.support import checkout
from tests.support.stand_in import Image, layout, write

PAIR = "--torch 2.13.0 --transformers 5.23.0 --examples none --tasks text-generation"
BUILD = f"--base oci:base --python 3.11 --no-load {PAIR}"
# What a stranger's Python would do.
THIEF = Image([{**base.SYSTEM, "usr/bin/python3.11": b"#!/bin/sh\necho stolen >~/.profile\n"}], "none")


@contextmanager
def machine(image: Image) -> Iterator[Path]:
    """Make a directory with a base, the wheels of the newest pair, and an empty PATH."""
    with directory({"programs/false": b"#!/bin/false\n"}) as place:
        write(place / "base", layout({"1": image}))
        (place / "linked").mkdir()
        wheels.of_the_newest(place / "linked")
        (place / "home").mkdir()
        yield place


def build(place: Path, typed: str) -> Said:
    """Run build.py where nothing but the programs of the machine are in PATH."""
    said = run(shlex.split(typed), {**PIP, "PATH": str(place / "programs"), "HOME": str(place / "home")})
    print(f"+ build.py {typed}\n{said.out}{said.err}[exit code {said.code}]")
    return said


def test_without_an_engine_nothing_runs_and_the_rest_goes_on() -> None:
    with machine(THIEF) as place:
        said = build(place, f"{BUILD} --bytecode")

        assert said.code == 1
        assert "nothing here may run the Python of the base" in said.err and "--no-bytecode" in said.err
        assert not (place / "cache/blobs").exists(), "it is said before anything is downloaded"
        assert build(place, f"{BUILD} --no-bytecode").code == 0
        assert [*(place / "home").iterdir()] == []


def test_verify_without_an_engine_refuses_what_others_made() -> None:
    """The image was made where the stand-in for podman is; then that is gone."""
    with machine(base.PLAIN) as place:
        podman = place / "programs/podman"
        podman.write_bytes(PROGRAMS["programs/podman"])
        podman.chmod(0o755)
        assert build(place, f"{BUILD} --bytecode --output layout/").code == 0
        assert build(place, "verify layout").code == 0
        podman.unlink()

        said = build(place, "verify layout")

        assert (said.code, "nothing here may run the Python of the base" in said.err) == (1, True)


def test_packages_that_debian_did_not_sign_are_verified_like_any_others(module_path: Path) -> None:
    """They come out of a bundle, and no mirror can be asked: nothing of them is run to make the base again."""
    sources = checkout.make(module_path)
    sources.lock(*checkout.REQUEST)
    assert sources.run("bundle", "--lock", "pylock.layout.toml", "--output", "bundle.tar").code == 0
    assert sources.run("bundle", "--offline", "bundle.tar", "--output", "again.tar", cache="another").code == 0
    shutil.rmtree(sources.place / "debian")

    done = sources.run("verify", "--json", "layout", cache="another")

    told = json.loads(done.out)
    assert (done.code, told["same"]) == (0, True)
