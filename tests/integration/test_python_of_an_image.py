"""What every Python of an image does at its start and its end, and what the last look of a build asks it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from images.base.base import Site
from images.check import import_check
from images.layers.entrypoint_layer import AT_START, PACKAGE, read_entrypoint
from multinode_image.hooks.at_exit import DISTRIBUTED
from multinode_image.settings import TRAINING
from tests.support.harness import ROOT

SITE = Site("3.11", "usr/lib/python3/dist-packages", "/usr/bin/python3")
RANK_0 = {"RANK": "0", "WORLD_SIZE": "2", TRAINING: "on"}
ONE = "multinode: worked as a group of 2 ranks"


def test_every_file_of_the_entrypoint_and_of_rootfs_goes_in() -> None:
    places = {"multinode_image/": f"{PACKAGE}/multinode_image/", "images/rootfs/": ""}
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


# A module in the place of ours.
MODULE = "def main(): print(__name__)"
# The variables of a line are none of the functions in it, as in site.
EMBEDS = """
import sys
{argv}
sys.path.append({directory!r})
exec({line!r}, {{}}, {{}})
print(getattr(sys, "argv", None))
"""


@pytest.mark.parametrize(
    ("argv", "left"), [("", "['-c']"), ("sys.argv = []", "[]"), ("sys.argv = ['']", "['']"), ("del sys.argv", "None")]
)
@pytest.mark.parametrize(
    ("name", "value", "there"),
    [
        (TRAINING, "7", True),
        (TRAINING, "7", False),
        (TRAINING, None, True),
        ("RANK", "0", True),
        ("PMI_RANK", "1", True),
    ],
)
def test_the_program_runs_in_a_training_whatever_sys_argv_is(
    tmp_path: Path, argv: str, left: str, name: str, value: str | None, there: bool
) -> None:
    path = tmp_path / "multinode_image/hooks/at_start.py"
    if there:
        path.parent.mkdir(parents=True)
        path.write_text(MODULE)
    directory, line = AT_START.replace(f"/{PACKAGE}", str(tmp_path)).splitlines()
    script = EMBEDS.format(argv=argv, directory=directory, line=line)
    environ = {**os.environ, name: value or ""}

    done = subprocess.run(
        [sys.executable, "-Werror", "-c", script], capture_output=True, text=True, timeout=60, env=environ, cwd=tmp_path
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == [*(["multinode_image.hooks.at_start"] if value and there else []), left]


# A Python of an image in which torch was imported.
ENDS = """\
import os, signal, sys, time, types
from multinode_image.hooks import at_start
at_start.main()
sys.modules[{name!r}] = types.SimpleNamespace(
    is_initialized=lambda: True, get_world_size=lambda: 2, _default_pg_init_method="env://"
)
{last}
"""


NO_THREAD = (
    "import _thread; _thread.start_new_thread = lambda *_: exec('raise RuntimeError(\"can\\'t start new thread\")')"
)


@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        pytest.param("pass", 0, ONE, id="done"),
        pytest.param("sys.exit()", 0, ONE, id="done, as it says itself"),
        pytest.param("sys.exit(3)", 3, "", id="an exit code of its own"),
        pytest.param("raise OSError(24, 'Too many open files')", 1, "multinode: rank 0 on ", id="a known error"),
        pytest.param("raise ValueError('no')", 1, "ValueError: no\n", id="an error that speaks for itself"),
        pytest.param("os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", -2, "KeyboardInterrupt\n", id="^C"),
        pytest.param(f"{NO_THREAD}; raise KeyboardInterrupt", 1, "could start no more processes", id="no thread"),
    ],
)
def test_a_program_ends_as_it_would_have_and_its_last_words_are_ours(last: str, code: int, said: str) -> None:
    text = ENDS.format(name=DISTRIBUTED, last=last)

    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, cwd=ROOT, env={**os.environ, **RANK_0}
    )

    assert done.returncode == code
    assert said in "".join(done.stderr.splitlines(keepends=True)[-2:]) and bool(said) == bool(done.stderr)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["a_b", "A.b==1"], ""),
        (["A.b==2", "nowhere==1"], "A.b (1 instead of 2); nowhere (none instead of 1)"),
        (["c", "a_b"], "c (ModuleNotFoundError: No module named 'c')"),
        (["stops"], "stops (SystemExit: 3)"),
        (["lines"], "lines (ImportError: no git: set PATH)"),
    ],
)
def test_python_says_which_modules_and_releases_it_does_not_find(
    tmp_path: Path, wanted: Sequence[str], said: str
) -> None:
    files = {
        "a_b.py": "",
        "stops.py": "raise SystemExit(3)",
        "lines.py": "raise ImportError('no git:\\n  set PATH\\n')",
        "A.b-1.dist-info/METADATA": "Name: A.b\nVersion: 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"

    done = subprocess.run(
        [sys.executable, "-I", "-c", start + import_check.SCRIPT, *wanted], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr.strip()) == (int(bool(said)), said)
