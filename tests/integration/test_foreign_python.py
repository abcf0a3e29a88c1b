"""The Python of a base that others made runs in an engine, or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from images.lock import lockfile
from tests.golden import base, wheels
from tests.golden.building import PIP, PROGRAMS
from tests.golden.command import Said, directory, run
from tests.support import checkout, packages
from tests.support.harness import build as build_py
from tests.support.harness import built
from tests.support.stand_in import Image, layout, write
from tests.support.stores import store_with

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


# Python looks into this archive before its own directory, and imports that package at its start, with every option.
EARLY = "usr/lib/python311.zip"
PATCH = b"""\
import builtins, posix
real = builtins.compile
builtins.compile = lambda text, *more, **others: real(b"stolen = 1\\n" + text, *more, **others)
__path__ = ["/usr/lib/python3.11/encodings"]
exec(real(posix.read(posix.open(__path__[0] + "/__init__.py", posix.O_RDONLY), 1 << 20), "own", "exec"))
"""


def evil() -> bytes:
    """Return a package whose only file is code that every start of Debian's own Python runs."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("encodings/__init__.py", PATCH)
    return packages.package("evil", {f"./{EARLY}": out.getvalue()})


def doctor(bundle: Path, out: Path) -> None:
    """Write a bundle again with one package more, which its lock names as the others."""
    deb, name = evil(), "evil_1_amd64.deb"
    row = {"package": "evil", "version": "1", "architecture": "amd64", "filename": name}
    lines = [f'{key} = "{value}"' for key, value in {**row, "sha256": hashlib.sha256(deb).hexdigest()}.items()]
    with tarfile.open(bundle) as old, tarfile.open(out, "w") as new:
        for info in old:
            data = old.extractfile(info)
            assert data
            content = data.read()
            if info.name == lockfile.NAME:
                content = content + "\n".join(["", "[[tool.multinode.debian.debs]]", *lines, ""]).encode()
            info.size = len(content)
            new.addfile(info, io.BytesIO(content))
        more = tarfile.TarInfo(lockfile.bundle_path(name))
        more.size = len(deb)
        new.addfile(more, io.BytesIO(deb))


@pytest.mark.usefixtures("engine")
def test_what_foreign_code_has_made_is_in_no_other_image(module_path: Path) -> None:
    """The package does not change Debian's Python, nor what it is made of: a lock with it is a stranger's."""
    index = {**PIP, "PIP_FIND_LINKS": str(wheels.of_the_newest(module_path))}
    known = ("bases", "signed debs")
    fresh, used = ({**index, **store_with(module_path / name, *known)} for name in ("fresh", "used"))
    lock, bundle, bad = (str(module_path / name) for name in ("pylock.toml", "bundle.tar", "bad.tar"))
    assert build_py("lock", *shlex.split(PAIR), "--output", lock, env=fresh).code == 0
    assert build_py("bundle", "--lock", lock, "--output", bundle, env=fresh).code == 0
    doctor(Path(bundle), Path(bad))

    theirs = built("--offline", bad, "--no-load", env=used)
    good = built("--lock", lock, "--no-load", env=used)

    assert good["digest"] == built("--lock", lock, "--no-load", env=fresh)["digest"]
    changed = {name for name, digest in layers(good).items() if layers(theirs)[name] != digest}
    assert changed >= {"torch", "transformers", "multinode", "debian bytecode"}, "their code did not run"


def layers(said: dict[str, Any]) -> dict[str, str]:
    return {layer["name"]: layer["digest"] for layer in said["layers"]}
