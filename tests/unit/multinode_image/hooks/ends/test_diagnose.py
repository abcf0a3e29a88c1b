"""What is printed for an error that ends a process, by what else is known; tests/golden/messages.py has all errors."""

from __future__ import annotations

import resource
from types import SimpleNamespace

import pytest

from multinode_image.errors import EXIT_OUTSIDE
from multinode_image.hooks.ends.diagnose import Place, explain
from multinode_image.machine import limits
from multinode_image.machine.limits import Disk
from tests.support.endings import (
    FULL,
    HOST,
    KILLED,
    LIMIT,
    LISTEN,
    NO_SPACE,
    NODES,
    SHM,
    TAKEN,
    WRITER,
    DistNetworkError,
    DistStoreError,
    SafetensorError,
    place,
)


def hidden(error: Exception, context: Exception) -> Exception:
    """Return an error as `raise ... from None` leaves it."""
    error.__context__, error.__suppress_context__ = context, True
    return error


@pytest.mark.parametrize(
    ("error", "fact", "value"),
    [
        (SafetensorError("I/O error: File too large (os error 27)"), "limit of a file's size", "(os error 27)"),
        (OSError(27, "File too large", "/output/a.bin"), "limit of a file's size", "'/output/a.bin'"),
        (OSError(122, "Disk quota exceeded", "/output/a.bin"), "the disk quota", "'/output/a.bin'"),
        (SafetensorError("I/O error: Disk quota exceeded (os error 122)"), "the disk quota", "(os error 122)"),
        (RuntimeError(f"{WRITER}unexpected pos 704 vs 598"), "the disk quota", "/output/optimizer.pt"),
        (ValueError("File too large for this form"), "", ""),
        (OSError(2, "No such file or directory", "27"), "", ""),
    ],
)
def test_a_limit_that_the_disk_does_not_show_is_named(error: Exception, fact: str, value: str) -> None:
    refused = OSError(122, "Disk quota exceeded", "/output/optimizer.pt")
    said = explain(error, place(full=[])._replace(refused=lambda: refused))

    assert (said is not None) == bool(fact)
    assert said is None or (fact in said.fact and said.value.endswith(value))
    assert explain(RuntimeError(f"{WRITER}unexpected pos 704 vs 598"), place(full=[])) is None


@pytest.mark.parametrize(
    ("text", "environ", "remedy"),
    [
        (TAKEN, NODES, "PET_MASTER_PORT=29501"),
        (f"{LISTEN}The server socket has failed to bind to [::]:65535 (errno: 98 - Address already in use). The server "
         "socket has failed to bind to ?UNKNOWN? (errno: 98 - Address already in use).",
         {"RANK": "0"}, "MASTER_PORT=29500"),
        (f"{LISTEN}port: 80, useIpv6: false, code: -13, name: EACCES, message: permission denied", NODES, ""),
        ("[Errno 98] Address already in use: ('0.0.0.0', 6006)", NODES, ""),
    ],
)  # fmt: skip
def test_a_port_that_was_taken_meanwhile_is_named(text: str, environ: dict[str, str], remedy: str) -> None:
    said = explain(DistNetworkError(text), place(environ))

    assert (said is not None) == bool(remedy)
    assert said is None or said.remedy == f"export {remedy} on every node"


THERE = "rank 0 is at prepare.py:17 (sleep)"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 15000ms for recv operation", "still busy"),
        ("DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cpu//0/0", "still busy"),
        ("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:9.", "it has ended"),
        ("gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:9: Connection timed out", "GLOO_SOCKET_IFNAME"),
        ("gloo/transport/tcp/pair.cc:211] connect [10.0.0.2]:9: No route to host", "GLOO_SOCKET_IFNAME"),
        ("Gloo connectFullMesh failed with [gloo/common/socket.cc:9] connect [10.0.0.2]:9 timed out", "GLOO_SOCKET"),
    ],
)
def test_only_what_has_ended_is_said_to_have_ended(text: str, word: str) -> None:
    said = explain(RuntimeError(text), place()._replace(others=lambda: THERE))

    assert said is not None and said.value.endswith(f"; {THERE}") == (word == "still busy")
    assert word in said.remedy and ("it has ended" in said.remedy) == (word == "it has ended")


