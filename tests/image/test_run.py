"""The image from outside: training, tasks, other commands, any uid, derived images."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from images.layers.entrypoint_layer import UID
from tests.cluster.nodes import MEET, MEETS, places
from tests.support import real_ccl, wheels
from tests.support.harness import (
    HARDENED,
    IMAGES,
    OFFLINE,
    ROOT,
    Done,
    built,
    call,
    env_options,
    run,
)
from tests.support.launchers import left_by
from tests.support.machines import find_bf16

FAULTS = ROOT / "tests/data/faults"


def test_smoke_trains_in_float32_where_no_unit_computes_in_bf16(image: str, tmp_path: Path) -> None:
    """Under any uid, with nothing allowed."""
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx2\n")

    done = run(image, "smoke", "--bf16", options=[*HARDENED, "--volume", f"{tmp_path}/cpuinfo:/proc/cpuinfo:ro"])

    assert done.code == 0
    assert len(re.findall(r"(?m)^smoke: passed: world_size=1 .*dtype=float32 ", done.out)) == 1
    assert done.err.count("MULTINODE_BF16=emulate") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "left"),
    [pytest.param(1, (), id="one"), pytest.param(2, ("pytorchjob-master",), id="in a pod of a PyTorchJob")],
)
def test_ranks_meet_under_mpirun(image: str, count: int, left: tuple[str, ...]) -> None:
    """What an operator has set in the pod is not the place of a rank."""
    options = [*env_options(left_by(*left)), "--hostname", "node0", *MEETS]

    done = run(image, "mpirun", "-n", str(count), "multinode", MEET, options=options)

    assert done.code == 0
    assert places(done.out) == [f"node0 {rank}/{count}" for rank in range(count)]


@pytest.mark.parametrize("before", ["", pytest.param("export I_MPI_PIN=0; ", marks=pytest.mark.slow)])
def test_ranks_share_the_cores_whether_hydra_pins_them_or_not(image: str, before: str) -> None:
    command = f"{before}mpirun -n 2 multinode sh -c 'echo threads $OMP_NUM_THREADS'"

    done = run(image, "bash", "-c", command, options=["--cpuset-cpus", "0-1"])

    assert done.code == 0
    assert done.out.splitlines() == ["threads 1", "threads 1"]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("multinode torchrun --nproc-per-node 2 /tmp/x.py", marks=pytest.mark.slow),  # below in one case
        pytest.param("multinode python3 -m torch.distributed.run --nproc_per_node=2 /tmp/x.py", marks=pytest.mark.slow),
        # Its agent looks for the name of the host, which nothing resolves without a network.
        "python3 -m torch.distributed.run --nproc_per_node=2 /tmp/x.py",
        pytest.param("torchrun --standalone --nproc_per_node=2 /tmp/x.py", marks=pytest.mark.slow),
    ],
)
def test_ranks_of_torchrun_have_cores_of_their_own(image: str, command: str) -> None:
    # One write: the ranks share a stream.
    script = "import os; os.write(1, f'{sorted(os.sched_getaffinity(0))} {os.environ[\"OMP_NUM_THREADS\"]} '.encode())"

    shell = f"echo {shlex.quote(script)} > /tmp/x.py; {command}"
    done = run(image, "bash", "-c", shell, options=["--cpuset-cpus", "0-1"])

    assert done.code == 0
    assert "[0] 1" in done.out and "[1] 1" in done.out


# What a rank may use at its start and once it has computed, and whether it has the variable that the site has set.
PRINTS = """
import os
before = sorted(os.sched_getaffinity(0))
import torch
torch.ones(999, 999) @ torch.ones(999, 999)
os.write(1, f"{before} {sorted(os.sched_getaffinity(0))} {os.environ['SITE'] in os.environ}\\n".encode())
"""
TORCHRUN, SEPARATE, SHARED = "torchrun --nproc-per-node 2", {"[0] [0] False", "[1] [1] False"}, {"[0, 1] [0, 1] False"}


@pytest.mark.parametrize(
    ("name", "value", "limit", "start", "expected"),
    [
        ("OMP_PROC_BIND", "true", "--cpuset-cpus=0-1", TORCHRUN, SEPARATE),
        pytest.param("OMP_PLACES", "cores", "--cpuset-cpus=0-1", TORCHRUN, SEPARATE, marks=pytest.mark.slow),
        pytest.param("GOMP_CPU_AFFINITY", "0", "--cpuset-cpus=0-1", TORCHRUN, SEPARATE, marks=pytest.mark.slow),
        pytest.param("KMP_AFFINITY", "compact", "--cpuset-cpus=0-1", TORCHRUN, SEPARATE, marks=pytest.mark.slow),
        pytest.param("KMP_HW_SUBSET", "1c", "--cpuset-cpus=0-1", TORCHRUN, SEPARATE, marks=pytest.mark.slow),
        pytest.param("OMP_PROC_BIND", "true", "--cpus=1", TORCHRUN, SHARED, marks=pytest.mark.slow),
        pytest.param(
            "OMP_PROC_BIND", "true", "--cpus=1", "mpirun -n 2 multinode python3", SHARED, marks=pytest.mark.slow
        ),
    ],
)
def test_no_variable_of_a_site_binds_two_ranks_to_one_core(
    image: str, tmp_path: Path, name: str, value: str, limit: str, start: str, expected: set[str]
) -> None:
    (tmp_path / "x.py").write_text(PRINTS)
    tmp_path.chmod(0o755)
    options = [limit, "--env", f"{name}={value}", "--env", f"SITE={name}", "--volume", f"{tmp_path}:/given:ro"]

    done = run(image, *start.split(), "/given/x.py", options=options)

    assert done.code == 0
    assert f"{name}={value} is " in done.err
    rows = [line for line in done.out.splitlines() if line.startswith("[")]
    assert len(rows) == 2 and set(rows) == expected


@pytest.mark.skipif(real_ccl.is_at_hand(), reason="it trains on two nodes in test_real_ccl.py")
def test_smoke_trains_in_an_older_line(ccl_image: str) -> None:
    done = run(ccl_image, "smoke", "--bf16")

    assert done.code == 0


@pytest.mark.slow
def test_smoke_trains_in_the_last_release_before_the_newest_line(engine: None) -> None:
    older = built("--torch", "2.13.0", "--transformers", "4.57.6", "--examples", "none", "--tag", f"{IMAGES}:4.57.6")

    done = run(older["image"], "--nproc", "2", "smoke", "--bf16")

    assert done.code == 0


@pytest.mark.parametrize(
    ("options", "command", "reason"),
    [
        ((), ("sh", "-c", "MULTINODE_WORLD_SIZE=2 python3 /opt/multinode/smoke.py"), r"world"),
        pytest.param(
            ("--volume", f"{FAULTS}:/faults:ro", "--env", "PYTHONPATH=/faults"),
            ("--nproc", "2", "smoke"),
            r"weights",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_smoke_fails_when_it_must(image: str, options: tuple[str, ...], command: tuple[str, ...], reason: str) -> None:
    done = run(image, *command, options=options)

    assert done.code != 0
    lines = [line for line in done.err.splitlines() if line.startswith("smoke: failed:")]
    assert len(lines) == 1
    assert re.search(reason, lines[0])
    assert "Traceback" not in done.err.split("smoke: failed:")[0]


def test_qa_runs_the_example_with_the_guides_defaults(image: str) -> None:
    done = run(image, "qa", "--bf16", "--per_device_train_batch_size", "4")

    assert done.code == 0
    said = json.loads(done.out.strip().splitlines()[-1])
    assert said["model"] == "distilbert/distilbert-base-uncased"
    assert said["dataset"] == "rajpurkar/squad"
    assert (said["max_seq_length"], said["batch"], said["learning_rate"]) == (384, 4, 3e-5)
    assert (said["bf16"], said["computes"]) == (True, find_bf16())
    assert said["device"] == "cpu"
    assert said["output_dir"] == "/workspace/output/qa"


def test_a_log_tells_how_two_ranks_train(image: str) -> None:
    """Rank 0 waits for the other, which needs 0.2 s for a step more than it."""
    environ = {"STEP_SECONDS": "0.2", "SLOW_RANK": "1", "TQDM_MININTERVAL": "1"}
    words = ("--max_steps", "20", "--logging_steps", "5", "--report_to", "none", "--per_device_train_batch_size", "8")

    done = run(image, "--nproc", "2", "clm", *words, options=[*OFFLINE, *env_options(environ)])

    assert done.code == 0
    lines = re.findall(r" (\d+)/20, .+, loss ([\d.]+), ([\d.]+) samples/s, waiting (\d+)%", done.err, re.MULTILINE)
    assert lines[-1][0] == "20" and 3 <= len(lines) <= 8
    assert all(0 < float(speed) < 16 / 0.2 and 50 < int(share) <= 100 for *_, speed, share in lines[1:])
    assert "\x1b" not in done.text


@pytest.mark.slow
@pytest.mark.parametrize("command", [("--nproc", "2", "smoke"), ("mpirun", "-n", "2", "multinode", "smoke")])
def test_each_rank_has_a_file_and_the_first_is_shown(image: str, volume: Path, command: tuple[str, ...]) -> None:
    logs = ("--volume", f"{volume}:/logs", "--env", "MULTINODE_LOGS=/logs/new")

    done = run(image, *command, options=logs)

    assert done.code == 0
    kept = {path.name: path.read_text() for path in (volume / "new").iterdir()}
    assert {*kept} == {"rank-0.log", "rank-1.log"}
    assert "smoke: passed: world_size=2" in kept["rank-0.log"] and "smoke: passed: world_size=2" in done.out


def test_a_script_without_the_trainer_finds_its_world_and_precision(image: str) -> None:
    options = ("--env", "ACCELERATE_MIXED_PRECISION=bf16", "--env", "MULTINODE_BF16=emulate")
    done = run(image, "--nproc", "2", "qa-no-trainer", options=options)

    assert done.code == 0
    said = json.loads(next(line for line in done.out.splitlines() if line.startswith("{")))
    assert (said["world_size"], said["device"], said["precision"]) == (2, "cpu", "bf16")
    assert said["output_dir"] == "/workspace/output/qa-no-trainer"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("python3", "-c", "import torch; print(torch.ones(2).sum().item())"), "2.0"),
        (("bash", "-c", "echo $ACCELERATE_USE_CPU"), "1"),
        (("python", "-m", "pip", "check"), "No broken requirements found."),
        (("id", "-u"), str(UID)),
        (("bash", "-c", "yes | head -n1 > /dev/null; echo ${PIPESTATUS[0]}"), "141"),
        (("sh", "-c", "grep -c libiomp5 /proc/self/maps; grep -c libtcmalloc /proc/self/maps"), None),
    ],
)
def test_other_commands_run_as_they_stand(image: str, command: tuple[str, ...], expected: str | None) -> None:
    done = run(image, *command)

    assert done.code == 0
    if expected is None:
        assert all(int(count) > 0 for count in done.out.split())
    else:
        assert done.out.strip() == expected


def test_no_program_runs_as_another_user_than_who_starts_it(image: str) -> None:
    done = run(image, "find", "/", "-xdev", "-perm", "/6000", options=["--user", "0"])

    assert (done.code, done.out) == (0, "")


def test_root_becomes_another_user(image: str) -> None:
    done = run(image, "su", "nobody", "--shell", "/bin/sh", "--command", "id -u", options=["--user", "0"])

    assert (done.code, done.out.strip()) == (0, "65534")


def test_a_package_may_have_alternatives_with_pages_of_the_manual(image: str) -> None:
    """As a JRE has, whose installation failed in images without the directories of the manual."""
    page = ("--slave", "/usr/share/man/man1/java.1.gz", "java.1.gz", "/etc/os-release")
    done = run(
        image, "update-alternatives", "--install", "/usr/bin/java", "java", "/bin/true", "1", *page,
        options=["--user", "0"],
    )  # fmt: skip

    assert done.code == 0


def test_a_terminal_gets_a_shell(image: str) -> None:
    command = ["script", "-qec", f"docker run --rm -it --network none {image} bash -c 'tty; exit 7'", "/dev/null"]

    done = call(command)

    assert done.code == 7
    assert "/dev/pts/" in done.out


def test_an_exit_code_and_a_signal_pass_through(image: str) -> None:
    assert run(image, "bash", "-c", "exit 3").code == 3
    assert run(image, "timeout", "--signal=TERM", "1", "sleep", "1000").code == 124


def test_pip_replaces_only_what_training_does_not_work_with(image: str, tmp_path: Path) -> None:
    """The way out is that of docs/image.md: it lifts one package, and no other."""
    for name in ("pandas", "torch", "tokenizers"):
        wheels.write(tmp_path, name, "0.1", {f"{name}.py": b""})
    tmp_path.chmod(0o755)
    install = "pip install --no-index --find-links /parts"
    way_out = "grep -v ^tokenizers== /opt/multinode/constraints.txt > /tmp/held && PIP_CONSTRAINT=/tmp/held"

    def tried(command: str) -> Done:
        return run(image, "bash", "-c", command, options=("--user", "0", "--volume", f"{tmp_path}:/parts:ro"))

    assert f"{way_out} pip install tokenizers==" in (ROOT / "docs/image.md").read_text()
    assert "Successfully installed pandas-0.1" in tried(f"{install} pandas==0.1").out
    for name in ("torch", "tokenizers"):
        refused = tried(f"{install} {name}==0.1")
        assert refused.code == 1 and "ResolutionImpossible" in refused.err, name
    lifted = f"{way_out} {install}"
    assert "Successfully installed tokenizers-0.1" in tried(f"{lifted} tokenizers==0.1").out
    assert "ResolutionImpossible" in tried(f"{lifted} torch==0.1").err


def test_a_derived_image_adds_packages_and_runs_an_edit(image: str, tmp_path: Path) -> None:
    """The parts come from the host: the engine's containers may have no network."""
    site = "/usr/local/lib/python3.11/dist-packages"
    source = run(image, "cat", f"{site}/six.py").out
    (tmp_path / "six.py").write_text(re.sub(r"(?m)^__version__ = .*", '__version__ = "edited"', source))
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra/pyproject.toml").write_text('[project]\nname = "extra"\nversion = "1.0"\n')
    (tmp_path / "extra/extra.py").write_text("answer = 42\n")
    (tmp_path / "source").mkdir()
    (tmp_path / "source/pyproject.toml").write_text(
        '[build-system]\nrequires = ["h11==0.1"]\nbuild-backend = "builds"\n[project]\nname = "source"\nversion = "1"\n'
    )
    builds = b"def build_wheel(place, *_):\n    raise SystemExit('built with h11 0.1')\n"
    wheels.write(tmp_path, "h11", "0.1", {"builds.py": builds})
    assert call(["bash", "-c", f"cd {tmp_path} && apt-get download hello"]).code == 0
    (tmp_path / "Dockerfile").write_text(
        f"FROM {image}\nUSER root\nCOPY . /tmp/parts\n"
        "RUN apt-get install --yes /tmp/parts/hello_*.deb\n"
        "RUN pip install --no-build-isolation --no-index /tmp/parts/extra\n"
        # A package that is held binds what is installed, and not what builds a source.
        "RUN pip install --no-index --find-links /tmp/parts /tmp/parts/source 2>&1 | grep 'built with h11 0.1'\n"
        f"COPY six.py {site}/six.py\nUSER {UID}\n"
    )

    assert call(["docker", "build", "--network", "none", "--tag", f"{IMAGES}:derived", str(tmp_path)]).code == 0
    try:
        assert run(f"{IMAGES}:derived", "hello").out.strip() == "Hello, world!"
        said = run(f"{IMAGES}:derived", "python3", "-c", "import six, extra; print(six.__version__, extra.answer)")
        assert said.out.strip() == "edited 42"
    finally:
        call(["docker", "rmi", "--force", f"{IMAGES}:derived"])
