"""scripts/manifest.py as a program: from any directory, in a plain locale, with its manifest alone on stdout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.harness import ROOT
from tests.support.manifests import IMAGE, SIZES

PROGRAM = ROOT / "scripts" / "manifest.py"


@pytest.mark.parametrize("environ", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0"}], ids=["as it is", "ASCII only"])
def test_a_manifest_is_alone_on_stdout(tmp_path: Path, environ: dict[str, str]) -> None:
    words = ["pytorchjob", "--image", IMAGE, *SIZES, "--env", "NAME=\u00e9", "smoke"]

    done = subprocess.run(
        [sys.executable, PROGRAM, *words], cwd=tmp_path, env={**os.environ, **environ}, capture_output=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["kind"] == "PyTorchJob"
    assert done.stderr.startswith(b"manifest: 1 to 4 pod(s), each with a process")


def test_a_mistake_ends_with_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, "pvc", "--size", "\udcff"], cwd=tmp_path, capture_output=True, timeout=60
    )

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"error: this is no text")


@pytest.mark.parametrize("place", ["> /dev/full", ">&-"])
def test_a_manifest_that_cannot_be_written_ends_with_1(place: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" "$1" pvc {place}', sys.executable, PROGRAM], capture_output=True, text=True, timeout=60
    )

    first, second = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert first.startswith("error: the manifest cannot be written: ") and second.startswith("  try: ")