@pytest.mark.parametrize(
    ("text", "environ", "value"),
    [
        ("after 9ms, keys: /smoke/torchelastic/role_info/0", NODES, "PET_NNODES=2 PET_NODE_RANK=0"),
        ("after 9ms, keys: /none/torchelastic/assigned_ranks/1", {}, "wait timeout after 9ms"),
        ("after 9ms, keys: /none/torchelastic/assigned_ranks/1", {"PET_RDZV_ENDPOINT": "pod0"}, "after 9ms"),
        ("after 9ms, keys: /none/torchelastic/agent/terminal_state/1", NODES, "wait timeout after 9ms"),
    ],
)
def test_nodes_that_do_not_agree_are_told_what_they_were_told(text: str, environ: dict[str, str], value: str) -> None:
    said = explain(DistStoreError(f"wait timeout {text}"), place(environ))

    assert said is not None and value in said.value and said.code == EXIT_OUTSIDE
    assert ("do not agree" in said.fact) == ("agent" not in text and "PET_RDZV_ENDPOINT" not in environ)


@pytest.mark.parametrize("failures", [{}, [SimpleNamespace(exitcode=1, timestamp=8)], None])
def test_failures_of_other_libraries_are_none_of_ranks(failures: object) -> None:
    error = MemoryError("DefaultCPUAllocator: can't allocate memory")
    error.failures = failures  # type: ignore[attr-defined]

    said = explain(error, place())
    assert said is not None and "got no memory" in said.fact


def test_a_kill_by_hand_is_no_want_of_memory() -> None:
    ended, killed = Exception("FAILED"), Exception("FAILED")
    by_hand, error = (SimpleNamespace(exitcode=code, timestamp=when) for code, when in ((-9, 9), (1, 8)))
    ended.failures, killed.failures = {0: by_hand, 1: error}, {0: by_hand}  # type: ignore[attr-defined]
    after_another = place({"RANK": "3", limits.VARIABLE: "1"})

    first, alone = explain(ended, after_another), explain(killed, after_another)
    assert first is not None and first.fact.startswith(f"rank 1 on {HOST} ")
    assert alone is not None and alone.value == "9"


def test_the_limit_of_files_that_holds_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (7, 9))
    said = explain(OSError(24, "Too many open files"), place())

    assert said is not None and said.value == "7"


@pytest.mark.parametrize(
    ("codes", "rank", "value"),
    [
        pytest.param({0: (1, 8), 1: (1, 7)}, 1, "1", id="the first"),
        pytest.param({0: (7, 8), 1: (1, 8)}, 0, "7", id="in the same second, as the agent has seen them"),
        pytest.param({0: (1, 8), 1: (-9, 8), 2: (-11, 8)}, 1, LIMIT, id="killed for want of memory"),
        pytest.param({0: (1, 8), 1: (-9, 9)}, 1, LIMIT, id="and has no time of its own"),
        pytest.param({0: (1, 8), 1: (-9, 38)}, 0, "1", id="killed by the agent after 30 s"),
        pytest.param({0: (1, 8), 1: (-11, 8)}, 1, "11", id="a signal"),
        pytest.param({0: (-15, 8), 1: (1, 8)}, 1, "1", id="stopped by the agent"),
        pytest.param({0: (1, 8), 1: (-6, 8)}, 0, "1", id="aborted since another was gone"),
        pytest.param({0: (-6, 8), 1: (1, 9)}, 1, "1", id="aborted before the agent has seen that"),
        pytest.param({0: (-15, 8), 1: (-6, 8)}, 1, "6", id="aborted"),
        pytest.param({0: (-10, 8), 1: (1, 8)}, 0, "10", id="a signal that somebody has sent"),
        pytest.param({0: (143, 8), 1: (-15, 9)}, 0, "143", id="a node of the job was told to end"),
        pytest.param({0: (139, 8), 1: (-15, 8)}, 0, "11", id="a signal below a shell"),
        pytest.param({0: (138, 8), 1: (-15, 8)}, 0, "10", id="a signal that somebody has sent there"),
        pytest.param({0: (137, 8), 1: (-15, 8)}, 0, LIMIT, id="killed there for want of memory"),
        pytest.param({0: (1, 8), 1: (137, 9)}, 1, LIMIT, id="and has no time of its own there"),
        pytest.param({0: (134, 8), 1: (1, 8)}, 1, "1", id="aborted there since another was gone"),
        pytest.param({0: (255, 8), 1: (-15, 8)}, 0, "255", id="no signal"),
    ],
)
def test_the_rank_that_failed_first_is_named(codes: dict[int, tuple[int, int]], rank: int, value: str) -> None:
    ended = Exception("FAILED")
    failures = {number: SimpleNamespace(exitcode=code, timestamp=when) for number, (code, when) in codes.items()}
    ended.failures = failures  # type: ignore[attr-defined]

    said = explain(ended, place())

    assert said is not None and said.fact.startswith(f"rank {rank} on {HOST} ") and said.value == value
    assert ("sent" in said.remedy) == (value == "10")
    assert (" crashed " in said.fact) == (value in ("6", "11"))


