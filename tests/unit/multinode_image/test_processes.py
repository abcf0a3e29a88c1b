"""Processes that are started and ended, and what of them can be seen."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from multinode_image import processes, run
from multinode_image.commands import stacks
from multinode_image.commands.stacks import DONE, find_doors, print_stacks
from multinode_image.errors import Refusal
from multinode_image.machine import limits
from multinode_image.processes import IGNORED, become, execute, has_group, is_of_step, print_kill
from multinode_image.settings import LOGS
from multinode_image.tasks.command import PLAIN, SMOKE, Command, Kind
from multinode_image.world.model import ALONE, MPI, TORCHRUN, World
from tests.support.clocks import Clock
from tests.support.starts import place


def test_a_program_finds_the_signals_that_python_ignores_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[object] = []
    monkeypatch.setattr(os, "execvpe", lambda *_: handlers.extend(signal.getsignal(number) for number in IGNORED))

    become("program", ["program"], {})

    assert handlers == [signal.SIG_DFL, signal.SIG_DFL]


@pytest.mark.parametrize(
    ("text", "mode", "code", "said"),
    [
        ("exit 0\n", 0o755, 126, "Exec format error"),
        ("#!/missing/interpreter\n", 0o755, 126, "No such file"),
        ("#!/bin/sh\nexit 0\n", 0o644, 126, "Permission denied"),
        (None, 0o755, 127, "No such file"),
    ],
)
def test_a_program_that_cannot_be_executed(tmp_path: Path, text: str | None, mode: int, code: int, said: str) -> None:
    program = tmp_path / "program"
    if text is not None:
        program.write_bytes(text.encode())
        program.chmod(mode)
    with pytest.raises(Refusal, match=said) as caught:
        execute(str(program), [str(program)], {"PATH": "/bin"})
    assert caught.value.code == code


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_a_machine_without_room_is_no_fault_of_the_program(number: int) -> None:
    with mock.patch("os.execvpe", side_effect=OSError(number, "full")), pytest.raises(OSError, match="full") as caught:
        execute("/bin/sh", ["/bin/sh"], {})

    assert caught.value.errno == number


@pytest.mark.parametrize(
    ("cmdline", "reached"),
    [
        pytest.param("tini\0-s\0-g\0--\0python3\0-I\0", True, id="the image's own"),
        pytest.param("/usr/bin/tini\0-g\0--\0python3\0", True, id="by its path"),
        pytest.param("tini\0--\0python3\0-g\0", False, id="without groups"),
        pytest.param("/sbin/docker-init\0--\0python3\0", False, id="of the engine"),
        pytest.param("bash\0-g\0", False, id="a shell"),
        pytest.param("", False, id="the kernel"),
        pytest.param(None, False, id="a parent outside"),
    ],
)
def test_an_init_with_groups_signals_the_child_too(cmdline: str | None, reached: bool) -> None:
    assert has_group(cmdline) == reached


@pytest.mark.parametrize(
    ("sender", "comm", "is_whole"),
    [
        pytest.param(7, "slurmstepd\n", True, id="Slurm"),
        pytest.param(0, None, True, id="outside this container"),
        pytest.param(7, "bash\n", False, id="a script of the step"),
        pytest.param(7, None, False, id="kill, which has ended"),
    ],
)
def test_slurm_and_who_is_outside_signal_a_whole_step(sender: int, comm: str | None, is_whole: bool) -> None:
    assert is_of_step(sender, {"/proc/7/comm": comm}.get) == is_whole


@pytest.mark.parametrize(
    ("code", "before", "said"),
    [
        pytest.param(137, {}, True, id="killed for want of memory"),
        pytest.param(137, {limits.VARIABLE: "1"}, False, id="killed by hand, after another had run out of memory"),
        pytest.param(1, {}, False, id="a child of it was killed for want of memory"),
    ],
)
def test_only_a_kill_of_this_job_is_explained_by_memory(
    capsys: pytest.CaptureFixture[str], code: int, before: dict[str, str], said: bool
) -> None:
    files = {
        "/proc/self/cgroup": "0::/\n",
        "/sys/fs/cgroup/memory.events": "oom 1\noom_kill 1\n",
        "/sys/fs/cgroup/memory.max": "1073741824\n",
    }

    print_kill(code, "rank 1 on node1", files.get, before)

    assert ("rank 1 on node1 was killed by signal 9: the memory limit of this" in capsys.readouterr().err) == said


GB = 1 << 30
LIMITED = {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": f"{GB}\n"}


def train(job: Command, argv: list[str], environ: dict[str, str], world: World, files: dict[str, str]) -> str:
    """Return what starts a training: `watch`, `supervise N` or `exec`."""
    plan = mock.Mock(world=world, situation=place(world, job), facts=mock.Mock(files=files.get))
    with (
        mock.patch.object(run, "find_torchrun", lambda _: "/usr/local/bin/torchrun"),
        mock.patch.object(run, "execute", lambda program, words, _: f"exec {program}"),
        mock.patch.object(run, "watch_training", lambda words, *_: f"watch {words[0]}"),
        mock.patch("multinode_image.run.supervise", lambda words, _, rank: f"supervise {rank}"),
    ):
        return str(run.become_or_watch(argv, environ, plan))


@pytest.mark.parametrize(
    ("kind", "files", "argv", "started"),
    [
        (SMOKE, LIMITED, ["python3", "smoke.py"], "watch python3"),
        (SMOKE, LIMITED, [TORCHRUN, "smoke.py"], "watch /usr/local/bin/torchrun"),
        (SMOKE, {}, ["python3", "smoke.py"], "exec python3"),
        (SMOKE, {}, [TORCHRUN, "smoke.py"], "exec /usr/local/bin/torchrun"),
        (PLAIN, LIMITED, ["python3", "smoke.py"], "exec python3"),
    ],
)
def test_a_training_that_may_reach_its_memory_limit_is_watched(
    kind: Kind, files: dict[str, str], argv: list[str], started: str
) -> None:
    """Torchrun's agent as well: the kernel may kill it before it has ranks."""
    assert train(Command(kind, "smoke", []), argv, {}, World(ALONE, ""), files) == started


