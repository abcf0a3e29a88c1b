"""The whole way from arguments to a decision, with nothing started."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import entrypoint.__main__ as program
from entrypoint.__main__ import heed_sigterm, main
from entrypoint.decide import assemble
from entrypoint.errors import Refusal
from entrypoint.machine import network
from entrypoint.machine.identity import Identity
from entrypoint.settings import Setting, forget
from tests.support.launchers import left_by

STACK = {"torch": "2.13.0+cpu", "transformers": "5.23.0", "python": "3.11", "backend": "gloo", "site": "/site"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "stack.json").write_text(json.dumps({**STACK, "examples": None}))
    return tmp_path


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(network, "resolve", lambda host: [])
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}


def explain(
    argv: list[str], environ: dict[str, str], root: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, object]:
    assert main(["--explain=json", *argv], environ, str(root)) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_smoke_trains_alone_with_python(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = explain(["--nproc", "1", "smoke", "--bf16"], environ, root, capsys)
    assert found["launcher"] == "alone"
    assert found["argv"] == ["python3", f"{root}/smoke.py", "--bf16"]
    assert isinstance(found["set"], dict) and found["set"]["MULTINODE_WORLD_SIZE"] == "1"


@pytest.mark.parametrize("value", ["~/hf", "$HOME/hf"])
def test_a_cache_in_the_user_s_home_is_explained(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str], value: str
) -> None:
    found = explain(["true"], {**environ, "HF_HOME": value}, root, capsys)
    assert isinstance(found["set"], dict) and found["set"]["HF_HOME"] == f"{environ['HOME']}/hf"


def test_an_elastic_pytorchjob_starts_torchrun(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {"PET_RDZV_ENDPOINT": "w-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:4", "PET_NPROC_PER_NODE": "2"}
    found = explain(["smoke"], {**environ, **pod, "PET_STANDALONE": ""}, root, capsys)
    assert found["launcher"] == "torchrun"
    assert found["argv"] == ["torchrun", "--nproc_per_node", "2", f"{root}/smoke.py"]


@pytest.mark.parametrize(
    ("value", "added", "kept"),
    [({}, "1", None), ({"ACCELERATE_USE_CPU": "1"}, None, None), ({"ACCELERATE_USE_CPU": "0"}, None, "0")],
)
def test_the_image_s_own_settings_are_not_called_the_user_s(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str],
    value: dict[str, str], added: str | None, kept: str | None,
) -> None:  # fmt: skip
    (root / "train.py").touch()
    found = explain(["--nproc", "1", f"{root}/train.py"], {**environ, **value}, root, capsys)
    assert isinstance(found["set"], dict) and isinstance(found["kept"], dict)
    assert found["set"].get("ACCELERATE_USE_CPU") == added and found["kept"].get("ACCELERATE_USE_CPU") == kept


@pytest.mark.parametrize(
    ("argv", "variables", "code", "said"),
    [
        ([], {}, 2, "usage:"),
        (["--help"], {}, 0, "usage:"),
        (["-h"], {}, 0, "usage:"),
        (["qaa"], {}, 127, "try: qa"),
        ([""], {}, 127, "nor a program: ''"),
        (["--explain=xml", "sh"], {}, 2, "before the command: --explain=xml"),
        (["--explain", "doctor"], {}, 2, "no meaning for a command that only prints: doctor"),
        (["--explain", "tasks"], {}, 2, "no meaning for a command that only prints: tasks"),
        (["--nproc", "2", "launch", "smoke"], {}, 2, "launch --ppn"),
        (["--nproc", "2", "smoke"], {"K_MPI_JOB_ROLE": "launcher"}, 2, "launch --ppn"),
        (["qa"], {}, 2, "--examples"),
        (["launch", "--hosts", "192.0.2.1,192.0.2.2", "qa"], {}, 2, "--examples"),
        (["--explain", "launch", "--hosts", "192.0.2.1,192.0.2.2", "qa"], {}, 2, "--examples"),
        (["--explain", "launch", "--hosts", "192.0.2.1,192.0.2.2", "smoke"], {"MASTER_PORT": "x"}, 2, "65535: 'x'"),
        (
            ["--explain", "launch", "--hosts", "192.0.2.1:1,192.0.2.2:1", "smoke"],
            {"MULTINODE_WORLD_SIZE": "4"},
            2,
            "smaller than MULTINODE_WORLD_SIZE: 2 of 4",
        ),
        (["smoke"], {"WORLD_SIZE": "2"}, 2, "meant to be one of many: WORLD_SIZE=2"),
        (["smoke"], {"PET_NNODES": "2"}, 2, "PET_NNODES=2"),
        (["smoke"], {"MULTINODE_WORLD_SIZE": "two"}, 2, "above 0 nor a range: 'two'"),
        (["smoke"], {"MULTINODE_WORLD_SIZE": "0"}, 2, "above 0 nor a range: '0'"),
        (["smoke"], {"PET_NPROC_PER_NODE": "9999"}, 2, "up to 4096: '9999'"),
        (["worker", "--port", "2223"], {}, 2, "worker takes no arguments: --port"),
        (["tasks", "--json"], {}, 2, "tasks takes no arguments: --json"),
        (["smoke"], {"PMI_RANK": "0", "PMI_SIZE": "x"}, 2, "PMI_SIZE is not a number"),
        (
            ["python3", "-m", "torch.distributed.run", "train.py"],
            {"K_MPI_JOB_ROLE": "launcher"},
            2,
            "without its workers: K_MPI_JOB_ROLE is launcher\n  try: multinode train.py without torchrun",
        ),
        (
            ["python3", "-m", "accelerate.commands.launch", "--cpu", "train.py"],
            {"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile"},
            2,
            "accelerate would train in the launcher of an MPIJob",
        ),
    ],
)
def test_a_mistake_ends_with_its_code_and_a_remedy(
    root: Path,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    variables: dict[str, str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(argv, {**environ, **variables}, str(root)) == code
    assert said in capsys.readouterr().err


def test_who_presses_ctrl_c_gets_the_exit_code_of_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "run", run)
    assert main(["smoke"], {}, "/nowhere") == 130


@pytest.mark.parametrize(
    ("error", "more", "reports"),
    [
        (Refusal("there is no", "such", "script"), {"MULTINODE_SUPERVISED": "1"}, [2]),
        (Refusal("there is no", "such", "program", 127), {"MULTINODE_SUPERVISED": "1"}, [127]),
        (PermissionError("no"), {"MULTINODE_SUPERVISED": "1"}, [1]),
        (KeyboardInterrupt(), {"MULTINODE_SUPERVISED": "1"}, [130]),
        (Refusal("there is no", "such", "script"), {}, []),
        (None, {"MULTINODE_SUPERVISED": "1"}, []),
    ],
)
def test_launch_hears_of_every_rank_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, error: BaseException | None, more: dict[str, str], reports: list[int]
) -> None:
    """A rank that has been supervised has been reported already."""
    told: list[int] = []

    def run(*_: object) -> int:
        if error:
            raise error
        return 7

    monkeypatch.setattr(program, "run", run)
    monkeypatch.setattr("entrypoint.mpi.rank.report_refused", lambda _, code: told.append(code))
    code = main(["train.py"], {"PMI_RANK": "1", **more}, "/nowhere")
    assert told == reports and code == (reports[0] if reports else 2 if error else 7)


def test_sigterm_ends_a_process_that_waits() -> None:
    before = signal.getsignal(signal.SIGTERM)
    heed_sigterm()
    try:
        with pytest.raises(SystemExit) as caught:
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert caught.value.code == 143


@pytest.mark.parametrize("left", [{}, {"K_MPI_JOB_ROLE": "launcher", "I_MPI_HYDRA_HOST_FILE": "hosts"}])
def test_launch_is_explained_with_its_ranks(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    left: dict[str, str],
) -> None:  # fmt: skip
    monkeypatch.chdir(root)
    (root / "hosts").write_text("192.0.2.1:2\n192.0.2.2:2\n")
    words = ["smoke", "--bf16"] if left else ["launch", "--hostfile", "hosts", "smoke", "--bf16"]
    found = explain(words, {**environ, **left}, root, capsys)
    hydra = ["mpiexec.hydra", "-disable-auto-cleanup", "-machinefile", "HOSTS", "-n", "4"]
    assert found["argv"] == [*hydra, "python3", "-I", "-S", str(root), "smoke", "--bf16"]
    assert isinstance(found["set"], dict) and isinstance(found["world"], dict)
    assert found["set"].keys() == {"MASTER_ADDR", "MASTER_PORT", "MULTINODE_WORLD_SIZE"}
    world = {"size": 4, "nodes": [2, 2], "local_size": 2, "master": "192.0.2.1", "rank": None}
    assert world.items() <= found["world"].items()
    assert (found["set"]["MASTER_ADDR"], found["set"]["MASTER_PORT"]) == ("192.0.2.1", str(found["world"]["port"]))
    assert "ranks on 192.0.2.1:2 192.0.2.2:2" in str(found["notes"])


def test_a_broken_world_is_a_note_beside_other_commands(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = explain(["sh"], {**environ, "PMI_RANK": "0", "PMI_SIZE": "x"}, root, capsys)
    assert found["argv"] == ["sh"]
    assert "PMI_SIZE is not a number" in str(found["notes"])


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"torch": 1}'])
def test_a_damaged_stack_ends_with_1(
    tmp_path: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "stack.json").write_text(text)
    assert main(["smoke"], environ, str(tmp_path)) == 1
    assert "stack.json is damaged" in capsys.readouterr().err


NSS = "/usr/lib/libnss_wrapper.so"
TCMALLOC = Setting("LD_PRELOAD", "/a/libtcmalloc.so.4", "")


@pytest.mark.parametrize(
    ("environ", "preload", "expected"),
    [
        ({}, None, "/a/libtcmalloc.so.4"),
        ({"LD_PRELOAD": "/mine.so"}, None, "/mine.so"),
        ({}, NSS, f"/a/libtcmalloc.so.4:{NSS}"),
        ({"LD_PRELOAD": "/mine.so"}, NSS, f"/mine.so:{NSS}"),
    ],
)
def test_preloads_are_the_same_for_an_entrypoint_and_one_below_it(
    environ: dict[str, str], preload: str | None, expected: str
) -> None:
    above = assemble(environ, Identity({}, preload, (), {}), [], [TCMALLOC]).environ
    assert above["LD_PRELOAD"] == expected

    # The name is known below, because nss_wrapper is loaded there.
    below = assemble(forget(above), Identity({}, None, (), {}), [], [TCMALLOC]).environ
    assert below["LD_PRELOAD"] == expected


BY_HAND = {"RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "192.0.2.9"}
LAUNCHER = {"K_MPI_JOB_ROLE": "launcher"}
WORKER = {"PET_NNODES": "2", "PET_MASTER_ADDR": "pod0", "PET_NODE_RANK": "1"}


@pytest.mark.parametrize(
    ("argv", "variables", "note"),
    [
        (["python3", "train.py"], {"WORLD_SIZE": "2"}, "this process is alone, but was meant to be one of many"),
        (["python3", "train.py"], {"JOB_COMPLETION_INDEX": "1"}, "pod 1 of an Indexed Job trains alone"),
        (["smoke"], {"JOB_COMPLETION_INDEX": "1"}, "pod 1 of an Indexed Job trains alone"),
        (["smoke"], {"JOB_COMPLETION_INDEX": "0"}, None),
        (["smoke"], BY_HAND, "export LOCAL_WORLD_SIZE"),
        (["bash", "-c", "mpirun -n 2 python3 train.py"], LAUNCHER, None),
        (["python3", "-c", "pass"], LAUNCHER, None),
        (["smoke"], {**BY_HAND, "LOCAL_WORLD_SIZE": "1"}, None),
        (["sh"], {"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "2"}, None),
    ],
)
def test_a_training_that_is_alone_is_noted(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str],
    argv: list[str], variables: dict[str, str], note: str | None,
) -> None:  # fmt: skip
    notes = str(explain(argv, {**environ, **variables}, root, capsys)["notes"])
    assert note in notes if note else not ("alone" in notes or "torchrun" in notes)


LINK = "tcp://10.0.0.1:80"


@pytest.mark.parametrize(
    ("argv", "variables"),
    [
        (["smoke"], {"PMI_PORT": LINK}),
        (["worker"], {"MULTINODE_SSH_PORT": LINK}),
        (["smoke"], {**WORKER, "MASTER_PORT": LINK, "PET_MASTER_PORT": LINK}),
        (["launch", "--hosts", "192.0.2.1,192.0.2.2", "smoke"], {"MASTER_PORT": LINK}),
    ],
)
def test_a_service_of_the_same_name_says_nothing(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str],
    argv: list[str], variables: dict[str, str],
) -> None:  # fmt: skip
    """Kubernetes names its variables in every pod: MASTER_PORT for a Service `master`."""
    assert LINK not in str(explain(argv, {**environ, **variables}, root, capsys))


@pytest.mark.parametrize(
    ("variables", "insisted"),
    [
        (WORKER, "2:"),
        ({**WORKER, "PET_NPROC_PER_NODE": "2"}, "4"),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1", "MASTER_ADDR": "pod0"}, "2"),
    ],
)
def test_what_is_insisted_on(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str],
    variables: dict[str, str], insisted: str | None,
) -> None:  # fmt: skip
    given = explain(["smoke"], {**environ, **variables}, root, capsys)["set"]
    assert isinstance(given, dict) and given.get("MULTINODE_WORLD_SIZE") == insisted


def test_launch_in_the_shell_of_an_mpirun_has_a_master_that_all_hosts_reach(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The entrypoint sets loopback for the only rank, which is the shell."""
    shell = {**environ, "PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALNRANKS": "1"}
    given = explain(["launch", "--hosts", "192.0.2.1:1,192.0.2.2:1", "smoke"], shell, root, capsys)["set"]
    assert isinstance(given, dict) and given["MASTER_ADDR"] == "192.0.2.1"


def test_a_job_has_a_name(root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    given = explain(["smoke"], {**environ, **left_by("slurm-step")}, root, capsys)["set"]
    assert isinstance(given, dict) and given["MULTINODE_JOB"] == "SLURM_JOB_ID=7.0"


def test_a_typed_torchrun_in_two_jobs_of_slurm_meets_twice(
    root: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "torchrun").write_text("#!/bin/sh\n")
    (root / "torchrun").chmod(0o755)
    argv = ["torchrun", "--nnodes", "2", "--rdzv-endpoint", "192.0.2.1:29400", "train.py"]
    more = {**left_by("slurm-batch"), "PATH": f"{root}:/usr/bin:/bin"}
    given = explain(argv, {**environ, **more}, root, capsys)["set"]
    assert isinstance(given, dict) and given["PET_RDZV_ID"] == "train-py-7"