def test_what_a_rank_has_said_itself_is_said_again_by_its_agent() -> None:
    left = {"parts": ["no group", "rank 1", "init_process_group"], "time": 8.5}
    says = SimpleNamespace(exitcode=2, timestamp=9, message={"message": "", "extraInfo": {"multinode": left}})
    ended = Exception("FAILED")
    ended.failures = {0: SimpleNamespace(exitcode=-15, timestamp=9, message="SIGTERM"), 1: says}  # type: ignore[attr-defined]

    said = explain(ended, place())

    assert said is not None and [said.fact, said.value, said.remedy] == left["parts"]


@pytest.mark.parametrize(
    ("silent", "value"),
    [
        pytest.param((-11, 9), "11", id="crashed in the second before the others have ended"),
        pytest.param((1, 9), "1", id="ended with an error of its own"),
        pytest.param((-15, 8), "first", id="told to end"),
        pytest.param((1, 10), "first", id="ended after the others"),
    ],
)
def test_of_what_several_ranks_say_the_first_counts(silent: tuple[int, int], value: str) -> None:
    left = [{"parts": ["", "later", ""], "time": 8.4}, {"parts": ["", "first", ""], "time": 8.1}]
    failures = {
        rank: SimpleNamespace(exitcode=1, timestamp=8, message={"extraInfo": {"multinode": line}})
        for rank, line in enumerate(left)
    }
    failures[2] = SimpleNamespace(exitcode=silent[0], timestamp=silent[1], message={})
    ended = Exception("FAILED")
    ended.failures = failures  # type: ignore[attr-defined]

    said = explain(ended, place())

    assert said is not None and said.value == value


def test_all_that_is_full_is_named() -> None:
    full = [*FULL, Disk("/data", 1 << 30, 0)]
    said = explain(OSError(28, NO_SPACE), place(full=full))

    assert said is not None and said.value == f"{full[0]}, {full[1]}"


@pytest.mark.parametrize("full", [[SHM["/dev/shm"]], [SHM["/dev/shm"], *FULL]])
def test_a_full_shm_alone_is_not_a_full_disk(full: list[Disk]) -> None:
    """A lock of multiprocessing is in /dev/shm, and its error names no file."""
    said = explain(OSError(28, NO_SPACE), place(full=full))

    assert said is not None and said.fact.startswith("no shared memory") == (len(full) == 1)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("--max_steps"), id="the program's own"),
        pytest.param(ConnectionResetError(104, "Connection reset by peer"), id="a hub's server"),
        pytest.param(hidden(KeyError("x"), OSError(28, NO_SPACE)), id="raised from None where a disk was full"),
        pytest.param(BrokenPipeError(32, "Broken pipe"), id="a reader that is gone"),
        pytest.param(RuntimeError("basic_ios::clear: iostream error"), id="a write that failed on a disk with room"),
    ],
)
def test_other_errors_speak_for_themselves(error: BaseException) -> None:
    assert explain(error, place(full=[])) is None


def test_a_worker_killed_by_somebody_is_not_said_to_lack_memory() -> None:
    assert explain(RuntimeError(KILLED), Place({}, lambda _: None, SHM.get, lambda: [])) is None


@pytest.mark.parametrize(("refused", "value"), [(True, "EPERM for clone3"), (False, "of this user")])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("can't start new thread")])
def test_a_thread_that_cannot_be_started_is_the_engines_or_a_limits(
    error: BaseException, refused: bool, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multinode_image.machine.limits.is_clone3_refused", lambda: refused)

    said = explain(error, place())

    assert said is not None and value in said.value and said.code == EXIT_OUTSIDE
