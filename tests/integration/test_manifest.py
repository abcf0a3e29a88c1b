"""scripts/manifest.py as a program: from any directory, with its manifest alone on stdout."""

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


def test_a_manifest_is_alone_on_stdout(tmp_path: Path) -> None:
    words = ["pytorchjob", "--image", IMAGE, *SIZES, "--env", "NAME=\u00e9", "smoke"]

    done = subprocess.run([sys.executable, PROGRAM, *words], cwd=tmp_path, capture_output=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["kind"] == "PyTorchJob"
    assert done.stderr.startswith(b"manifest: 1 to 4 pod(s), each with a process")


@pytest.mark.parametrize("variables", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}])
def test_a_script_is_printed_in_utf_8_wherever_that_is(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "train.py").write_text('print("\u00e9")\n', encoding="utf-8")
    words = ["job", "--image", IMAGE, *SIZES, "--script", "train.py"]
    environ = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **variables}

    done = subprocess.run([sys.executable, PROGRAM, *words], cwd=tmp_path, env=environ, capture_output=True, timeout=60)

    assert (done.returncode, '    print("\u00e9")\n'.encode() in done.stdout) == (0, True), done.stderr


def test_a_mistake_ends_with_2(tmp_path: Path) -> None:
    words = ["pvc", "--bytes", "1Gi"]

    done = subprocess.run([sys.executable, PROGRAM, *words], cwd=tmp_path, capture_output=True, timeout=60)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"error: the command line cannot be read")


def test_a_manifest_that_cannot_be_written_ends_with_1() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, str(PROGRAM), "pvc"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)

    first, second = done.stderr.splitlines()
    assert done.returncode == 1
    assert first.startswith("error: the manifest cannot be written: ") and second.startswith("  try: ")
