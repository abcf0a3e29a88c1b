"""A machine that is not Debian's makes the same image: libraries in other places, no shell, no program but Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import locks
from tests.support.harness import IMAGES, ROOT, build, call, run
from tests.support.stores import SMALL, store_with

LOADER = "ld-linux-x86-64.so.2"
PACKAGES = sysconfig.get_path("purelib")
NOBODY = 65534


def linked(path: Path) -> set[Path]:
    """Return the libraries of this machine that a program or a library is linked with."""
    said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return {Path(library) for library in re.findall(r"(?:=> |^\s+)(/\S+) \(", said, re.MULTILINE)}


@pytest.fixture(scope="module")
def host(module_path: Path) -> Iterator[str]:
    """Make a root file system of libraries alone, all in /lib, and give it to the engine."""
    name, archive = f"{IMAGES}:host", module_path / "host.tar"
    shared = (Path(sys.base_prefix), Path(PACKAGES))
    programs = [Path(sys.executable), *(path for place in shared for path in place.rglob("*.so*") if path.is_file())]
    libraries = {path for program in programs for path in linked(program)}
    with tarfile.open(archive, "w") as tar:
        for path in sorted(libraries):
            if not any(path.is_relative_to(place) for place in shared):
                tar.add(path.resolve(), f"{'lib64' if path.name == LOADER else 'lib'}/{path.name}")
    assert call(["docker", "import", str(archive), name]).code == 0
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="another user takes root: run scripts/test as root")
def test_a_machine_with_nothing_but_python_makes_the_same_image(host: str, module_path: Path) -> None:
    """As nobody, without a network, on a disk that is read-only but for the store."""
    done = build("--json", *SMALL, "--output", str(module_path / "layout/"))
    store = module_path / "store"
    store.mkdir()
    shutil.copy(locks.path_beside(module_path / "layout"), store / "pylock.image.toml")
    store_with(store, "signed debs", owner=NOBODY)
    mounts = [f"--volume={place}:{place}:ro" for place in {sys.base_prefix, PACKAGES, str(ROOT)}]
    hardened = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", f"--user={NOBODY}:{NOBODY}"]
    environment = {"PYTHONPATH": PACKAGES, "PATH": "/nonexistent", "HOME": "/store", "XDG_CACHE_HOME": "/store"}
    variables = [f"--env={name}={value}" for name, value in environment.items()]

    command = [os.path.realpath(sys.executable), str(ROOT / "build.py"), "--json", "--no-load", "--offline"]
    command += ["--lock", "/store/pylock.image.toml"]
    there = run(host, *command, options=[*mounts, *hardened, *variables, f"--volume={store}:/store"], seconds=600)

    first, second = json.loads(done.out), json.loads(there.out)
    assert not any(layer["reused"] for layer in second["layers"])
    assert (first["id"], first["digest"]) == (second["id"], second["digest"])
