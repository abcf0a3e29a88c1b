"""A whole start up to exec: what the parts find is what the command gets."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import entrypoint.__main__ as program
from entrypoint import decide, facts
from entrypoint import run as carry_out
from entrypoint.machine import places
from entrypoint.rendezvous import master, wait
from entrypoint.rendezvous import torchrun as rendezvous
from entrypoint.tasks.table import TASKS
from entrypoint.tuning.bind import RANK
from tests.support.launchers import left_by
from tests.support.machines import Box, look_at

STACK = {"torch": "2.13.0+cpu", "transformers": "5.23.0", "python": "3.11", "backend": "gloo"}
WORKER = {"PET_NNODES": "2", "PET_MASTER_ADDR": "late", "PET_NODE_RANK": "1"}
MASTER = {**WORKER, "PET_NODE_RANK": "0"}


class Replaced(BaseException):
    """In the place of exec: the command and its environment."""


class Started(NamedTuple):
    """What a start has come to: the exit code, or the command with its environment; and what was printed on stderr."""

    code: int | None
    argv: list[str]
    environ: Mapping[str, str]
    err: str


Start = Callable[..., Started]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "stack.json").write_text(json.dumps({**STACK, "site": str(tmp_path), "examples": str(tmp_path)}))
    for task in TASKS.values():
        script = tmp_path / "examples/pytorch/text" / task.file
        script.parent.mkdir(parents=True, exist_ok=True)
        script.touch()
    for package in ("datasets-4.0.0", "evaluate-0.4", "nltk-3.9", "rouge_score-0.1", "seqeval-1.2"):
        (tmp_path / f"{package}.dist-info").mkdir()
    for name in ("torchrun", "deepspeed"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def start(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Start:
    """Start a command on two sockets of 28 cores; torchrun is found, and no name server is asked."""

    def replace(file: str, argv: list[str], environ: Mapping[str, str]) -> None:
        raise Replaced(argv, environ)

    monkeypatch.setattr(os, "execvpe", replace)
    monkeypatch.setattr(facts, "read_this_machine", lambda files: look_at(Box(2, 28, 2)))
    monkeypatch.setattr(decide, "choose_interface", lambda routes, host: "eth0")
    monkeypatch.setattr(wait, "can_resolve", lambda name: True)
    monkeypatch.setattr(master, "try_port", lambda port: None)
    monkeypatch.setattr(rendezvous, "is_free", lambda port: True)
    for module in (master, rendezvous):
        monkeypatch.setattr(module, "is_here", lambda host: False)
    monkeypatch.setattr(rendezvous, "split_addresses", lambda host: ([], []))
    monkeypatch.setattr(master, "list_choices", lambda host: [])
    monkeypatch.setattr(rendezvous, "own_address", lambda host: "10.77.0.2")
    monkeypatch.setattr(wait, "PAUSE", 0)

    def run(*argv: str, **variables: str) -> Started:
        environ = {"PATH": f"{home}:/usr/bin:/bin", "HOME": str(home), **variables}
        try:
            return Started(program.main(list(argv), environ, str(home)), [], {}, capsys.readouterr().err)
        except Replaced as replaced:
            return Started(None, replaced.args[0], replaced.args[1], capsys.readouterr().err)

    return run


def test_the_interface_is_chosen_when_the_master_has_a_name(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[str] = []

    def resolve(name: str) -> bool:
        known.append(name)
        return len(known) > 2

    monkeypatch.setattr(wait, "can_resolve", resolve)
    monkeypatch.setattr(decide, "choose_interface", lambda routes, host: "ib0" if len(known) > 2 else "eth0")

    done = start("smoke", **WORKER)

    assert "waiting until late resolves" in done.err
    assert known == ["late"] * 3
    assert (done.environ["GLOO_SOCKET_IFNAME"], done.environ["FI_TCP_IFACE"]) == ("ib0", "ib0")
    assert "gloo on ib0" in done.err and "eth0" not in done.err


@pytest.mark.parametrize(
    ("argv", "variables", "code"),
    [
        (["smoke"], MASTER, 2),
        (["--nproc", "2", "smoke"], {}, 2),
        (["torchrun", "--nproc-per-node", "2", "train.py"], {}, 2),
        (["--nproc", "1", "smoke"], {}, None),
        (["true"], MASTER, None),
    ],
)
def test_ranks_do_not_meet_on_an_interface_that_is_not_there(
    start: Start, argv: list[str], variables: dict[str, str], code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry_out, "list_directory", lambda path: ["eth0", "lo"])

    done = start(*argv, **variables, GLOO_SOCKET_IFNAME="ib9")

    assert done.code == code
    assert ("name one of these: eth0, lo" in done.err) == (code is not None)
    assert start(*argv, **variables, GLOO_SOCKET_IFNAME="lo,eth0").code is None


def test_a_node_that_has_to_choose_among_networks_says_so(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "was taken of" not in start("smoke", **MASTER).err

    monkeypatch.setattr(master, "list_choices", lambda host: ["eth0", "eth1"])

    said = "late is this node, on several networks, so eth0 was taken of eth0, eth1"
    assert said in start("smoke", **MASTER).err
    assert "was taken of" not in start("true", **MASTER).err


@pytest.mark.parametrize(("variables", "code"), [(MASTER, 138), (WORKER, None)])
def test_the_node_of_rank_0_is_asked_for_its_port(
    start: Start, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], code: int | None
) -> None:
    monkeypatch.setattr(master, "try_port", lambda port: OSError(98, "Address already in use"))

    assert start("smoke", **variables).code == code
    assert start("true", **variables).code is None


def test_data_with_which_a_script_evaluates_are_asked_for_before_it_starts(start: Start, home: Path) -> None:
    done = start("summarization", "--output_dir", str(home))

    assert done.code == 2
    assert "its script does not download: tokenizers/punkt_tab\n  try: run `prefetch summarization`" in done.err


def test_what_prefetch_has_brought_of_nltk_is_found(start: Start, home: Path) -> None:
    for name in ("punkt", "punkt_tab"):
        (home / "nltk_data/tokenizers" / name).mkdir(parents=True)

    done = start("summarization", "--output_dir", str(home), HF_HOME=str(home), HF_HUB_OFFLINE="1")

    assert (done.code, done.environ["NLTK_DATA"]) == (None, str(home / "nltk_data"))


@pytest.mark.parametrize("value", ["~/hf", "$HOME/hf"])
def test_what_prefetch_has_brought_is_found_at_a_path_that_is_not_whole(start: Start, home: Path, value: str) -> None:
    for name in ("punkt", "punkt_tab"):
        (home / "hf/nltk_data/tokenizers" / name).mkdir(parents=True)

    done = start("summarization", "--output_dir", str(home), HF_HOME=value, HF_HUB_OFFLINE="1")

    assert (done.environ["HF_HOME"], done.environ["NLTK_DATA"]) == (f"{home}/hf", f"{home}/hf/nltk_data")
    assert f"HF_HOME={home}/hf is set: a whole path in the place of '{value}'" in done.err


@pytest.mark.parametrize("value", ["", "~/shut"])
def test_a_cache_that_is_nowhere_is_at_home(
    start: Start, home: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setattr(places, "can_write", lambda path: not path.endswith("shut"))
    assert start("true", HF_HOME=value).environ["HF_HOME"] == f"{home}/.cache/huggingface"


@pytest.mark.parametrize("words", [("swag",), ("prefetch", "swag")])
def test_a_script_that_the_examples_lack_is_said(start: Start, home: Path, words: tuple[str, ...]) -> None:
    (home / "examples/pytorch/text/run_swag.py").unlink()

    done = start(*words, HF_HOME=str(home))

    assert done.code == 2
    assert "do not have the script of the task: run_swag.py" in done.err
    assert f"mount examples that have it at {home}" in done.err


def test_a_package_of_the_requirements_that_is_not_there_is_said(start: Start, home: Path) -> None:
    (home / "examples/pytorch/text/requirements.txt").write_text("datasets >= 1.8\nrouge-score\nno_such_package\n")

    done = start("ner", "--output_dir", str(home))

    assert done.code == 2
    assert "lacks requirements of ner: no_such_package" in done.err


def test_every_script_of_the_examples_is_a_task(start: Start, home: Path) -> None:
    script = home / "examples/pytorch/images/run_image_classification.py"
    script.parent.mkdir()
    script.touch()

    done = start("--nproc", "1", "image-classification", "--dataset_name", "beans")

    assert done.argv == [
        "python3", str(script), "--output_dir", "/workspace/output/image-classification", "--use_cpu",
        "--dataset_name", "AI-Lab-Makerere/beans",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        ("qa --report_to wandb", "wandb"),
        ("qa --report_to=tensorboard", "tensorboard"),
        ("qa --rep none mlflow", "mlflow"),
        ("qa args.json", "comet_ml"),
        ("qa-no-trainer --with_tracking --report_to wandb", "wandb"),
        ("qa-no-trainer --report_to wandb", None),
        ("qa --report_to none", None),
        ("qa --report_to all", None),
        ("qa --report_to trackio", None),
    ],
)
def test_what_is_reported_to_is_in_the_image(start: Start, home: Path, line: str, lacking: str | None) -> None:
    (home / "trackio-0.3.dist-info").mkdir()
    (home / "args.json").write_text(json.dumps({"report_to": ["trackio", "comet_ml"], "output_dir": str(home)}))
    words = [str(home / word) if word.endswith(".json") else word for word in line.split()]

    done = start(*words, *([] if words[1].endswith(".json") else ["--output_dir", str(home)]))

    assert done.code == (2 if lacking else None)
    assert (f"what --report_to names: {lacking}\n" in done.err) is bool(lacking)


def test_models_stay_where_the_guide_puts_them(start: Start, home: Path) -> None:
    done = start("ner", "--output_dir", str(home), TRANSFORMERS_CACHE="/pvc/models")

    assert done.environ["HF_HUB_CACHE"] == "/pvc/models"
    assert "HF_HUB_CACHE=/pvc/models is set: transformers 5.23.0 does not read TRANSFORMERS_CACHE" in done.err


def test_a_translated_file_of_arguments_is_there(start: Start, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, str] = {}
    monkeypatch.setattr(carry_out, "write_in_private", written.__setitem__)
    (home / "args.json").write_text(json.dumps({"no_cuda": True, "output_dir": str(home)}))

    done = start("--nproc", "1", "ner", str(home / "args.json"))

    ((path, text),) = written.items()
    assert done.argv[-1] == path
    assert json.loads(text) == {"use_cpu": True, "output_dir": str(home)}


@pytest.mark.parametrize(
    ("words", "variables", "threads", "bound"),
    [
        (("python3", "x.py"), {}, "56", True),
        (("generation",), {}, "56", True),
        (("sh",), {}, "56", False),
        (("torchrun", "x.py"), {}, "56", False),
        (("torchrun", "--nproc-per-node", "4", "x.py"), {}, "14", False),
        (("torchrun", "--nproc-per-node", "auto", "x.py"), {}, "28", False),
        (("python3", "-m", "torch.distributed.run", "--nproc_per_node=8", "x.py"), {}, "7", False),
        (("mpirun", "-n", "4", "python3", "x.py"), {}, "14", False),
        (("deepspeed", "x.py"), {}, None, False),
        (("--nproc", "7", "smoke"), {}, "8", False),
        (("smoke",), {"OMP_NUM_THREADS": "56"}, "56", True),  # room for one process
    ],
)
def test_every_process_has_its_share(
    start: Start, home: Path, monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], variables: dict[str, str], threads: str | None, bound: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr("entrypoint.tuning.threads.has_iomp", lambda scene: True)
    (home / "mpirun").write_text("")
    (home / "mpirun").chmod(0o755)

    done = start(*words, **variables)

    assert done.environ.get("OMP_NUM_THREADS") == threads
    assert ("KMP_AFFINITY" in done.environ) == bound


def test_torchrun_gets_no_empty_variable_of_an_operator(start: Start) -> None:
    """It fails on the PET_STANDALONE= of an elastic PyTorchJob."""
    environ = start("smoke", **left_by("pytorchjob-elastic")).environ
    assert "PET_STANDALONE" in left_by("pytorchjob-elastic") and "PET_STANDALONE" not in environ


def test_a_rank_has_its_place_under_the_names_of_torch(start: Start) -> None:
    done = start("smoke", **left_by("slurm-step"), RANK="0", WORLD_SIZE="1")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    assert [done.environ[name] for name in names] == ["3", "4", "1", "2", "n03"]


def test_a_torchrun_without_a_number_gets_one_in_a_pod(start: Start) -> None:
    assert start("torchrun", "x.py", **left_by("pytorchjob-master")).environ["PET_NPROC_PER_NODE"] == "2"


def test_a_torchrun_gets_a_number_in_the_place_of_auto(start: Start) -> None:
    assert start("torchrun", "--nproc-per-node", "auto", "x.py").argv == ["torchrun", "--nproc-per-node", "2", "x.py"]


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("smoke --help", {}),
        ("--nproc 2 smoke -h", {}),
        ("qa --help", {}),
        ("qa -h --bf16", {}),
        ("--nproc 2 qa --output_dir /proc/qa --help", {}),
        ("qa --help", MASTER),
        ("qa --help", {"WORLD_SIZE": "2"}),
        ("qa --help", {"K_MPI_JOB_ROLE": "launcher"}),
        ("qa-no-trainer --help", left_by("pytorchjob-elastic")),
        ("summarization --help", {"HF_HUB_OFFLINE": "1"}),
    ],
)
def test_who_asks_a_script_for_its_arguments_starts_no_training(
    start: Start, home: Path, line: str, variables: dict[str, str]
) -> None:
    done = start(*line.split(), **variables)
    words = line.replace("--nproc 2 ", "").split()
    task = TASKS.get(words[0])
    script = f"{home}/examples/pytorch/text/{task.file}" if task else f"{home}/smoke.py"
    assert (done.argv, done.code) == (["python3", script, "--help"], None)
    assert not done.environ.keys() & {"MULTINODE_RUN", "MULTINODE_RESUME"}


@pytest.mark.parametrize("line", ["prefetch --help", "prefetch -h", "prefetch qa --help", "--nproc 2 prefetch qa -h"])
def test_who_asks_prefetch_for_its_arguments_fetches_nothing(start: Start, line: str) -> None:
    done = start(*line.split())
    assert (done.argv, done.code) == ([], 0)
    assert "prefetch TASK [ARG...]" in done.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"MULTINODE_WORLD_SIZE": "2"}, ""),
        ({"MULTINODE_WORLD_SIZE": "2:4"}, ""),
        ({"MULTINODE_WORLD_SIZE": "3:"}, "smaller than MULTINODE_WORLD_SIZE: 2 of 3\n  try: start 3 processes"),
        (
            {"MULTINODE_WORLD_SIZE": "8"},
            "2 of 8\n  try: start 8 processes in all: PET_NNODES=4, torchrun --nnodes 4",
        ),
        ({"MULTINODE_WORLD_SIZE": "1"}, "larger than MULTINODE_WORLD_SIZE: 2 of 1\n"),
        # What the entrypoint has set is right for the node where it did.
        ({"MULTINODE_WORLD_SIZE": "8", "MULTINODE_SET": "MULTINODE_WORLD_SIZE=8"}, ""),
        # In a shell any number of ranks may be started.
        ({"MULTINODE_WORLD_SIZE": "8", "MULTINODE_COUNTS": ""}, ""),
    ],
)
def test_a_rank_does_not_train_in_a_world_of_another_size(start: Start, more: dict[str, str], said: str) -> None:
    done = start("rank", "-u", "x.py", **left_by("torchrun-worker"), **{"MULTINODE_COUNTS": "1", **more})

    assert (done.code, done.argv) == ((2, []) if said else (None, ["python3", "-u", "x.py"]))
    assert said in done.err


@pytest.mark.parametrize(
    ("words", "more", "looks"),
    [
        ("smoke", {}, False),
        ("smoke", {"MULTINODE_WORLD_SIZE": "2:4"}, False),
        ("smoke", {"MULTINODE_WORLD_SIZE": "4"}, True),
        ("smoke", {"MULTINODE_WORLD_SIZE": "3:"}, True),
        ("torchrun --nnodes 2:4 x.py", {"MULTINODE_WORLD_SIZE": "4"}, True),
        ("torchrun --nnodes 2:4 x.py", {}, False),
        ("torchrun --nnodes 4 x.py", {"MULTINODE_WORLD_SIZE": "4"}, False),
    ],
)
def test_the_ranks_of_an_elastic_job_look_how_many_they_are_where_somebody_insists_on_it(
    start: Start, monkeypatch: pytest.MonkeyPatch, words: str, more: dict[str, str], looks: bool
) -> None:
    monkeypatch.setattr(facts, "read_this_machine", lambda files: look_at(Box(1, 1)))
    monkeypatch.setattr(os.path, "exists", lambda path: path == RANK or Path(path).is_file())

    done = start(*words.split(), **more, PET_RDZV_ENDPOINT="w-0:23456", PET_NNODES="2:4")

    assert done.environ.get("PYTHON_EXEC") == (RANK if looks else None)


def test_the_nodes_in_a_file_of_pbs_are_counted(start: Start, home: Path) -> None:
    (home / "nodes").write_text("node0\nnode0\nnode1\n")

    done = start("smoke", PBS_NODEFILE=str(home / "nodes"))

    assert done.code == 2
    assert "meant to be one of many: PBS_NUM_NODES=2" in done.err


def test_a_pipe_is_not_read(start: Start, home: Path) -> None:
    """Where nobody writes into it, a start would wait for ever."""
    pipe = home / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("node0\nnode1\n",), daemon=True)
    writer.start()

    done = start("smoke", PBS_NODEFILE=str(pipe))

    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer.join(10)
    os.close(end)
    assert done.code is None


@pytest.mark.parametrize(("number", "heeded"), [(1, True), (2, False)])
def test_the_first_process_of_a_container_heeds_sigterm(
    start: Start, monkeypatch: pytest.MonkeyPatch, number: int, heeded: bool
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(os, "getpid", lambda: number)
    try:
        start("--help")
        assert (signal.getsignal(signal.SIGTERM) is not before) == heeded
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        ("smoke", {**WORKER, "PET_STANDALONE": "1"}, "a standalone torchrun meets no other node: "),
        ("smoke", {**WORKER, "PET_STANDALONE": "yes"}, "PET_STANDALONE is not a number: 'yes'"),
        ("torchrun --standalone x.py", {"PET_NNODES": "2"}, "a standalone torchrun meets no other node: 2 nodes"),
        ("torchrun --nnodes 1:2 x.py", {"PET_STANDALONE": "1"}, "a standalone torchrun meets no other node: 2 nodes"),
        ("torchrun --standalone --nnodes 2 --help", {}, ""),
    ],
)
def test_a_standalone_torchrun_is_refused_where_it_is_started(
    start: Start, words: str, variables: dict[str, str], said: str
) -> None:
    done = start(*words.split(), **variables)

    assert done.code == (2 if said else None)
    assert said in done.err


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        ("smoke", WORKER, "waiting for the master at late:29500, and then for 2 nodes, 900 s at most for each"),
        ("smoke", {**MASTER, "PET_RDZV_CONF": "timeout=20"}, "waiting for 2 nodes at late:29500, 20 s at most"),
        ("smoke", {"PET_NNODES": "1:4", "PET_RDZV_ENDPOINT": "m:7"}, "waiting for 1 to 4 nodes at m:7, 600 s at most"),
        ("torchrun --rdzv_conf timeout=30 x.py", MASTER, "waiting for 2 nodes at late:29500, 30 s at most"),
        ("python3 -m torch.distributed.run x.py", MASTER, "waiting for 2 nodes at late:29500, 900 s at most"),
        ("smoke", left_by("intel-mpi-1"), None),
        ("true", MASTER, None),
        ("--nproc 2 smoke", {}, None),
        ("--explain smoke", MASTER, None),
    ],
)
def test_a_node_says_for_whom_it_is_going_to_wait(
    start: Start, words: str, variables: dict[str, str], said: str | None
) -> None:
    lines = start(*words.split(), **variables).err.splitlines()

    assert [line for line in lines if "waiting" in line] == ([f"multinode: {said}"] if said else [])


@pytest.mark.parametrize(
    ("words", "variables", "found"),
    [
        ("smoke", {"PET_NNODES": "1:2", "PET_RDZV_ENDPOINT": "localhost:29400"}, "only those on this"),
        (
            "torchrun --nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint localhost:29400 x.py",
            {},
            "only those on this",
        ),
    ],
)
def test_a_typed_torchrun_may_meet_others_on_this_machine(
    start: Start, words: str, variables: dict[str, str], found: str
) -> None:
    done = start(*words.split(), **variables)

    assert done.code == (2 if words == "smoke" else None)
    assert f"the nodes meet on loopback, where {found} machine find each other: localhost" in done.err
    assert done.code or "one of 1 to 2 nodes" in done.err


@pytest.mark.parametrize(
    ("words", "variables", "refused"),
    [
        ("torchrun --nnodes 2 --nproc-per-node 1 x.py", {}, True),
        ("torchrun --nnodes 1:2 --rdzv-backend c10d x.py", {}, True),
        ("torchrun x.py", {"PET_NNODES": "2"}, True),
        ("torchrun --help", {}, False),
        ("torchrun --nnodes 2 --master-addr 127.0.0.1 x.py", {}, False),
        ("torchrun --nnodes 2 --help", {}, False),
        ("torchrun --nnodes 2 x.py --help", {}, True),
    ],
)
def test_a_typed_torchrun_of_several_nodes_without_a_place_to_meet_is_refused(
    start: Start, words: str, variables: dict[str, str], refused: bool
) -> None:
    done = start(*words.split(), **variables)

    assert (done.code == 2) == refused
    assert ("nothing says where the nodes of this torchrun meet: --nnodes" in done.err) == refused


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ("--nnodes 2 --node-rank 5 --master-addr node0", "the node's rank is not below the number of nodes: 5 of 2"),
        ("--nnodes 2 --node-rank 5 --master-addr node0", "of a typed torchrun --node_rank and --nnodes"),
        ("--nnodes 2 --node-rank 0 --master-addr node0:29500", "MASTER_ADDR"),
        ("--nnodes 2 --node-rank 0 --master-addr node0 --master-port abc", "'abc'"),
        ("--master-port 0", "the master's port is not a number from 1 to 65535: '0'"),
        ("--master-port 99999", "the master's port is not a number from 1 to 65535: '99999'"),
        (
            "--master_port=-1 --nproc-per-node 2",
            "try: export PET_MASTER_PORT=29500; of a typed torchrun --master_port 29500",
        ),
        ("--rdzv-endpoint node0:99999", "of a typed torchrun --rdzv_endpoint node0:29500"),
        ("--nnodes two --node-rank 0 --master-addr node0", "PET_NNODES is neither a number nor a range: 'two'"),
    ],
)
def test_what_is_wrong_with_a_typed_torchrun_is_said(start: Start, options: str, fact: str) -> None:
    done = start("torchrun", *options.split(), "x.py")

    assert done.code == 2 and fact in done.err
    assert "nothing says where the nodes" not in done.err


APART = "torchrun would train a model of its own in each process of a launcher: "


@pytest.mark.parametrize(
    ("words", "left", "more", "said"),
    [
        ("torchrun --nproc_per_node 2 x.py", (), {}, ""),
        ("torchrun --nproc_per_node 1 x.py", ("slurm-one-task",), {}, ""),
        ("torchrun --nproc_per_node 4 x.py", ("slurm-batch",), {}, ""),
        ("torchrun --nproc_per_node 1 x.py", ("slurm-step",), {}, f"{APART}SLURM_PROCID and SLURM_STEP_NUM_TASKS are"),
        ("torchrun --nproc_per_node 1 x.py", ("intel-mpi-1",), {}, f"{APART}PMI_RANK and PMI_SIZE are set\n"),
        ("torchrun --standalone x.py", ("open-mpi-1",), {}, "try: multinode x.py without torchrun, which is one rank"),
        ("python3 -m torch.distributed.run -m x", ("intel-mpi-1",), {}, "try: multinode SCRIPT.py without torchrun"),
        ("torchrun --nnodes 2 --rdzv-endpoint m:7 x.py", ("slurm-step",), {}, ""),
        ("torchrun --nnodes 2 --node-rank 1 --master-addr m x.py", ("intel-mpi-1",), {}, ""),
        ("torchrun x.py", ("pytorchjob-master", "intel-mpi-1"), {}, ""),
        ("torchrun --nproc_per_node 1 x.py", ("torchrun-worker",), {}, ""),
        ("torchrun --nproc_per_node 4 x.py", (), {"MULTINODE_WORLD_SIZE": "4"}, ""),
        ("torchrun --nnodes 1:4 --rdzv-endpoint m:7 x.py", (), {"MULTINODE_WORLD_SIZE": "4"}, ""),
        ("torchrun --nproc_per_node 2 x.py", (), {"MULTINODE_WORLD_SIZE": "4"}, "2 of 4\n  try: start 4 processes"),
        ("python3 -m torch.distributed.run x.py", (), {"MULTINODE_WORLD_SIZE": "4"}, "1 of 4\n"),
        ("true", ("intel-mpi-1",), {"MULTINODE_WORLD_SIZE": "4"}, ""),
    ],
)
def test_a_typed_torchrun_trains_in_the_world_that_was_meant(
    start: Start, words: str, left: tuple[str, ...], more: dict[str, str], said: str
) -> None:
    done = start(*words.split(), **left_by(*left), **more)

    assert done.code == (2 if said else None)
    assert said in done.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("accelerate", "launch", "--cpu", "--num_processes", "2", "x.py"), "torchrun --nproc_per_node 2 SCRIPT.py"),
        (("--nproc", "2", "generation"), "--nproc has no meaning"),
        (("--nproc", "2", "worker"), "--nproc has no meaning"),
        (("--nproc", "2", "sh"), "--nproc has no meaning"),
        (("--nproc", "2", "prefetch", "qa"), "--nproc has no meaning to prefetch: --nproc 2\n  try: prefetch TASK"),
        (("--nproc", "2", "launch", "smoke"), "--nproc has no meaning to launch: --nproc 2\n  try: launch --ppn N"),
    ],
)
def test_numbers_that_would_be_ignored_are_refused(start: Start, home: Path, argv: tuple[str, ...], said: str) -> None:
    (home / "accelerate").write_text("#!/bin/sh\n")
    (home / "accelerate").chmod(0o755)

    done = start(*argv)

    assert done.code == 2
    assert said in done.err


def test_a_pod_that_only_checks_the_job_loses_nothing(start: Start, home: Path) -> None:
    assert "lost with the container" not in start("smoke").err
    assert f"nothing is mounted at {home}" in start("ner", "--output_dir", str(home)).err
