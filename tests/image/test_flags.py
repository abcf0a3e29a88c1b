"""Every command line that we produce, parsed by the real TrainingArguments of several releases.

A release other than the image's is laid out from its wheels beside the image's torch, and thrown away.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from images.plan import catalog
from multinode_image.machine.image import Stack, release
from multinode_image.tasks.aliases import OF_TRAINER, plain, split_flags
from multinode_image.tasks.arguments import complete
from multinode_image.tasks.table import TASKS, TRAINER
from tests.support.harness import ROOT, call
from tests.support.trainer_fields import EVER, HISTORY
from tests.unit.multinode_image.tasks.test_aliases import CURRENT, OLD

SCRIPT = ROOT / "tests/data/parse_flags.py"
NEWEST = str(catalog.load().default_transformers)
# A rank of a world of one: accelerate takes a backend only where there is a world.
RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
# What each wants beside it, as its own metadata says; accelerate as far as Trainers of that time can import it.
RELEASES = {
    "4.30.2": ("tokenizers<0.14", "huggingface-hub<0.20", "accelerate<0.27"),
    "4.46.3": ("tokenizers>=0.20,<0.21", "huggingface-hub<1"),
    "4.57.6": ("tokenizers>=0.22,<=0.23.0", "huggingface-hub<1"),
    NEWEST: (),
}


def lay_out(version: str, site: Path) -> None:
    """Unpack the wheels of a release into a folder."""
    wheels = site.with_name("wheels")
    names = [f"transformers=={version}", *RELEASES[version]]
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--python-version", "3.11", "--dest", str(wheels)]
    assert call([sys.executable, "-m", "pip", "download", *options, *names]).code == 0
    for wheel in wheels.iterdir():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)


def list_lines(version: str) -> list[list[str]]:
    """List what we make of each task, bare and with the flags of other releases, and of each value of an alias."""
    stack = Stack("2.13.0+cpu", version, "3.11", "gloo", "/examples", "")
    values = [side.partition("=") for row in OF_TRAINER for side in (row.old, row.new) if "=" in side]
    typed = [OLD, CURRENT, *(f"--{name} {value}" for name, _, value in values)]
    lines = [(TASKS["qa"], line, True) for line in typed]
    for task in TASKS.values():
        lines += [(task, "", False), (task, "--bf16", True)] if task.kind == TRAINER else []
    return [complete(task, "x.py", line.split(), stack, many=many).words[1:] for task, line, many in lines]


def parse(image: str, version: str, folder: Path) -> tuple[str, list[str], list[str], list[list[str]]]:
    """Let the real classes parse all lines, in one process."""
    site = folder / "site"
    site.mkdir()
    if RELEASES[version]:
        lay_out(version, site)
    mounts = [f"--volume={SCRIPT}:/parse.py:ro", f"--volume={site}:/site:ro"]
    variables = [f"--env={name}={value}" for name, value in {**RANK, "PYTHONPATH": "/site"}.items()]
    options = ["--rm", "--interactive", "--network=none", "--entrypoint=python3", *mounts, *variables]
    command = ["timeout", "180", "docker", "run", *options, image, "/parse.py"]
    lines = json.dumps(list_lines(version))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    return said[0], said[1], said[2], said[3]


# The releases between have the flags of their neighbours.
@pytest.mark.parametrize(
    "version", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith(("4.46", "4.57"))) for name in RELEASES]
)
def test_the_release_parses_every_line_we_produce(image: str, version: str, tmp_path: Path) -> None:
    installed, fields, devices, left = parse(image, version, tmp_path)

    assert installed == version
    assert set(fields) == HISTORY[release(version)]
    assert devices == ["cpu"]
    for words, rest in zip(list_lines(version), left, strict=True):
        # What is left over are flags of the script itself.
        assert not EVER & {plain(flag.name) for flag in split_flags(rest)}, words