@pytest.mark.parametrize(
    ("environ", "rank", "started"),
    [
        ({"MULTINODE_SUPERVISED": "1", "PMI_RANK": "1"}, None, "supervise 1"),  # an agent, whose ranks come later
        ({"MULTINODE_SUPERVISED": "1", "PMI_RANK": "1"}, 3, "supervise 3"),
        ({"MULTINODE_SUPERVISED": "1"}, None, "exec /usr/local/bin/torchrun"),
        ({"PMI_RANK": "1"}, 1, "exec /usr/local/bin/torchrun"),
    ],
)
def test_a_torchrun_that_launch_started_is_supervised(environ: dict[str, str], rank: int | None, started: str) -> None:
    world = World(MPI, "", rank=rank)

    assert train(Command(PLAIN, TORCHRUN, []), [TORCHRUN, "x.py"], environ, world, {}) == started


class Rank:
    """Make up a rank: the files of its process in /proc, and what it answers."""

    def __init__(self, proc: Path, pid: int, owner: int = 0) -> None:
        self.fd = proc / str(pid) / "fd"
        self.fd.mkdir(parents=True)
        self.answer = proc.parent / f"memfd:multinode-stacks-{owner or pid}-5 (deleted)"
        self.answer.touch()
        (self.fd / "4").symlink_to(self.answer)
        (self.fd / "5").symlink_to(proc.parent / f"pipe-{pid}")
        (proc.parent / f"pipe-{pid}").touch()


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    directory = tmp_path / "proc"
    (directory / "self").mkdir(parents=True)
    return directory


