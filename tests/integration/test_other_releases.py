"""The same lock is the same image with every set of packages that pyproject.toml allows, and refused with others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from uv import find_uv_bin

from images import pip_config
from tests.support import checkout
from tests.support.checkout import REQUEST, Built, Checkout
from tests.support.harness import ROOT, assert_three_parts

# Two environments are made. The releases that show in the bytes are in the lock, and tests/unit compares them.
pytestmark = pytest.mark.slow

# How uv chooses releases: the oldest and the newest ones that pyproject.toml allows.
SETS = ("lowest-direct", "highest")
# Releases that pyproject.toml does not allow, of packages whose release shows in the bytes.
OTHERS = ("installer==0.7.0", "license-expression==30.4.0", "zstandard==0.23.0")


class Locked(NamedTuple):
    """Sources, the image that the oldest releases built of them, and its lock."""

    sources: Checkout
    image: Built
    lock: Path


def install(place: Path, target: Sequence[str], *options: str) -> None:
    """Install packages by uv from where pip would take them, with a cache of uv's in `place`."""
    uv, sources = find_uv_bin(), pip_config.read_sources(os.environ)
    environ = {**os.environ, "UV_CACHE_DIR": str(place / "uv"), "UV_PYTHON_DOWNLOADS": "never"}
    environ |= {"SSL_CERT_FILE": sources.certificate} if sources.certificate else {}
    places = [part for url in sources.extra for part in ("--extra-index-url", url)]
    places += [part for link in sources.links for part in ("--find-links", link)]
    places += ["--index-url", sources.index] if sources.index else []
    strategy = ["--index-strategy", "unsafe-best-match"]
    command = [uv, "pip", "install", "--quiet", *target, *strategy, *places, *options]
    subprocess.run(command, env=environ, check=True, timeout=300)


@pytest.fixture(scope="module")
def environments(module_path: Path) -> dict[str, Path]:
    """Make a virtual environment for each set; return the interpreters."""
    place = module_path / "environments"
    for name in SETS:
        python = place / name / "bin/python"
        subprocess.run([find_uv_bin(), "venv", "--quiet", "--python", sys.executable, place / name], check=True)
        install(place, ["--python", str(python)], "--resolution", name, "--requirements", f"{ROOT}/pyproject.toml")
    return {name: place / name / "bin/python" for name in SETS}


@pytest.fixture(scope="module")
def locked(environments: dict[str, Path], module_path: Path) -> Locked:
    sources = checkout.make(module_path)
    return Locked(sources, *sources.lock(*REQUEST, python=environments["lowest-direct"]))


def test_the_newest_releases_build_the_image_that_the_oldest_built(
    locked: Locked, environments: dict[str, Path]
) -> None:
    newest = locked.sources.build("--lock", str(locked.lock), python=environments["highest"], cache="newest")

    assert newest.reused == []
    assert newest.digest == locked.image.digest


def test_other_releases_are_refused_by_name(locked: Locked, tmp_path: Path) -> None:
    install(tmp_path, ["--python", sys.executable, "--target", str(tmp_path / "other")], "--no-deps", *OTHERS)

    done = locked.sources.run("--no-load", "--lock", str(locked.lock), PYTHONPATH=str(tmp_path / "other"))

    assert_three_parts(done, 2, "does not fit", "pip install")
    for package in OTHERS:
        name, _, version = package.partition("==")
        assert f"{name} {version} here, " in done.err
    assert "libzstd" in done.err
