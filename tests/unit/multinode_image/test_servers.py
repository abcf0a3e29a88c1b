"""`notebook` and `tensorboard`: their command lines, and where they are refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from multinode_image.commands.servers import find_notebook
from tests.support.harness import ROOT
from tests.support.starts import Container

MASTER = {"PET_NNODES": "2", "PET_MASTER_ADDR": "pod0", "PET_NODE_RANK": "0"}


@pytest.fixture(scope="module")
def equipped(module_path: Path) -> Container:
    container = Container(module_path).furnish()
    for name in ("jupyter-lab", "tensorboard"):
        (module_path / name).write_text("#!/bin/sh\n")
        (module_path / name).chmod(0o755)
    return container


@pytest.mark.parametrize(
    ("words", "environ", "argv"),
    [
        ("tensorboard", {}, "tensorboard --logdir=/workspace/output --host=0.0.0.0"),
        ("tensorboard", {"MULTINODE_OUTPUT": "/data/mine"}, "tensorboard --logdir=/data/mine --host=0.0.0.0"),
        ("tensorboard --logdir /x --bind_all", {}, "tensorboard --logdir /x --bind_all"),
        ("tensorboard --logdir_spec a:/x", {}, "tensorboard --host=0.0.0.0 --logdir_spec a:/x"),
        ("tensorboard --host=::", {}, "tensorboard --logdir=/workspace/output --host=::"),
        ("tensorboard --help", MASTER, "tensorboard --logdir=/workspace/output --host=0.0.0.0 --help"),
    ],
)
def test_tensorboard_shows_the_results_unless_it_is_told_otherwise(
    equipped: Container, words: str, environ: dict[str, str], argv: str
) -> None:
    assert " ".join(equipped.start(words, environ).argv) == argv


@pytest.mark.parametrize(
    ("typed", "uid", "added"),
    [
        ("", 0, "--ip=0.0.0.0 --no-browser --ServerApp.root_dir=HOME --allow-root"),
        ("--port 9999", 7, "--ip=0.0.0.0 --no-browser --ServerApp.root_dir=HOME"),
        ("--help", 7, "--ip=0.0.0.0 --no-browser --ServerApp.root_dir=HOME"),
        *((ip, 7, "--no-browser --ServerApp.root_dir=HOME") for ip in ("--ip ::", "--ServerApp.ip=::")),
        *((f"{way} /x", 7, "--ip=0.0.0.0 --no-browser") for way in ("--notebook-dir", "--ServerApp.root_dir")),
        *((no, 7, "--ip=0.0.0.0 --ServerApp.root_dir=HOME") for no in ("--no-browser", "--ServerApp.open_browser=0")),
        *((root, 0, "--ip=0.0.0.0 --no-browser --ServerApp.root_dir=HOME")
          for root in ("--allow-root", "--ServerApp.allow_root=True")),
    ],
)  # fmt: skip
def test_a_notebook_is_told_what_the_user_has_not_said(
    equipped: Container, monkeypatch: pytest.MonkeyPatch, typed: str, uid: int, added: str
) -> None:
    monkeypatch.chdir(equipped.home)
    monkeypatch.setattr(os, "getuid", lambda: uid)

    argv = equipped.start(f"notebook {typed}").argv

    assert " ".join(argv) == f"jupyter-lab {added} {typed}".replace("HOME", str(equipped.home)).rstrip()


@pytest.mark.parametrize(
    ("mounts", "is_writable", "place", "is_said"),
    [
        ((), True, "here", True),
        ((), False, "/home/mine", True),
        (("/home",), False, "/home/mine", False),
        (("here/mine",), False, "here", False),  # what is mounted there has to be seen
        (("heremine", "here"), True, "here", False),
        (("heremine",), False, "/home/mine", True),
    ],
)
def test_a_notebook_shows_a_place_where_notebooks_can_be_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mounts: Sequence[str],
    is_writable: bool,
    place: str,
    is_said: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    mounted = [mount.replace("here", str(tmp_path)) for mount in mounts]
    said: list[str] = []

    options = [
        option for _, option in find_notebook({"HOME": "/home/mine"}, mounted, lambda _: is_writable, said.append)
    ]

    assert f"--ServerApp.root_dir={place.replace('here', str(tmp_path))}" in options
    assert bool(said) == is_said


@pytest.mark.parametrize(
    ("name", "environ", "remedy"),
    [
        ("notebook", {}, "build.py"),
        ("tensorboard", {}, "build.py"),
        ("notebook", MASTER, "build.py"),
    ],
)
def test_an_image_without_it_names_the_command_that_makes_one(
    tmp_path: Path, name: str, environ: dict[str, str], remedy: str
) -> None:
    refusal = Container(tmp_path).furnish().start(name, environ).refusal

    assert refusal and refusal.code == 2 and remedy in refusal.remedy
    file = next(word for word in refusal.remedy.split() if word.startswith("examples/"))
    assert {"jupyterlab", "tensorboard"} <= {*(ROOT / file).read_text().split()}


def test_a_notebook_is_on_one_node(equipped: Container) -> None:
    refusal = equipped.start("notebook", MASTER).refusal

    assert refusal and refusal.code == 2 and "train.py" in refusal.remedy
