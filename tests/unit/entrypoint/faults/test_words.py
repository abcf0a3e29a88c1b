"""What is printed for an error that ends a process, in the words of torch, gloo and the kernel."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from entrypoint.faults.disks import Disk
from entrypoint.faults.words import Place, explain

HOST = socket.gethostname()
FILES = {
    "/proc/self/cgroup": "0::/\n",
    "/sys/fs/cgroup/memory.max": "838860800\n",
    "/sys/fs/cgroup/memory.events": "oom 1\noom_kill 1\n",
}
FULL = [Disk("/workspace/output", 64 << 20, 0)]
SHM = {"/dev/shm": Disk("/dev/shm", 32 << 20, 32 << 20)}
NO_SPACE = "No space left on device"
IPEX = "BF16 weight prepack needs the cpu support"
LIMIT = "the memory limit of this container, 800 MB, was reached"


class Ended(Exception):
    """What torchrun's agent raises: the failures of its ranks."""

    def __init__(self, failures: dict[int, SimpleNamespace]) -> None:
        super().__init__("FAILED")
        self.failures = failures


class RendezvousConnectionError(Exception):
    """What torchrun's agent raises when the node of the endpoint is gone."""


class SafetensorError(Exception):
    """Not a subclass of OSError."""


class Signal(Exception):
    """What torchrun's agent raises when it gets a signal."""

    sigval = 15


def failed(code: int, when: int = 1) -> SimpleNamespace:
    return SimpleNamespace(exitcode=code, timestamp=when)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def hidden(error: Exception, context: Exception) -> Exception:
    """Return an error as `raise ... from None` leaves it."""
    error.__context__, error.__suppress_context__ = context, True
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, NO_SPACE), ("no space is left for rank 3", "/workspace/output (64 MB, 0 MB free)")),
        (OSError(122, "Disk quota exceeded"), ("no space is left for rank 3", "Disk quota exceeded\n")),
        (SafetensorError(f"I/O error: {NO_SPACE} (os error 28)"), ("no space is left", "--save_total_limit")),
        (
            RuntimeError("[enforce fail at inline_container.cc:672] . PytorchStreamWriter failed writing file data/2"),
            ("no space is left", "/workspace/output"),
        ),
        (
            caused(RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"), OSError()),
            ("no space is left", "/workspace/output"),
        ),
        (RuntimeError("basic_ios::clear: iostream error"), ("no space is left", "/workspace/output")),
        (
            RuntimeError("DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that"),
            ("no shared memory is left for rank 3", "/dev/shm has 32 MB", "--shm-size"),
        ),
        (
            RuntimeError("unable to write to file </torch_12_34>: No space left on device (28)"),
            ("no shared memory is left", "--shm-size"),
        ),
        (
            RuntimeError("DataLoader worker (pid 12) is killed by signal: Killed. "),
            ("a DataLoader worker of rank 3", LIMIT, "--dataloader_num_workers"),
        ),
        (
            AssertionError(f"{IPEX} avx_ne_convert or avx512bw, avx512vl and avx512dq, but the desired"),
            ("this processor, which has not: avx_ne_convert or avx512bw, avx512vl and avx512dq", "without --use_ipex"),
        ),
        (
            AssertionError(f"{IPEX} avx512bw, avx512vl and avx512dq, please set dtype to torch.float"),
            ("which has not: avx512bw, avx512vl and avx512dq\n", "without --bf16"),
        ),
        (
            ValueError("Your setup doesn't support bf16/gpu."),
            ("transformers looks for a GPU unless it is told to train on the CPU: bf16", "(..., use_cpu=True)"),
        ),
        (
            RuntimeError("InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None,"),
            ("or no headers of Python: No working C++ compiler found", "apt-get install -y g++ libpython3"),
        ),
        (
            RuntimeError("C++ compile error\n/tmp/x/a.h:2:10: fatal error: Python.h: No such file or directory"),
            ("no headers of Python: Python.h\n", "-dev in a Dockerfile FROM this image"),
        ),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
            ("got no memory", "--per_device_train_batch_size"),
        ),
        (OSError(12, "Cannot allocate memory"), ("rank 3 on", "got no memory: Cannot allocate memory\n  try: fewer")),
        (
            RuntimeError("[/x/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:9: Connection timed out"),
            (f"rank 3 on {HOST} has lost another rank: Connection timed out, 10.0.0.2", "network"),
        ),
        (
            RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [fd00::2]:9."),
            ("Connection closed by peer, fd00::2", "log of that rank"),
        ),
        (
            caused(OSError("The connection to the C10d store has failed."), RuntimeError("wait timeout after 60000ms")),
            ("has lost another rank: wait timeout after 60000ms\n",),
        ),
        (
            RuntimeError("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to"),
            ("has lost another rank: Timed out waiting 1800000ms for recv operation\n",),
        ),
        (Ended({1: failed(-15, 9), 0: failed(-9, 8)}), (f"rank 0 on {HOST} was killed by signal 9: {LIMIT}",)),
        (Ended({0: failed(1), 1: failed(-9)}), (f"rank 1 on {HOST} was killed by signal 9: {LIMIT}",)),
        (Ended({2: failed(7)}), (f"rank 2 on {HOST} ended with exit code: 7", "above")),
        (Signal("Process 7 got signal: 15"), (f"torchrun on {HOST} was ended by signal: 15", "last checkpoint")),
        (Ended({2: failed(-11)}), (f"rank 2 on {HOST} was killed by signal: 11",)),
    ],
)  # fmt: skip
def test_an_error_is_said_in_words(error: BaseException, said: tuple[str, ...]) -> None:
    found = str(explain(error, Place({"RANK": "3"}, FILES.get, SHM.get, lambda: FULL)))

    assert [each for each in said if each not in found] == []


