"""The lines that every Python of an image reads when it starts."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from entrypoint.hooks.at_exit import VARIABLE
from images.base.facts import Site
from images.layers import entrypoint_layer
from images.layers.entrypoint_layer import AT_EXIT, MULTINODE, labels, read_entrypoint
from tests.support.bases import DIGEST, base
from tests.support.locks import lock
from tests.support.stand_in import SYSTEM

TITLE = "org.opencontainers.image"
ROOT = Path(__file__).parents[4]
SITE = Site("3.11", "usr/lib/python3/dist-packages", "/usr/bin/python3")


PLACES = ("entrypoint", "entrypoint/tuning", "images/rootfs", "images/rootfs/opt/multinode")
LEFT = (
    ".main.py.swp", ".DS_Store", "._main.py", ".#main.py", "#main.py#", "main.py~", "main.py.orig", "main.py.rej",
    ".idea/main.py", "__pycache__/main.cpython-311.pyc", "main copy.py", "main.pyc",
)  # fmt: skip


def test_what_editors_and_systems_leave_in_a_checkout_does_not_go_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("entrypoint", "images/rootfs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.setattr(entrypoint_layer, "HERE", tmp_path / "images")
    before = read_entrypoint(SITE)
    for left in (tmp_path / place / name for place in PLACES for name in LEFT):
        left.parent.mkdir(exist_ok=True)
        left.write_text("secret")

    assert read_entrypoint(SITE) == before


def test_every_file_of_the_entrypoint_and_of_rootfs_goes_in() -> None:
    places = {"entrypoint/": f"{MULTINODE}/entrypoint/", "images/rootfs/": ""}
    listed = subprocess.run(["git", "ls-files", *places], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no clone of git")
    expected = {
        place + name.removeprefix(ours)
        for name in listed.stdout.splitlines()
        for ours, place in places.items()
        if name.startswith(ours) and (ROOT / name).exists()
    }

    assert expected and read_entrypoint(SITE).keys() >= expected


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


# A program in the place of ours, with what Python itself looks up by the name of a module.
PROGRAM = """from __future__ import annotations
import dataclasses, typing
@dataclasses.dataclass
class One:
    text: str
class Two(typing.NamedTuple):
    one: One
print(__name__)
"""
# The variables of a line are none of the functions in it, as in site.
EMBEDS = """
import sys
{argv}
exec({line!r}, {{}}, {{}})
print(getattr(sys, "argv", None))
"""


@pytest.mark.parametrize(
    ("argv", "left"), [("", "['-c']"), ("sys.argv = []", "[]"), ("sys.argv = ['']", "['']"), ("del sys.argv", "None")]
)
@pytest.mark.parametrize(("value", "there"), [("7", True), ("7", False), (None, True)])
def test_the_program_runs_in_a_training_whatever_sys_argv_is(
    tmp_path: Path, argv: str, left: str, value: str | None, there: bool
) -> None:
    path = tmp_path / "entrypoint/hooks/at_exit.py"
    path.parent.mkdir(parents=True)
    if there:
        path.write_text(PROGRAM)
    script = EMBEDS.format(argv=argv, line=AT_EXIT.replace(f"/{MULTINODE}/", f"{tmp_path}/"))
    environ = {**os.environ, VARIABLE: value or ""}

    done = subprocess.run(
        [sys.executable, "-Werror", "-c", script], capture_output=True, text=True, timeout=60, env=environ
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == [*(["multinode.at_exit"] if value and there else []), left]


def test_the_line_is_one_that_site_runs() -> None:
    assert AT_EXIT.startswith("import ") and AT_EXIT.count("\n") == 1
    assert VARIABLE in AT_EXIT
    assert '__name__ == "multinode.at_exit"' in (ROOT / entrypoint_layer.PROGRAM).read_text()
