"""Follow a job that hydra runs: pass its output and signals on, and end it soon after one rank has failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import IO, TYPE_CHECKING, TextIO

from entrypoint.errors import LATER, WORLD, Refusal
from entrypoint.mpi.rank import FAILED, SUPERVISED
from entrypoint.numbers import whole
from entrypoint.printing.streams import mute, print_error, print_note

if TYPE_CHECKING:
    from collections.abc import Mapping

# How long ranks may take to end after a signal, in seconds; a container is killed 10 s after it.
GRACE = 8.0
# How long the other ranks may go on after one has failed, in seconds.
PATIENCE = 5.0
# Bytes of a report; what begins like one and is longer is a rank's own output, which must not be held back for ever.
LONGEST = 4096
# What hydra ends with when it has lost the connection to its proxy on a node (mpiexec, "Downstream from host"), and
# on its own node.
LOST = (255, -signal.SIGPIPE)
REMEDY = "start `worker` again there; if that has run out of memory, with a larger limit; then type the same again"
# What hydra says where it has not reached all nodes, or they not this one; it starts no rank then.
UNREACHED = b"Error setting up the bootstrap proxies"
CONNECT = "let every node reach the others at all ports, by the names in --hosts; `ssh HOST true` tries one"
# The exit codes after a signal to this process; the ranks are killed by it, and may not be able to report their end.
STOPPED = (128 + signal.SIGHUP, 128 + signal.SIGINT, 128 + signal.SIGTERM)
# Hydra would read these and follow them rather than the machinefile.
HYDRA_S_OWN = ("I_MPI_HYDRA_HOST_FILE", "I_MPI_PERHOST")


def run_ranks(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run hydra and return the exit code of the job: 137 if a rank was killed, else the first rank's that failed.

    Hydra itself waits for the other ranks, which may wait half an hour for the one that is gone.
    """
    clean = {name: value for name, value in environ.items() if name not in HYDRA_S_OWN}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env={**clean, SUPERVISED: "1"}, stdout=pipe, stderr=pipe) as child:
        codes: list[int] = []
        heed_signals(child, codes)
        banner: list[str] = []
        output = threading.Thread(target=pass_output, args=(child.stdout, banner), daemon=True)
        output.start()
        pass_errors(child.stderr, codes, banner)
        output.join()
        code = child.wait()
        signal.setitimer(signal.ITIMER_REAL, 0)
    return conclude(code, codes, banner)


def conclude(code: int, codes: list[int], banner: list[str]) -> int:
    """Return the exit code of a job, and print what no rank has reported; code: hydra's, codes: those of ranks."""
    killed = read_killed(banner) if code and (not codes or codes[0] not in STOPPED) else []
    for rank, host, number in killed:
        print_note(f"rank {rank} on {host} was killed by signal {number}, and could not report it before")
    if killed:
        return 128 + killed[0][2]
    if code in LOST and not codes:
        fact, remedy = "hydra has lost a node", REMEDY
        if UNREACHED.decode() in banner:
            fact, remedy = "hydra cannot start the ranks, for a node does not reach another", CONNECT
        print_error(Refusal(fact, "it is named above", remedy, WORLD))
        return WORLD
    if code and not codes:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        print_note(f"the job {how}{verdict(banner)}")
    if codes:
        code = choose_code(codes)
    elif code < 0:
        code = 128 - code
    return code if 0 <= code < 256 else WORLD


def choose_code(codes: list[int]) -> int:
    """Return the exit code of a job from those of its ranks: the first, or 137 where one was killed after it.

    The first has lost that one then. Those that we end get SIGTERM, and after a signal to this process its code counts.
    """
    killed = 128 + signal.SIGKILL
    return killed if killed in codes and codes[0] not in STOPPED else codes[0]


