"""Two builds are the same image, whoever makes them; two images share what is the same in them."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

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
