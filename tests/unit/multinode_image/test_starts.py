"""Whole starts up to exec, by tables: what is typed and what is set -> the command with its variables, or a refusal.

The words of the refusals are in tests/data/golden/messages; here are their exit codes and the values that caused them.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

import multinode_image.__main__ as program
from multinode_image.__main__ import RANK
from multinode_image.errors import Refusal
from multinode_image.tasks.command import DOCTOR, Command
from multinode_image.tuning.handover import RANK_PROGRAM
from tests.support.harness import ROOT
from tests.support.launchers import left_by
from tests.support.machines import Box
from tests.support.refusals import REFUSED, Row
from tests.support.starts import GLOO, Container, Started

WORKER = {"PET_NNODES": "2", "PET_MASTER_ADDR": "late", "PET_NODE_RANK": "1"}
MASTER = {**WORKER, "PET_NODE_RANK": "0"}
ELASTIC = {"PET_RDZV_ENDPOINT": "w-0:23456", "PET_NNODES": "2:4", "PET_RDZV_BACKEND": "c10d"}
LAUNCHER = {"K_MPI_JOB_ROLE": "launcher"}
LINK = "tcp://10.0.0.1:80"


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path).furnish()


@pytest.fixture(scope="module")
def furnished(module_path: Path) -> Container:
    return Container(module_path).furnish()


@pytest.mark.parametrize("row", REFUSED, ids=str)
def test_a_start_that_would_go_wrong_is_refused(furnished: Container, row: Row) -> None:
    started = furnished.start(row.argv_in(str(furnished.home)), row.variables)

    assert started.refused == (row.code, row.value.replace("HOME", str(furnished.home)))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("", 2),
        ("--help", 0),
        ("-h", 0),
        ("prefetch qa --help", 0),
        ("launch --help", 0),
        ("worker -h", 0),
        ("doctor -h", 0),
    ],
)
def test_the_usage_is_printed(furnished: Container, words: str, code: int) -> None:
    started = furnished.start(words)

    assert started.code == code and (started.err if code else started.out).startswith("usage:")


@pytest.mark.parametrize(
    ("words", "environ", "argv"),
    [
        ("--nproc=1 smoke --bf16", {}, "python3 HOME/smoke.py --bf16"),
        ("--nproc 1 smoke --no_cuda --ddp_backend gloo", {}, "python3 HOME/smoke.py --use_cpu"),
        ("--nproc 2 -- smoke --ddp_backend ccl", {},
         "torchrun --standalone --nproc_per_node 2 HOME/smoke.py --ddp_backend gloo"),
        ("smoke", {**ELASTIC, "PET_NNODES": "1:4", "PET_NPROC_PER_NODE": "2", "PET_STANDALONE": ""},
         "torchrun --nproc_per_node 2 HOME/smoke.py"),
        ("smoke", left_by("slurm-step"), "python3 HOME/smoke.py"),
        ("doctor --network", left_by("slurm-step"), "python3 HOME/network.py gloo"),
        ("--nproc 2 doctor --network", {}, "torchrun --standalone --nproc_per_node 2 HOME/network.py gloo"),
        ("torchrun x.py", left_by("slurm-one-task"), "HOME/python3 -u x.py"),
        ("torchrun x.py", left_by("torchrun-worker"), "HOME/python3 -u x.py"),
        ("torchrun x.py", {**left_by("intel-mpi-1"), "MULTINODE_APART": "1"}, "HOME/python3 -u x.py"),
        ("torchrun x.py", {**left_by("slurm-step"), "MULTINODE_APART": "1"}, "HOME/python3 -u x.py"),
        ("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint m:1 x.py", left_by("slurm-step"),
         "HOME/python3 -u x.py"),
        ("torchrun --no-python bash x.sh", {}, "bash x.sh"),
        ("torchrun --no-python bash x.sh", {"MULTINODE_LOGS": "/tmp/a"}, "/opt/multinode/rank --no-python bash x.sh"),
        ("torchrun x.py", {"MULTINODE_LOGS": "/tmp/a"}, "/opt/multinode/rank -u x.py"),
        # what is wrong for a training only is a note beside other commands
        ("sh", {"PMI_RANK": "0", "PMI_SIZE": "x"}, "sh"),
        ("true", {"MASTER_ADDR": "x", "RANK": "0", "WORLD_SIZE": "$(N)"}, "true"),
        ("true", {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "abc"}, "true"),
        ("--nproc 1 -m pkg.train --seed 1", {}, "python3 -m pkg.train --seed 1"),
        ("--nproc 2 -m pkg.train", {}, "torchrun --standalone --nproc_per_node 2 -m pkg.train"),
        ("smoke", {**ELASTIC, "PET_RDZV_BACKEND": ""},
         "torchrun --nproc_per_node 2 --rdzv_backend c10d HOME/smoke.py"),
        ("--nproc 1 -m pkg.train", ELASTIC, "torchrun --nproc_per_node 1 -m pkg.train"),
        ("smoke --help", {}, "python3 HOME/smoke.py --help"),
        ("--nproc 2 smoke -h", {}, "python3 HOME/smoke.py --help"),
        ("qa -h --bf16", MASTER, "python3 HOME/examples/pytorch/text/run_qa.py --help"),
        ("--nproc 2 qa --output_dir /proc/qa --help", {}, "python3 HOME/examples/pytorch/text/run_qa.py --help"),
        ("qa --help", {"WORLD_SIZE": "2"}, "python3 HOME/examples/pytorch/text/run_qa.py --help"),
        ("qa --help", LAUNCHER, "python3 HOME/examples/pytorch/text/run_qa.py --help"),
        ("clm --help", {"HF_HUB_OFFLINE": "1"}, "python3 HOME/examples/pytorch/text/run_clm.py --help"),
        ("rank -u x.py", left_by("torchrun-worker"), "python3 -u x.py"),
        ("rank --no-python bash x.sh", left_by("torchrun-worker"), "bash x.sh"),
        ("smoke", {"PET_MASTER_ADDR": "m", "PET_NNODES": "1", "PET_NPROC_PER_NODE": "2"},
         "torchrun --nproc_per_node 2 --nnodes 1 --node_rank 0 --master_addr m --master_port 29500 HOME/smoke.py"),
        ("torchrun x.py", {"MULTINODE_LOGS": "/tmp"}, f"{RANK_PROGRAM} -u x.py"),
        ("torchrun --no-python bash x.sh", {"MULTINODE_LOGS": "/tmp"}, f"{RANK_PROGRAM} --no-python bash x.sh"),
    ],
)  # fmt: skip
def test_a_start_becomes_a_command(furnished: Container, words: str, environ: dict[str, str], argv: str) -> None:
    started = furnished.start(words, environ)

    assert " ".join(started.argv) == argv.replace("HOME", str(furnished.home))


@pytest.mark.parametrize(
    ("words", "environ", "directory"),
    [
        ("--nproc 2 -m pkg.train --output_dir /results/a", {}, "/results/a"),
        ("--nproc 2 -m pkg.train", {}, "/workspace/output"),
        ("torchrun --nproc_per_node 2 train.py --output_dir /results/a", {}, "/results/a"),
        ("torchrun -m pkg.train --save_dir=/results/b", {}, "/results/b"),
        ("torchrun train.py", {"MULTINODE_OUTPUT": "/results/c"}, "/results/c"),
        ("torchrun train.py", {}, "/workspace/output"),
        ("torchrun --no-python bash x.sh", {}, "/workspace/output"),
        ("torchrun x.py", {"MULTINODE_METRICS": ""}, None),
    ],
)
def test_prometheus_is_answered_from_where_results_are(
    furnished: Container, words: str, environ: dict[str, str], directory: str | None
) -> None:
    with mock.patch("multinode_image.report.metrics.serve_beside") as serve:
        started = furnished.start(words, {"MULTINODE_METRICS": "9400", **environ})

    assert started.argv and serve.mock_calls == [mock.call(9400, directory)] * (directory is not None)


@pytest.mark.parametrize(
    ("words", "environ", "expected"),
    [
        # the place of a rank under the names that torch reads, over what an operator has set in the pod
        ("smoke", {**left_by("slurm-step"), "RANK": "0", "WORLD_SIZE": "1"},
         {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n03",
          "MULTINODE_JOB": "SLURM_JOB_ID=7.0", "MULTINODE_WORLD_SIZE": "4"}),
        ("smoke", {**left_by("pytorchjob-master", "open-mpi-0")}, {"RANK": "0", "WORLD_SIZE": "2"}),
        ("smoke", {**left_by("intel-mpi-1"), "RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "1", "WORLD_SIZE": "2"}),
        # what torchrun fails on, or would count for itself
        ("smoke", left_by("pytorchjob-elastic"), {"PET_STANDALONE": None}),
        ("torchrun x.py", left_by("pytorchjob-master"), {"PET_NPROC_PER_NODE": "2"}),
        ("torchrun --nproc-per-node auto x.py", {}, {"PET_NPROC_PER_NODE": "2"}),
        ("--nproc 2 torchrun x.py", {}, {"PET_NPROC_PER_NODE": "2"}),
        ("torchrun x.py", {"PET_NPROC_PER_NODE": "gpu"}, {"PET_NPROC_PER_NODE": "2"}),
        ("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint 192.0.2.1:29400 train.py", left_by("slurm-batch"),
         {"PET_RDZV_ID": "train-py-7", "PET_LOCAL_ADDR": "10.77.0.2", "MULTINODE_PLANNED": None}),
        # the user's own values, also where they bind threads
        ("torchrun --nproc_per_node 2 x.py", {"OMP_NUM_THREADS": "3", "KMP_AFFINITY": "compact", "LD_PRELOAD": "a.so"},
         {"OMP_NUM_THREADS": "3", "KMP_AFFINITY": None, "LD_PRELOAD": "a.so"}),
        # the interface that leads to the master, and loopback on one node
        ("smoke", WORKER, {"GLOO_SOCKET_IFNAME": "eth0", "FI_TCP_IFACE": "eth0", "MULTINODE_WORLD_SIZE": "3:"}),
        ("--nproc 2 smoke", {}, {"GLOO_SOCKET_IFNAME": "lo"}),
        # another node may have more ranks than this one, or fewer
        ("smoke", {**WORKER, "PET_NPROC_PER_NODE": "1"}, {"MULTINODE_WORLD_SIZE": "2:"}),
        ("smoke", {**WORKER, "PET_NPROC_PER_NODE": "4"}, {"MULTINODE_WORLD_SIZE": "5:"}),
        ("smoke", {**ELASTIC, "PET_NPROC_PER_NODE": "4"}, {"MULTINODE_WORLD_SIZE": "5:"}),
        ("torchrun --nnodes 2 --node-rank 1 --master-addr node0 --nproc-per-node 4 x.py", {},
         {"MULTINODE_WORLD_SIZE": "5:"}),
        # a Service of Kubernetes with the name of a variable
        ("smoke", {**WORKER, "MASTER_PORT": LINK, "PET_MASTER_PORT": LINK}, {"MASTER_PORT": None}),
        ("smoke", {"PMI_PORT": LINK}, {"PMI_PORT": None}),
        # caches are whole paths
        ("ner --output_dir HOME", {"TRANSFORMERS_CACHE": "/pvc/models"}, {"HF_HUB_CACHE": "/pvc/models"}),
        ("smoke", {"MASTER_ADDR": "late", "PET_NNODES": "2", "PET_NODE_RANK": "1"}, {"MULTINODE_WORLD_SIZE": "3:"}),
        ("--nproc 2 smoke", {"MULTINODE_LOGS": "/tmp"}, {"PYTHON_EXEC": RANK_PROGRAM}),
    ],
)  # fmt: skip
def test_a_start_sets_variables(
    furnished: Container, words: str, environ: dict[str, str], expected: dict[str, str | None]
) -> None:
    home = str(furnished.home)

    started = furnished.start(words.replace("HOME", home), environ)

    assert started.refusal is None
    wanted = {name: value and value.replace("HOME", home) for name, value in expected.items()}
    assert {name: started.environ.get(name) for name in expected} == wanted


@pytest.mark.parametrize(
    ("words", "environ", "names"),
    [
        ("ner --output_dir HOME", WORKER, "JOB KILLED PLANNED RUN SET TRAINING WORDS WORLD_SIZE"),
        ("--nproc 2 ner --output_dir HOME", {}, "KILLED PLANNED RUN SET TRAINING WORLD_SIZE"),
        ("--nproc 1 ner --output_dir HOME", {}, "KILLED RUN SET TRAINING WORLD_SIZE"),
        ("mpirun -n 2 true", {}, "KILLED SET TRAINING"),
    ],
)
def test_what_is_known_of_a_training_is_handed_on(
    furnished: Container, words: str, environ: dict[str, str], names: str
) -> None:
    started = furnished.start(words.replace("HOME", str(furnished.home)), environ)

    known = {name.removeprefix("MULTINODE_") for name in started.environ if name.startswith("MULTINODE_")}
    assert known == {*names.split()}


@pytest.mark.parametrize(
    ("words", "environ", "threads"),
    [
        ("python3 x.py", {}, "56"),
        ("generation", {}, "56"),
        ("sh", {}, "56"),
        ("torchrun x.py", {}, "56"),
        ("torchrun --nproc-per-node 4 x.py", {}, "14"),
        ("torchrun --nproc-per-node auto x.py", {}, "28"),
        ("python3 -m torch.distributed.run --nproc_per_node=8 x.py", {}, "7"),
        ("mpirun -n 4 python3 x.py", {}, None),
        ("--nproc 7 smoke", {}, "8"),
        ("smoke", {"OMP_NUM_THREADS": "56"}, "56"),  # room for one process
    ],
)
def test_every_process_has_its_share_of_the_cores(
    furnished: Container, words: str, environ: dict[str, str], threads: str | None
) -> None:
    assert furnished.start(words, environ).environ.get("OMP_NUM_THREADS") == threads


@pytest.mark.parametrize(
    ("words", "environ", "looks"),
    [
        ("smoke", {}, False),
        ("smoke", {"MULTINODE_WORLD_SIZE": "2:4"}, False),
        ("smoke", {"MULTINODE_WORLD_SIZE": "4"}, True),
        ("smoke", {"MULTINODE_WORLD_SIZE": "3:"}, True),
        ("torchrun x.py", {"MULTINODE_WORLD_SIZE": "4"}, True),
        ("torchrun x.py", {}, False),
        ("torchrun --nnodes 4 x.py", {"MULTINODE_WORLD_SIZE": "4"}, False),
    ],
)
def test_ranks_look_how_many_they_are_where_somebody_insists_on_a_number(
    container: Container, words: str, environ: dict[str, str], looks: bool
) -> None:
    """Only they know how many nodes of an elastic job have met."""
    started = Container(container.home, Box(1, 1), has=(RANK_PROGRAM,)).start(words, {**ELASTIC, **environ})

    assert started.environ.get("MULTINODE_COUNTS") == ("1" if looks else None)


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({}, None),
        ({"MULTINODE_WORLD_SIZE": "2"}, None),
        ({"MULTINODE_WORLD_SIZE": "2:4"}, None),
        ({"MULTINODE_WORLD_SIZE": "3:"}, (2, "2 of 3")),
        ({"MULTINODE_WORLD_SIZE": "8"}, (2, "2 of 8")),
        ({"MULTINODE_WORLD_SIZE": "1"}, (2, "2 of 1")),
        # What the entrypoint has set is right for the node where it did; in a shell any number may be started.
        ({"MULTINODE_WORLD_SIZE": "8", "MULTINODE_SET": "MULTINODE_WORLD_SIZE=8"}, None),
        ({"MULTINODE_WORLD_SIZE": "8", "MULTINODE_COUNTS": ""}, None),
    ],
)
def test_a_rank_does_not_train_in_a_world_of_another_size(
    furnished: Container, more: dict[str, str], refused: tuple[int, str] | None
) -> None:
    environ = {**left_by("torchrun-worker"), "MULTINODE_COUNTS": "1", **more}

    assert furnished.start("rank -u x.py", environ).refused == refused


@pytest.mark.parametrize(
    ("words", "environ", "function", "given"),
    [
        ("report a b", {}, "report.command.write_report", [["a", "b"], "/workspace/output"]),
        ("report", {"MULTINODE_OUTPUT": "/out"}, "report.command.write_report", [[], "/out"]),
        ("stacks", {}, "commands.stacks.print_stacks", []),
        ("doctor --json", {}, "commands.doctor.doctor", [Command(DOCTOR, "doctor", ["--json"]), mock.ANY]),
        ("worker", {}, "mpi.sshd.serve", [mock.ANY]),
        ("launch -f hosts smoke", {}, "mpi.launch.launch", [["-f", "hosts", "smoke"], mock.ANY, mock.ANY]),
        ("rank x.py", {**left_by("torchrun-worker"), "MULTINODE_LOGS": "/logs"}, "processes.run_logged",
         [[RANK_PROGRAM, "x.py"], mock.ANY, mock.ANY]),
    ],
)  # fmt: skip
def test_a_command_of_ours_gets_its_words_and_has_its_exit_code(
    furnished: Container, words: str, environ: dict[str, str], function: str, given: list[object]
) -> None:
    with mock.patch(f"multinode_image.{function}", return_value=7) as run:
        assert furnished.start(words, environ).code == 7

    assert [*run.call_args.args] == given


def test_the_tasks_are_printed(furnished: Container) -> None:
    started = furnished.start("tasks")

    assert started.code == 0 and "named entities" in started.out


@pytest.mark.parametrize(("stdin", "argv"), [(None, []), (False, []), (True, ["bash"])])
def test_a_shell_is_for_who_sits_at_a_terminal(stdin: bool | None, argv: list[str]) -> None:
    with mock.patch("sys.stdin", None if stdin is None else mock.Mock(isatty=lambda: stdin)):
        assert program.shell() == argv


def test_a_master_that_is_late_is_waited_for_before_anything_is_decided(container: Container) -> None:
    asked: list[str] = []

    def resolve(name: str) -> bool:
        asked.append(name)
        return len(asked) > 2

    with (
        mock.patch("multinode_image.world.master.can_resolve", resolve),
        mock.patch("multinode_image.world.master.PAUSE", 0),
        mock.patch("multinode_image.decide.find_interface", lambda *_: "ib0" if len(asked) > 2 else "eth0"),
    ):
        started = container.start("smoke", WORKER)

    assert (len(asked), started.environ["GLOO_SOCKET_IFNAME"]) == (3, "ib0")


@pytest.mark.parametrize(("environ", "refused"), [(MASTER, (138, "29500")), (WORKER, None)])
def test_the_node_of_rank_0_is_asked_for_its_port(
    container: Container, environ: dict[str, str], refused: tuple[int, str] | None
) -> None:
    busy = replace(container, taken={29500: OSError(98, "Address already in use")})

    assert busy.start("smoke", environ).refused == refused
    assert busy.start("true", environ).refused is None


def test_a_mounted_file_of_arguments_is_translated(container: Container) -> None:
    arguments = container.home / "args.json"
    arguments.write_text(f'{{"no_cuda": true, "output_dir": "{container.home}"}}')

    started = container.start(["--nproc", "1", "ner", str(arguments)])

    assert started.argv[-3:] == ["--use_cpu", "--output_dir", str(container.home)]


def test_an_example_without_the_trainer_computes_on_the_cpu(container: Container) -> None:
    (container.home / "examples/pytorch/text/run_qa_no_trainer.py").touch()

    started = container.start(f"qa-no-trainer --output_dir {container.home}")

    assert started.environ["ACCELERATE_USE_CPU"] == "1"


def test_the_nodes_in_a_file_of_pbs_are_counted(container: Container) -> None:
    (container.home / "nodes").write_text("node0\nnode0\nnode1\n")

    started = container.start("smoke", {"PBS_NODEFILE": str(container.home / "nodes")})

    assert started.refused == (2, "PBS_NUM_NODES=2")


def test_a_pipe_is_not_read(container: Container) -> None:
    """Where nobody writes into it, a start would wait for ever."""
    pipe = container.home / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("node0\nnode1\n",), daemon=True)
    writer.start()

    started = container.start("smoke", {"PBS_NODEFILE": str(pipe)})

    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer.join(10)
    os.close(end)
    assert started.refusal is None


DAMAGED = ("", "{", "{}", "[]", "null", '{"torch": 1}', json.dumps({**GLOO._asdict(), "environment": "A=1"}))


@pytest.mark.parametrize(
    ("text", "fact"),
    [(None, "the image has no list of what it is made of"), *((text, "stack.json is damaged") for text in DAMAGED)],
)
def test_a_stack_that_is_missing_or_damaged_ends_with_1(container: Container, text: str | None, fact: str) -> None:
    (container.home / "stack.json").unlink()
    if text is not None:
        (container.home / "stack.json").write_text(text)

    started = container.start("smoke")

    assert started.code == 1 and started.refusal is not None and started.refusal.fact == fact


def test_what_a_home_hides_of_the_image_is_said(container: Container) -> None:
    for place, version in ((container.home / ".local/lib/python3.11/site-packages", "4"), (container.home, "5")):
        (place / f"transformers-{version}.dist-info").mkdir(parents=True)

    assert any(note.startswith("transformers of") for note in container.explain("bash")["notes"])


def test_launch_is_explained_with_its_ranks(container: Container) -> None:
    (container.home / "hosts").write_text("192.0.2.1:2\n192.0.2.2:2\n")
    hosts = str(container.home / "hosts")

    typed = container.explain(["launch", "--hostfile", hosts, "smoke", "--bf16"])
    explained = container.explain("smoke --bf16", {**LAUNCHER, "I_MPI_HYDRA_HOST_FILE": hosts})

    assert typed["argv"] == explained["argv"] and typed["set"].keys() == explained["set"].keys()
    assert typed["world"]["size"] == 4 and typed["world"]["nodes"] == [2, 2]
    assert typed["set"]["MASTER_ADDR"] == typed["world"]["master"]
    assert (typed["set"]["MASTER_PORT"], typed["world"]["port"]) == ("a free port", None)


def test_launch_in_the_shell_of_an_mpirun_has_a_master_that_all_hosts_reach(container: Container) -> None:
    """The entrypoint sets loopback for the only rank, which is the shell."""
    shell = {"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALNRANKS": "1"}

    explained = container.explain("launch --hosts 192.0.2.1:1,192.0.2.2:1 smoke", shell)

    assert explained["set"]["MASTER_ADDR"] not in ("127.0.0.1", "localhost")


@pytest.fixture
def sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("sigterm")
@pytest.mark.parametrize(("number", "heeded"), [(1, True), (2, False)])
def test_the_first_process_of_a_container_heeds_sigterm_while_it_waits(number: int, heeded: bool) -> None:
    before = signal.getsignal(signal.SIGTERM)

    with mock.patch("os.getpid", lambda: number):
        program.main(["--no-such-option"], {}, "/nowhere")

    assert (signal.getsignal(signal.SIGTERM) is not before) == heeded
    if heeded:
        with pytest.raises(SystemExit) as caught:
            signal.raise_signal(signal.SIGTERM)
        assert caught.value.code == 143


@pytest.mark.parametrize(
    ("error", "code"),
    [(Refusal("no", "such", "script"), 2), (Refusal("no", "such", "program", 127), 127), (PermissionError("no"), 1),
     (KeyboardInterrupt(), 130)],
)  # fmt: skip
def test_no_start_ends_with_a_traceback(error: BaseException, code: int) -> None:
    with mock.patch.object(program, "run", side_effect=error):
        assert program.main(["train.py"], {}, "/nowhere") == code


def test_a_pod_that_only_checks_the_job_loses_nothing(furnished: Container) -> None:
    def lost(started: Started) -> bool:
        return "lost with the container" in started.err

    assert not lost(furnished.start("smoke"))
    assert lost(furnished.start(f"ner --output_dir {furnished.home}"))


def test_the_image_has_the_program_that_starts_a_rank() -> None:
    assert (ROOT / f"images/rootfs{RANK_PROGRAM}").read_text().endswith(f'/opt/multinode {RANK} "$@"\n')
