"""A lock is everybody's: other installers take the same files from it, by their addresses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from images.host.errors import WorldFault
from images.lock import collect, lockfile, resolve
from images.lock.lock import Lock
from images.servers.pip_config import Sources, directories, read_sources
from images.store.store import Store
from tests.integration.test_index_pages import PLAN, public
from tests.support import locks
from tests.support.harness import ROOT, build, call

UV = Path(sys.executable).with_name("uv")
PIP = (26, 1)  # the first pip that reads a pylock.toml


@pytest.mark.parametrize("login", ["", "me:secret@"])
def test_uv_installs_what_a_lock_names(store: Store, tmp_path: Path, login: str) -> None:
    with public(tmp_path / "wheels") as index:
        address = index.replace("//", f"//{login}")
        resolved = resolve.resolve_packages(PLAN, locks.context(store, Sources(index=address), os.environ))
        lock = locks.lock(resolved.artifacts, indexes=resolved.indexes)
        text = lockfile.format_lock(lock, with_origin=True)
        (tmp_path / "pylock.toml").write_text(text)
        command = [str(UV), "pip", "sync", "--python-version", "3.11", "--target", str(tmp_path / "there")]
        done = call([*command, "--no-config", "--no-cache", str(tmp_path / "pylock.toml")])

    assert done.code == 0 and "secret" not in text
    assert (tmp_path / "there/six.py").read_text() == "public"
    assert lockfile.parse_lock(text, "x").indexes == (index,)


def test_the_lock_of_a_mirror_works_elsewhere(store: Store, tmp_path: Path) -> None:
    context = locks.context(store, None, os.environ)
    with public(tmp_path / "wheels") as mirror:
        there = replace(context, pip=Sources(index=mirror))
        resolved = resolve.resolve_packages(PLAN, there)
    lock = locks.lock(resolved.artifacts, debs=(), indexes=resolved.indexes)
    read = lockfile.parse_lock(lockfile.format_lock(lock, with_origin=True), "x")
    with public(tmp_path / "wheels") as other:
        here = replace(context, pip=Sources(index=other), store=Store(tmp_path / "other"))
        wheels = collect.collect_packages(read, here)

    assert [wheel.project for wheel in wheels] == [file.name for file in resolved.artifacts]
    nowhere = replace(context, pip=Sources(no_index=True), store=Store(tmp_path / "nowhere"))
    with pytest.raises(WorldFault, match=f"files of the lock are missing: .*the lock was made with {mirror}"):
        collect.collect_packages(read, nowhere)


INSTALLERS = {
    "uv": "uv venv --seed .venv && VIRTUAL_ENV=.venv uv pip sync pylock.toml",
    "pip": f"{sys.executable} -m venv .venv && .venv/bin/pip install --upgrade 'pip>={'.'.join(map(str, PIP))}'"
    " && .venv/bin/pip install -r pylock.toml",
}


def link_local(lock: Lock, place: Path) -> None:
    """Put what came from a directory of this machine beside a lock, as the page says."""
    for artifact in lock.artifacts:
        for directory in directories(read_sources(os.environ).links) if not artifact.url else ():
            if (directory / artifact.filename).is_file():
                (place / "wheels").mkdir(exist_ok=True)
                (place / "wheels" / artifact.filename).symlink_to(directory / artifact.filename)


@pytest.mark.slow  # downloads and installs all packages of an image
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the image of the default lock has Python 3.11")
@pytest.mark.parametrize("installer", INSTALLERS)
def test_an_environment_of_an_editor_has_the_versions_of_the_image(tmp_path: Path, installer: str) -> None:
    done = build("lock", "--examples", "none", "--output", str(tmp_path / "pylock.toml"))
    assert done.code == 0
    lock = locks.read(tmp_path / "pylock.toml")
    link_local(lock, tmp_path)
    environ = {**os.environ, "PATH": f"{UV.parent}{os.pathsep}{os.environ['PATH']}"}
    environ.pop("PIP_CONSTRAINT", None)
    script = f"{INSTALLERS[installer]} && .venv/bin/python -c 'import torch, transformers; print(torch.__version__)'"
    installed = subprocess.run(
        ["bash", "-ec", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    shutil.rmtree(tmp_path / ".venv", ignore_errors=True)

    assert installed.returncode == 0, installed.stderr
    assert installed.stdout.splitlines()[-1] == lock.version("torch")


def test_the_page_says_what_is_typed() -> None:
    page = (ROOT / "docs/build.md").read_text()

    assert "uv pip sync pylock.toml" in page and "pip install -r pylock.toml" in page
    assert f"pip {'.'.join(map(str, PIP))}" in page
