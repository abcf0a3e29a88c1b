"""Programs of this repository as they are typed: build.py and manifest.py, how they begin and fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.harness import ROOT, assert_three_parts, build, built, call, small_disk
from tests.support.manifests import IMAGE, SIZES
from tests.support.stores import USUAL, store_with
from tests.support.web import serving

SCRIPT = """\
import sys, time
from datetime import date
from images import cli
code = cli.main(["plan", "--json"], cli.World({}, date(2026, 11, 20), time.monotonic))
print(code, sorted({"docker", "elftools", "requests", "images.commands"} & set(sys.modules)), file=sys.stderr)
"""


def test_planning_imports_nothing_that_builds() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stderr == "0 []\n"


@pytest.mark.parametrize(("flags", "environ"), [(["-I"], {}), ([], {"PYTHONSAFEPATH": "1"})])
def test_a_python_that_leaves_out_the_directory_of_a_script_finds_ours(
    flags: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, *flags, str(ROOT / "build.py"), "plan"]

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


PROGRAM = ROOT / "images/rootfs/opt/multinode/ssh"
PROXY = "/usr/local/bin/hydra_bstrap_proxy --upstream-host n0 --upstream-port 37797 --pgid 0"


def start(path: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(PROGRAM), *line.split()], env={"PATH": str(path)}, capture_output=True, text=True, check=False
    )


# What mpiexec.hydra 2021.18.0 gives to the program of I_MPI_HYDRA_BOOTSTRAP_EXEC in a job of each scheduler.
@pytest.mark.parametrize(
    ("line", "program"),
    [
        (f"-q -x node1 {PROXY} --launcher ssh --launcher-number 0", "python3 -I -S /opt/multinode ssh"),
        (f"-N 2 -n 2 --nodelist node0,node1 --input none {PROXY} --launcher slurm --launcher-number 1", "srun"),
        (f"-n 0 -- {PROXY} --launcher pbs --launcher-number 5", "pbsdsh"),
        (f"h1 {PROXY} --launcher lsf --launcher-number 2", "blaunch"),
        ("node1 true", "python3 -I -S /opt/multinode ssh"),
    ],
)
def test_hydra_reaches_nodes_as_their_scheduler_does(tmp_path: Path, line: str, program: str) -> None:
    for name in ("python3", "srun", "pbsdsh", "blaunch"):
        tmp_path.joinpath(name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        tmp_path.joinpath(name).chmod(0o755)

    done = start(tmp_path, line)

    assert done.stdout == f"{program} {line}\n"


def test_a_scheduler_s_program_that_is_missing_is_named(tmp_path: Path) -> None:
    done = start(tmp_path, f"-N 2 {PROXY} --launcher slurm")

    assert done.returncode == 1
    assert "not the program that starts its nodes: srun\n  try: export I_MPI_HYDRA_BOOTSTRAP=ssh" in done.stderr


LARGE = 100_000_000  # bytes whose layer takes half a second
# What a store of another build has kept: all but the layer of the user's own files is there.
KEPT = ("choices", "locks", "bases", "wheel contents", "bytecode", "layers", "sboms")


def test_a_truncated_download_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    built(*USUAL)
    env = store_with(tmp_path, "choices", "locks")
    with serving() as server:
        server.pages["/v5.tar.gz"], server.script = b"an archive", ["cut"]

        done = build(*USUAL, "--examples", f"{server.url}/v5.tar.gz", env=env)

    assert_three_parts(done, 1, f"{server.url}/v5.tar.gz", "--examples PATH")
    assert not list((tmp_path / "multinode/aside").iterdir())


def test_a_full_disk_is_named_and_a_build_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, "40m"):
        full = build(*USUAL, env={"XDG_CACHE_HOME": str(disk)})
        assert_three_parts(full, 1, str(disk), "correct what it names")
        assert "No space left on device" in full.err
        assert not list((disk / "multinode/aside").iterdir())
        assert call(["mount", "-o", "remount,ro", str(disk)]).code == 0
        assert_three_parts(build(*USUAL, env={"XDG_CACHE_HOME": str(disk)}), 1, str(disk), "XDG_CACHE_HOME")


def test_a_build_that_was_interrupted_becomes_whole(tmp_path: Path) -> None:
    """With a large file of the user's own, so that there is one layer to write."""
    built(*USUAL)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/data").write_bytes(os.urandom(LARGE))
    options = (*USUAL, "--workdir", str(tmp_path / "own"))
    env = {**os.environ, **store_with(tmp_path, *KEPT)}
    # A job in the background ignores SIGINT.
    command = ["env", "--default-signal=INT", sys.executable, "build.py", *options]
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE) as child:
        assert child.stderr
        assert any(b"writing layers" in line for line in child.stderr), "it ended before"
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=300)[1].decode()
    assert child.returncode == 130
    assert "Traceback" not in said
    assert "interrupted" in said
    assert build(*options, env=env).code == 0
    assert not list((tmp_path / "multinode/aside").iterdir())


MANIFEST = ROOT / "scripts" / "manifest.py"


@pytest.mark.parametrize("variables", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}])
def test_a_script_is_printed_in_utf_8_wherever_that_is(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "train.py").write_text('print("\u00e9")\n', encoding="utf-8")
    words = ["job", "--image", IMAGE, *SIZES, "--script", "train.py"]
    environ = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **variables}

    done = subprocess.run(
        [sys.executable, MANIFEST, *words], cwd=tmp_path, env=environ, capture_output=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    scripts, *others = yaml.safe_load_all(done.stdout.decode("utf-8"))  # nothing else is there
    assert scripts["data"] == {"train.py": 'print("\u00e9")\n'} and others[-1]["kind"] == "Job"


def test_a_manifest_that_cannot_be_written_ends_with_1() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, str(MANIFEST), "pvc"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)

    first, second = done.stderr.splitlines()
    assert done.returncode == 1
    assert first.startswith("error: the manifest cannot be written: ") and second.startswith("  try: ")