@pytest.mark.parametrize(
    ("number", "free", "name", "said"),
    [
        pytest.param(
            28, 0, "out/checkpoint-1/x", "no space is left for rank 3 on {}: {out} (64 MB, 0 MB free)", id="full"
        ),
        pytest.param(
            122, 9 << 20, "out", "no space is left for rank 3 on {}: Disk quota exceeded, {out}\n", id="quota"
        ),
        pytest.param(28, 0, "", "no space is left for rank 3 on {}: /full (8 MB, 0 MB free)\n", id="no name"),
        pytest.param(122, 0, "", "no space is left for rank 3 on {}: Disk quota exceeded\n", id="quota, and no name"),
    ],
)
def test_the_disk_of_the_file_in_an_error_is_named(
    tmp_path: Path, number: int, free: int, name: str, said: str
) -> None:
    """A quota does not show in what is free, and another disk may have little left by chance."""
    (tmp_path / "out").mkdir()
    error = OSError(number, os.strerror(number), *([f"{tmp_path}/{name}"] if name else []))
    place = Place(
        {"RANK": "3"}, FILES.get, lambda path: Disk(path, 64 << 20, free), lambda: [Disk("/full", 8 << 20, 0)]
    )

    assert said.format(HOST, out=tmp_path / "out") in str(explain(error, place))


@pytest.mark.parametrize("full", [[SHM["/dev/shm"]], [SHM["/dev/shm"], *FULL]])
def test_a_full_shm_alone_is_not_a_full_disk(full: list[Disk]) -> None:
    """A lock of multiprocessing is in /dev/shm, and its error names no file."""
    found = str(explain(OSError(28, NO_SPACE), Place({"RANK": "3"}, FILES.get, SHM.get, lambda: full)))

    assert ("--shm-size 1g" in found and "half-written" not in found) == (len(full) == 1)


def test_a_kernel_that_promises_no_more_than_it_has_is_named() -> None:
    files = {"/proc/sys/vm/overcommit_memory": "2\n"}
    found = str(explain(OSError(12, os.strerror(12)), Place({"RANK": "3"}, files.get, SHM.get, lambda: [])))

    assert "Cannot allocate memory, and vm.overcommit_memory is 2 on this machine\n  try: sysctl vm.over" in found


