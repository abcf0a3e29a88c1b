"""What makes the same image again, and what does not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

from images.compiling import bytecode
from tests.support import checkout
from tests.support.checkout import REQUEST, Built, Checkout
from tests.support.harness import ROOT, built
from tests.support.stores import SMALL, store_with


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="another user takes root: run scripts/test as root")
def test_another_user_makes_the_same_layers(module_path: Path) -> None:
    """As nobody, one layer after the other, elsewhere, with another umask, time zone and patch release of Python."""
    first = built(*SMALL)
    home = module_path / "home"
    home.mkdir()
    home.chmod(0o777)
    store = store_with(module_path / "store", "choices", owner=65534)
    env = {**os.environ, **store, "TZ": "Asia/Tokyo", "HOME": str(home)}

    second = json.loads(_as_nobody([*SMALL, "--json", "--jobs", "1"], home, env))

    assert not any(layer["reused"] for layer in second["layers"])
    assert [layer["digest"] for layer in first["layers"]] == [layer["digest"] for layer in second["layers"]]
    assert (first["id"], first["digest"]) == (second["id"], second["digest"])


def _as_nobody(options: list[str], cwd: Path, env: dict[str, str]) -> str:
    """Run build.py as another user, with Debian's Python, which everybody may start, and our packages."""
    packages = sysconfig.get_path("purelib")
    command = ["/usr/bin/python3", str(ROOT / "build.py"), *options]
    done = subprocess.run(
        command, cwd=cwd, env={**env, "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}, umask=0o077,
        capture_output=True, text=True, timeout=600, check=False, user=65534, group=65534, extra_groups=[],
    )  # fmt: skip
    print(done.stderr)
    assert done.returncode == 0
    return str(done.stdout)


LAYER = "images/oci/layer_writer.py"
# What is changed: the source, a text in it, and what stands there instead.
CHANGES = {
    "the mode of files": (LAYER, "mode: int = 0o644", "mode: int = 0o640"),
    "the name of the installer": ("images/layers/wheel.py", 'b"multinode\\n"', 'b"another\\n"'),
}


class First(NamedTuple):
    """Sources, and the image that they built with an empty cache."""

    sources: Checkout
    image: Built


@pytest.fixture(scope="module")
def first(module_path: Path) -> First:
    sources = checkout.make(module_path)
    return First(sources, sources.build(*REQUEST))


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_makes_new_layers_and_going_back_has_the_old_ones(first: First, what: str) -> None:
    file, old, new = CHANGES[what]
    sources = first.sources

    sources.replace(file, old, new)
    try:
        changed = sources.build(*REQUEST)
    finally:
        sources.replace(file, new, old)
    back = sources.build(*REQUEST)

    assert changed.reused == []
    assert changed.digest != first.image.digest
    assert back.new == []
    assert back.digest == first.image.digest


OLD = [name for name in ("python3.8", "python3.9", "python3.10") if shutil.which(name)]
MODULES = {
    "words.py": "x in {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}",
    "none.py": "x in {None, 'a', 'b', 'c', 'd', 'e', 'f', 'g'}",
}


def compiled(python: str, place: Path) -> bytes:
    """Compile MODULES as for a base; return what was written."""
    entries = ((name.encode(), text.encode()) for name, text in MODULES.items())
    given = b"".join(b"%d %d\n%s%s" % (len(name), len(text), name, text) for name, text in entries)
    program = f"{bytecode.SETTLE.read_text()}\n{bytecode.WORKER.read_text()}"
    done = subprocess.run(
        [python, "-s", *bytecode.QUIET, "-c", program, "0", ""], input=given + b"0 0\n", cwd=place,
        env={"PYTHONHASHSEED": "0"}, capture_output=True, timeout=60,
    )  # fmt: skip
    if done.returncode == 127:
        pytest.skip(f"{python} does not start here")
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize("name", OLD)
def test_it_is_the_same_from_every_process(tmp_path: Path, name: str) -> None:
    first, *others = [compiled(str(shutil.which(name)), tmp_path) for _ in range(8)]

    assert set(others) == {first}
    assert b"words.py" in first and b"none.py" not in first


def test_files_in_the_directory_hide_no_module(tmp_path: Path) -> None:
    expected = compiled(sys.executable, tmp_path)
    for name in ("marshal", "types", "warnings", "importlib", "posix"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hidden')")

    assert compiled(sys.executable, tmp_path) == expected