def test_only_ranks_are_asked_and_not_what_they_have_forked(proc: Path) -> None:
    Rank(proc, 17)
    Rank(proc, 18, owner=17)
    (proc / "1" / "fd").mkdir(parents=True)
    (proc / "1" / "fd" / "0").symlink_to("/dev/null")

    doors, closed = find_doors(str(proc))

    assert [door.pid for door in doors] == [17] and not closed
    assert doors[0].pipe == f"{proc}/17/fd/5"


def test_an_answer_is_printed_whole(
    proc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = Rank(proc, 17)
    looks = iter([b"rank 0 is", b"rank 0 is at train.py:4 (sleep)\n  MainThread" + DONE])
    monkeypatch.setattr(stacks, "time", Clock(sleep=lambda _: rank.answer.write_bytes(next(looks))))

    assert print_stacks(str(proc)) == 0
    assert capsys.readouterr().out == "rank 0 is at train.py:4 (sleep)\n  MainThread\n"


@pytest.mark.parametrize("stays", [True, False])
def test_a_rank_with_a_log_stays_where_what_it_says_is_shown_too(stays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[object]()

    @contextlib.contextmanager
    def keep(place: str, world: World) -> Iterator[bool]:
        done.append(("keep", place, world))
        yield stays
        done.append("written")

    def become(program: str, argv: list[str], environ: Mapping[str, str]) -> None:
        done.append(("become", program, argv, environ))
        raise SystemExit  # nothing comes back

    def run_child(argv: list[str], environ: Mapping[str, str], caught: object) -> int:
        done.append(("child", argv, environ, caught))
        return 3

    monkeypatch.setattr(processes, "keep_log", keep)
    monkeypatch.setattr(processes, "become", become)
    monkeypatch.setattr(processes, "run_child", run_child)
    argv, environ, world = ["python", "x.py"], {"A": "1"}, World(TORCHRUN, "", rank=1)
    with contextlib.nullcontext() if stays else pytest.raises(SystemExit):
        assert processes.run_logged(argv, {**environ, LOGS: "/logs"}, world) == 3

    ended = [("child", argv, environ, processes.CAUGHT), "written"] if stays else [("become", "python", argv, environ)]
    assert done == [("keep", "/logs", world), *ended]


@pytest.mark.parametrize(
    ("answers", "code"), [(["at a", "at b"], 0), (["at a", ""], 1), (["", "at b"], 1), (["", ""], 1)]
)
def test_all_ranks_have_to_answer(
    proc: Path, answers: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for pid in (17, 18):
        Rank(proc, pid)
    monkeypatch.setattr(stacks, "ask_rank", lambda door: answers[door.pid - 17])

    assert print_stacks(str(proc)) == code
    shown = [text or f"process {17 + number} has not answered" for number, text in enumerate(answers)]
    assert all(line.startswith(text) for line, text in zip(capsys.readouterr().out.splitlines(), shown, strict=True))


def test_ranks_are_asked_in_the_order_of_their_numbers(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: ["9", "self", "100", "10", "1"])
    monkeypatch.setattr(stacks, "list_doors", lambda _, pid: [str(pid)])

    assert [*map(str, find_doors(str(proc))[0])] == ["1", "9", "10", "100"]


def test_a_rank_that_is_stopped_is_named(
    proc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Rank(proc, 17).answer.write_bytes(b"an older answer" + DONE)
    monkeypatch.setattr(stacks, "SECONDS", 0.0)

    assert print_stacks(str(proc)) == 1
    assert capsys.readouterr().out.startswith("process 17 has not answered for 0 s: it is stopped")


@pytest.mark.parametrize(
    ("is_closed", "fact"),
    [(True, "the processes of this container are another user's"), (False, "no rank runs in this container")],
)
def test_without_ranks_the_reason_is_said(
    is_closed: bool, fact: str, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (proc / "1" / "fd").mkdir(parents=True)

    def list_as_another(path: str) -> list[str]:
        if is_closed and path.endswith("fd"):
            raise PermissionError(13, "Permission denied", path)
        return sorted(entry.name for entry in os.scandir(path))

    monkeypatch.setattr(os, "listdir", list_as_another)
    with pytest.raises(Refusal) as refusal:
        print_stacks(str(proc))
    assert refusal.value.fact == fact


@pytest.mark.parametrize("code", [0, 1, 128, 137, 143])
def test_a_code_of_a_signal_is_an_end_by_that_signal(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[tuple[object, ...]]()

    def answer(number: int, handler: object) -> None:
        if number == signal.SIGKILL:
            raise OSError
        done.append((number, handler))

    monkeypatch.setattr(signal, "signal", answer)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *given: done.append(given))
    monkeypatch.setattr(os, "kill", lambda *given: done.append(given))

    assert processes.end_alike(code) == code
    number = code - 128
    handlers = [(number, signal.SIG_DFL)] * (number != signal.SIGKILL)
    assert done == ([(signal.SIG_UNBLOCK, {number}), *handlers, (os.getpid(), number)] if number > 0 else [])


OURS, CHILD, ORPHAN, SENDER = 1, 7, 5, 9
NOT_YET = (0, 0)


def came(number: int, pid: int = 0) -> object:
    """Return a signal as it comes, of another process or of the kernel."""
    return SimpleNamespace(si_signo=number, si_code=0 if pid else processes.SI_KERNEL, si_pid=pid)


@pytest.mark.parametrize(
    ("ends", "signals", "code", "passed_on"),
    [
        ([(CHILD, 3 << 8)], [], 3, []),
        ([(CHILD, signal.SIGKILL)], [], 137, []),
        ([(ORPHAN, 1 << 8), (CHILD, 0)], [], 0, []),
        ([NOT_YET, (CHILD, 0)], [came(signal.SIGCHLD, CHILD)], 0, []),
        ([NOT_YET, (ORPHAN, 0), NOT_YET, (CHILD, 0)], [came(signal.SIGCHLD, ORPHAN), came(signal.SIGTERM, 8)], 0, [15]),
        ([NOT_YET, (CHILD, 0)], [came(signal.SIGINT)], 0, []),  # a key, which the child has had
        ([NOT_YET, (CHILD, 0)], [came(signal.SIGHUP)], 0, [1]),  # the terminal of a session that is ours
        ([NOT_YET, (CHILD, 0)], [came(signal.SIGTERM, SENDER)], 0, []),  # who sends it to all
    ],
)
def test_a_parent_hands_on_what_only_it_has_got_until_its_child_has_ended(
    ends: list[tuple[int, int]], signals: list[object], code: int, passed_on: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, coming, killed = iter(ends), iter(signals), list[tuple[int, int]]()
    masks = list[object]()

    def wait(numbers: object) -> object:
        masks.append(numbers)
        return next(coming)

    monkeypatch.setattr(os, "fork", lambda: CHILD)
    monkeypatch.setattr(os, "getpid", lambda: OURS)
    monkeypatch.setattr(os, "getsid", lambda _: OURS)
    monkeypatch.setattr(os, "waitpid", lambda *given: next(ended) if given == (-1, os.WNOHANG) else None)
    monkeypatch.setattr(os, "kill", lambda *given: killed.append(given))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda how, numbers: masks.append((how, numbers)))
    monkeypatch.setattr(signal, "sigwaitinfo", wait)

    assert processes.run_child(["true"], {}, {signal.SIGTERM}, lambda pid: pid == SENDER) == code
    waited = {signal.SIGTERM, signal.SIGCHLD}
    assert masks == [(signal.SIG_BLOCK, waited), *[waited] * len(signals)]
    assert killed == [(CHILD, number) for number in passed_on] and [*ended, *coming] == []


@pytest.mark.parametrize(
    ("number", "session", "ours"),
    [(signal.SIGHUP, OURS, True), (signal.SIGHUP, 3, False), (signal.SIGINT, OURS, False)],
)
def test_only_the_first_of_a_session_is_told_that_its_terminal_is_gone(
    number: int, session: int, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: OURS)
    monkeypatch.setattr(os, "getsid", lambda _: session)

    assert processes.is_hangup(number) is ours


class Ended(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize(
    ("parent", "fails", "code", "said"),
    [
        (OURS, None, None, ""),
        (99, None, 1, ""),  # it has ended before
        (OURS, Refusal("no such program", "x", "y"), 2, "no such program"),
        (OURS, OSError(errno.ENOMEM, "Cannot allocate memory"), 1, "Cannot allocate memory"),
    ],
)
def test_a_child_becomes_the_command_or_ends_with_what_was_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], parent: int, fails: Exception | None,
    code: int | None, said: str,
) -> None:  # fmt: skip
    done = list[object]()

    def become(program: str, argv: list[str], environ: Mapping[str, str]) -> None:
        done.append((program, argv, dict(environ)))
        raise fails or Ended

    def end(number: int) -> None:
        done.append(number)
        raise SystemExit

    monkeypatch.setattr(processes, "end_with_parent", lambda: done.append("with its parent"))
    monkeypatch.setattr(processes, "execute", become)
    monkeypatch.setattr(os, "getppid", lambda: OURS)
    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(SystemExit):
        processes.become_child(["true", "a"], {"A": "1"}, parent)

    called = [("true", ["true", "a"], {"A": "1"})] * (parent == OURS)
    assert done == ["with its parent", *called, code or 1]
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cmdline", "environ", "pid", "senders"),
    [
        ("tini\0-g\0--\0python\0", {}, 5, {4}),
        ("tini\0--\0python\0", {}, 5, set()),
        ("bash\0", {"SLURM_STEP_ID": "0"}, 5, {0, 8}),
        ("bash\0", {"SLURM_STEP_ID": "0"}, 1, set()),  # the first process of a container
        ("tini\0-g\0--\0python\0", {"SLURM_STEP_ID": "0"}, 5, {0, 4, 8}),
    ],
)
@pytest.mark.parametrize("rank", [None, 3])
def test_a_training_is_watched_with_who_signals_all_of_its_group(
    monkeypatch: pytest.MonkeyPatch, cmdline: str, environ: dict[str, str], pid: int, senders: set[int],
    rank: int | None,
) -> None:  # fmt: skip
    files = {"/proc/4/cmdline": cmdline, "/proc/8/comm": "slurmstepd: [7.0]\n", "/proc/9/comm": "bash\n"}
    said, heard = list[object](), set[int]()

    def run(argv: list[str], variables: Mapping[str, str], caught: object, sent_to_all: Callable[[int], bool]) -> int:
        assert caught == processes.CAUGHT
        heard.update(sender for sender in (0, 4, 8, 9) if sent_to_all(sender))
        return 7

    monkeypatch.setattr(processes, "read_text", files.get)
    monkeypatch.setattr(processes, "run_child", run)
    monkeypatch.setattr(processes, "print_kill", lambda *given: said.append(given[:2]))
    monkeypatch.setattr(os, "getppid", lambda: 4)
    monkeypatch.setattr(os, "getpid", lambda: pid)
    monkeypatch.setattr(socket, "gethostname", lambda: "pod0")

    assert processes.watch_training(["x"], environ, rank) == 7
    assert heard == senders
    assert said == [(7, "the training on pod0" if rank is None else "rank 3 on pod0")]


@pytest.mark.parametrize(("local", "stays"), [(None, True), (0, True), (1, False)])
def test_the_first_rank_of_a_node_is_shown_and_the_others_write_to_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: int | None, stays: bool
) -> None:
    done, place = list[object](), tmp_path / "logs"
    place.mkdir()  # by another rank

    @contextlib.contextmanager
    def copy(path: str) -> Iterator[None]:
        done.append(path)
        yield

    monkeypatch.setattr(processes, "copy_streams", copy)
    opened = list[tuple[int, int]]()
    monkeypatch.setattr(os, "dup2", lambda *given: opened.append(given))
    world = World(TORCHRUN, "", rank=None if local is None else 4 + local, local_rank=local)

    with processes.keep_log(str(place), world) as has_to_stay:
        assert has_to_stay is stays

    path = place / f"rank-{0 if local is None else 4 + local}.log"
    assert done == [str(path)] * stays
    assert [number for _, number in opened] == ([] if stays else [1, 2]) and path.exists() is not stays
    assert stays or path.stat().st_mode & 0o777 in (0o664, 0o644, 0o660, 0o640, 0o600)
    for file, _ in opened[:1]:
        os.close(file)


@pytest.mark.parametrize("hangs", [False, True])
def test_streams_are_copied_until_all_is_written(monkeypatch: pytest.MonkeyPatch, hangs: bool) -> None:
    done = list[object]()

    class Copy:
        def wait(self, seconds: float) -> None:
            done.append(f"wait {seconds}")
            if hangs:
                raise subprocess.TimeoutExpired("tee", seconds)

        def kill(self) -> None:
            done.append("kill")

    def start(path: str, number: int) -> Copy:
        done.append((path, number))
        return Copy()

    monkeypatch.setattr(processes, "start_copy", start)
    monkeypatch.setattr(os, "dup", lambda number: 10 * number)
    monkeypatch.setattr(os, "dup2", lambda *given: done.append(given))
    with pytest.raises(Ended), processes.copy_streams("/a"):
        done.append("runs")
        raise Ended

    ends = [f"wait {processes.DRAIN}", *["kill"] * hangs]
    assert done == [("/a", 1), ("/a", 2), "runs", (10, 1), (20, 2), *ends, *ends]


@pytest.mark.parametrize(
    ("logs", "trains", "program", "stays"),
    [("/logs", True, "python", True), ("", True, "python", None), ("/logs", False, "python", None),
     ("/logs", True, TORCHRUN, None)],
)  # fmt: skip
def test_a_rank_keeps_a_log_where_that_is_wanted_and_torchruns_ranks_have_theirs(
    monkeypatch: pytest.MonkeyPatch, logs: str, trains: bool, program: str, stays: bool | None
) -> None:
    done = list[object]()

    @contextlib.contextmanager
    def keep(directory: str, world: str) -> Iterator[bool]:
        done.append((directory, world))
        yield True

    monkeypatch.setattr(processes, "keep_log", keep)
    monkeypatch.setattr(run, "become_or_watch", lambda argv, environ, plan, **options: options.get("stays"))
    plan: Any = SimpleNamespace(situation=SimpleNamespace(command=SimpleNamespace(trains=trains)), world="world")

    assert run.become_or_log([program], {LOGS: logs} if logs else {}, plan) is stays
    assert done == [("/logs", "world")] * bool(stays)


def test_what_ends_a_rank_ends_nobody_who_writes_down_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    before, inherited = [signal.getsignal(number) for number in numbers], list[object]()
    done, pipe = list[object](), SimpleNamespace(fileno=lambda: 7, close=lambda: done.append("close"))

    def start(argv: list[str], **options: object) -> Any:
        inherited.extend(map(signal.getsignal, numbers))
        done.append((argv, options))
        return SimpleNamespace(stdin=pipe)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(os, "dup2", lambda *given: done.append(given))
    processes.start_copy("/a", 1)

    assert done == [(["tee", "--append", "/a"], {"stdin": subprocess.PIPE, "stdout": 1}), (7, 1), "close"]
    assert inherited == [signal.SIG_IGN] * len(numbers)
    assert [signal.getsignal(number) for number in numbers] == before
    of_itself = {signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT}
    assert {*numbers} <= {*processes.CAUGHT} and of_itself.isdisjoint(processes.CAUGHT), "^Z stops the whole job"