@pytest.mark.parametrize(
    ("environ", "where"), [({"PET_RDZV_ENDPOINT": "pod0:23456"}, "pod0:23456"), ({}, "RendezvousConnectionError")]
)
def test_an_agent_without_its_rendezvous_names_the_endpoint(environ: dict[str, str], where: str) -> None:
    """Also where the connection timed out, which between ranks means that one of them is lost."""
    error = caused(RendezvousConnectionError("The connection to the C10d store has failed."), OSError("timed out"))

    found = str(explain(error, Place(environ, FILES.get, SHM.get, lambda: [])))

    assert f"the rendezvous does not answer, or not any more: {where}\n" in found
    assert "no node has this address, as that of a Service: name the pod of worker 0" in found


class DistStoreError(RuntimeError):
    """What the store of torch raises."""


FEW = "Timed out after 901 seconds waiting for clients. 1/2 clients joined."
SILENT = "The client socket has timed out after 900000ms while trying to connect to (pod0, 29500)."
STRANGERS = "wait timeout after 900000ms, keys: /smoke/torchelastic/role_info/0, /smoke/torchelastic/role_info/1"
ASSIGNED = "wait timeout after 900000ms, keys: /none/torchelastic/assigned_ranks/1"
ELSEWHERE = "wait timeout after 300000ms, keys: /none/torchelastic/agent/terminal_state/1"
NODES = {"PET_NNODES": "2", "PET_NODE_RANK": "0"}


@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        (
            FEW,
            NODES,
            "too few nodes came to the master in time: 1 of 2 in 901 s\n  try: start the other nodes, or correct",
        ),
        (FEW, {"LOCAL_RANK": "0"}, "too few ranks came to the master in time: 1 of 2 in 901 s\n  try: start the other"),
        (SILENT, NODES, "the master does not answer: pod0:29500 in 900 s\n  try: start the node of rank 0"),
        (SILENT, {"SLURM_STEP_NUM_TASKS": "2"}, "try: read the log of rank 0; unset MASTER_ADDR, or"),
        (SILENT, {"SLURM_STEP_NUM_TASKS": "2", "TORCHELASTIC_RUN_ID": "qa"}, "try: start the node of rank 0"),
        (SILENT.replace("pod0", "fd77::1"), {}, "the master does not answer: fd77::1:29500 in 900 s\n"),
        (
            STRANGERS,
            NODES,
            "how many they are, or which each is: PET_NNODES=2 PET_NODE_RANK=0\n  try: export the same PET",
        ),
        (STRANGERS, NODES, "or a node was started again while the old master still ran: start it again"),
        (ASSIGNED, {}, "how many they are, or which each is: wait timeout after 900000ms\n"),
        (ASSIGNED, {"PET_RDZV_ENDPOINT": "pod0:29400"}, "has lost another rank: wait timeout after 900000ms\n"),
        (ELSEWHERE, NODES, "has lost another rank: wait timeout after 300000ms\n"),
    ],
)
def test_a_meeting_that_does_not_come_about_names_who_is_missing(text: str, environ: dict[str, str], said: str) -> None:
    assert said in str(explain(DistStoreError(text), Place(environ, FILES.get, SHM.get, lambda: [])))


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("--max_steps"), id="the program's own"),
        pytest.param(ConnectionResetError(104, "Connection reset by peer"), id="a hub's server"),
        pytest.param(hidden(KeyError("x"), OSError(28, NO_SPACE)), id="raised from None where a disk was full"),
        pytest.param(BrokenPipeError(32, "Broken pipe"), id="a reader that is gone"),
    ],
)
def test_other_errors_speak_for_themselves(error: BaseException) -> None:
    assert explain(error, Place({}, FILES.get, SHM.get, lambda: FULL)) is None


def test_a_worker_killed_by_somebody_is_not_said_to_lack_memory() -> None:
    error = RuntimeError("DataLoader worker (pid 12) is killed by signal: Killed. ")

    assert explain(error, Place({}, lambda _: None, SHM.get, lambda: [])) is None


def test_a_write_that_failed_on_a_disk_with_room_speaks_for_itself() -> None:
    error = RuntimeError("basic_ios::clear: iostream error")

    assert explain(error, Place({}, FILES.get, SHM.get, lambda: [])) is None


def test_without_a_rank_the_training_is_named() -> None:
    found = explain(OSError(28, "No space left on device"), Place({}, FILES.get, SHM.get, lambda: []))

    assert f"no space is left for the training on {HOST}: No space left on device" in str(found)