def heed_signals(child: subprocess.Popen[bytes], codes: list[int]) -> None:
    """Install handlers that end the job on a signal, and on the alarm that a failed rank sets.

    Ranks that go on after that are killed with hydra; a further signal does not give them more time.
    """

    def end(*_: object) -> None:
        child.send_signal(signal.SIGTERM)
        if signal.getsignal(signal.SIGALRM) is end:
            signal.signal(signal.SIGALRM, give_up)
            signal.setitimer(signal.ITIMER_REAL, GRACE)

    def give_up(*_: object) -> None:
        child.kill()
        os._exit(choose_code(codes))

    def stop(number: int, _: FrameType | None) -> None:
        codes.append(128 + number)
        end()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    signal.signal(signal.SIGALRM, end)


def pass_output(stream: IO[bytes], banner: list[str]) -> None:
    """Copy what the ranks print on stdout, without hydra's banner."""
    for line in stream:
        if line.startswith(b"=   ") or line.rstrip() == b"=" * 83:
            banner.append(line.decode(errors="replace").strip("= \n"))
        else:
            pass_on(line, sys.stdout, 1)


def pass_errors(stream: IO[bytes] | None, codes: list[int], banner: list[str]) -> None:
    """Copy what the ranks print on stderr as it comes, progress bars without an end of line too, without the reports.

    A report comes on the same stream as the last output of its rank, so it cannot overtake that. Whether hydra has
    reached all nodes is added to its banner.
    """
    held, last = b"", b""
    while chunk := os.read(stream.fileno(), 1 << 16) if stream else b"":
        text, reports, held = split_reports(held + chunk)
        pass_on(text, sys.stderr, 2)
        if UNREACHED in last + text:
            banner.append(UNREACHED.decode())
        last = (last + text)[-len(UNREACHED) :]
        for facts in reports:
            note_failure(facts, codes)
    pass_on(held, sys.stderr, 2)


def pass_on(data: bytes, stream: TextIO | None, number: int) -> None:
    """Write to one of our streams; where that fails, discard, or the ranks would wait for room in their pipe."""
    if stream is None:
        return
    try:
        stream.buffer.write(data)
        stream.buffer.flush()
    except OSError:
        mute(stream, number)


def split_reports(data: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Return text, reports, and the beginning of a report whose end has not come yet."""
    text, reports = b"", []
    while True:
        before, mark, rest = data.partition(FAILED)
        text += before
        facts, newline, data = rest.partition(b"\n")
        if mark and newline:
            reports.append(facts)
        elif mark and len(rest) < LONGEST:
            return text, reports, mark + rest
        elif mark:  # no report of ours
            text, data = text + mark, rest
        else:
            cut = text.rfind(FAILED[:1])
            whole = cut < 0 or not FAILED.startswith(text[cut:])
            return (text, reports, b"") if whole else (text[:cut], reports, text[cut:])


def note_failure(facts: bytes, codes: list[int]) -> None:
    """Print which rank failed first, and keep every exit code; the others get PATIENCE seconds to report theirs."""
    words = facts.decode(errors="replace").split()
    code = whole(words[-1]) if len(words) == 3 else None
    if code is None:  # no report of ours: a rank may print anything
        return
    rank, host, _ = words
    if not codes:
        killed = code - 128 in signal.valid_signals() and code != LATER
        how = f"was killed by signal {code - 128}" if killed else f"ended with exit code {code}"
        print_note(f"rank {rank} on {host} {how}; the job is ended")
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    codes.append(code)


def read_killed(banner: list[str]) -> list[tuple[str, str, int]]:
    """Return the rank, host and signal of those that hydra names at its end: processes of ours that were killed.

    The others have ended because they lost these, and were first to report it. SIGTERM is what we end a job by.
    """
    found, rank, host = [], "", ""
    for line in banner:
        words = line.split()
        number = whole("".join(words[3:4])) if line.startswith("KILLED BY SIGNAL: ") else None
        if words[:1] == ["RANK"] and len(words) > 2:
            rank, host = words[1], words[-1]
        elif rank and number in signal.valid_signals() and number != signal.SIGTERM:
            found.append((rank, host, number))
    return found


def verdict(banner: list[str]) -> str:
    """Return hydra's banner in a few words: which rank, where, and by which signal."""
    said = [line for line in banner if line and not line.startswith("BAD TERMINATION")]
    return f": {'; '.join(said).lower()}" if said else ""
