"""The lines that every Python of an image reads when it starts."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from images.base.base import Site
from images.layers import entrypoint_layer
from images.layers.entrypoint_layer import AT_START, ENVIRONMENT, PACKAGE, container_settings, labels, read_entrypoint
from multinode_image.settings import TRAINING
from tests.support.bases import DIGEST, base
from tests.support.locks import lock
from tests.support.stand_in import SYSTEM

TITLE = "org.opencontainers.image"
ROOT = Path(__file__).parents[4]
SITE = Site("3.11", "usr/lib/python3/dist-packages", "/usr/bin/python3")


PLACES = ("multinode_image", "multinode_image/tuning", "images/rootfs", "images/rootfs/opt/multinode")
LEFT = (
    ".main.py.swp", ".DS_Store", "._main.py", ".#main.py", "#main.py#", "main.py~", "main.py.orig", "main.py.rej",
    ".idea/main.py", "__pycache__/main.cpython-311.pyc", "main copy.py", "main.pyc",
)  # fmt: skip


def test_what_editors_and_systems_leave_in_a_checkout_does_not_go_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("multinode_image", "images/rootfs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.setattr(entrypoint_layer, "HERE", tmp_path / "images")
    before = read_entrypoint(SITE)
    for left in (tmp_path / place / name for place in PLACES for name in LEFT):
        left.parent.mkdir(exist_ok=True)
        left.write_text("secret")

    assert read_entrypoint(SITE) == before


@pytest.mark.parametrize(
    ("made", "name", "stated"),
    [
        (True, "debian:bookworm", {"multinode.base": "debian:bookworm"}),
        (False, "a/b:1", {f"{TITLE}.base.name": "a/b:1", f"{TITLE}.base.digest": DIGEST}),
        (False, None, {f"{TITLE}.base.digest": DIGEST}),
    ],
)
def test_only_a_pulled_base_is_one_that_layers_are_shared_with(
    made: bool, name: str | None, stated: dict[str, str]
) -> None:
    found = labels(lock(python="3.10"), dataclasses.replace(base(SYSTEM, made=made), name=name))

    assert {label: value for label, value in found.items() if ".base" in label} == stated
    assert f"{TITLE}.licenses" not in found  # no licence is that of everything inside


def test_the_line_is_one_that_site_runs() -> None:
    directory, line = AT_START.splitlines()
    assert directory == f"/{PACKAGE}" and line.startswith("import ") and TRAINING in line


def test_a_variable_of_the_users_stands_above_those_of_the_base_and_below_the_images_own() -> None:
    below = dataclasses.replace(base(SYSTEM, made=True), environment={"A": "0", "B": "0", "PATH": "/bin"})
    locked = lock(python="3.10", env=("A=1 = 2", "HF_HOME=/elsewhere", "KERAS_BACKEND=torch"))

    found = container_settings(locked, below)["Env"]

    assert {"A=1 = 2", "B=0", "KERAS_BACKEND=torch", f"HF_HOME={ENVIRONMENT['HF_HOME']}"} <= {*found}
    assert len({line.partition("=")[0] for line in found}) == len(found)
