"""Say in words what ended a process of a training, after Python has printed its traceback.

What upstream says well is left to it: here are the errors that mislead, and those whose cause is a limit of the
container. hooks/at_exit.py asks at the end of every rank, and of torchrun's agent, which outlives a rank.
"""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from multinode_image.errors import EXIT_OUTSIDE, EXIT_USER, Refusal, list_causes
from multinode_image.hooks.compute.compiler import REMEDY as COMPILER
from multinode_image.hooks.job.reason import read_reason, read_time
from multinode_image.machine.files import Files
from multinode_image.machine.limits import (
    MORE_MEMORY,
    MORE_ROOM,
    MORE_SHM,
    SHM,
    Disk,
    explain_files,
    explain_kill,
    explain_memory,
    explain_processes,
    explain_refused,
    has_killed,
    write_size,
)
from multinode_image.reading import LAST_PORT, PORT

AGAIN = "start it again: a Trainer goes on from its last checkpoint, any other script where it loads one"
# What the kernel sends for a fault of the program itself, and what a library ends its own process with.
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS)
# What a rank ends with that was told to, or has learnt of it, after its last checkpoint (last_checkpoint.py).
STOPPED = 128 + signal.SIGTERM
# What gloo and torch's store say after a wait for a rank that may be busy; the kernel says that a connection timed out.
WAITED = re.compile("Timed out waiting|[Ww]ait timeout after")
# What the kernel says of an address to which nothing leads, or which has gone.
UNREACHED = ("timed out", "Connection timed out", "No route to host")
ELSEWHERE = (
    "read the log of that rank first: its node or the network to it is gone; or this node does not reach that address: "
    "export GLOO_SOCKET_IFNAME=NAME there, the interface of the network that all have"
)
BUSY = (
    "where it is still busy, prepare data before, or wait longer: --ddp_timeout, init_process_group(timeout=...); "
    "where it makes fewer steps, the same number of batches on all ranks; else read its log, and mend the network"
)
PEER = re.compile(r"\[((?:\d+\.){3}\d+|[0-9a-fA-F:]*:[0-9a-fA-F:.]+)\]:\d+")


class Place(NamedTuple):
    """What an explanation may ask for.

    Variables, files of the kernel, the disk at a path, those that are full, in words where the other ranks are, and
    what the kernel refuses to a program that could not write a file.
    """

    environ: Mapping[str, str]
    files: Files
    measure: Callable[[str], Disk | None]
    full: Callable[[], list[Disk]]
    others: Callable[[], str] = str
    refused: Callable[[], OSError | None] = lambda: None

    @property
    def who(self) -> str:
        """Return how this process is called in a message."""
        host = socket.gethostname()
        return f"rank {self.environ['RANK']} on {host}" if self.environ.get("RANK") else f"the training on {host}"


def explain(error: BaseException, place: Place) -> Refusal | None:
    """Return what to print about the error that ends this process; None where its own words are enough."""
    causes = list_causes(error)
    text = "\n".join(f"{type(cause).__name__}: {cause}" for cause in causes)
    failures = getattr(error, "failures", None)
    if isinstance(failures, dict) and failures:
        return explain_rank(failures, place)
    if hasattr(error, "sigval"):  # torchrun's agent was told to end (elastic/multiprocessing/api.py)
        name = f"torchrun on {socket.gethostname()} was ended by signal"
        return Refusal(name, int(error.sigval), AGAIN, EXIT_OUTSIDE)
    for pattern, rule in RULES:
        if match := re.search(pattern, text):
            return rule(text, match.group(match.lastindex or 0), place)
    return None


def choose_first(failures: Mapping[int, Any], *, killed: bool = False) -> int:
    """Return which rank of a node failed first; killed: whether the kernel has, for want of memory.

    Times are whole seconds (elastic/multiprocessing/errors), and the others end with an error as soon as one is gone.
    Of those of one second a killed one comes first, then one with an error, and last what the agent itself or an abort
    has ended. A rank that has left a reason has a time of its own; of any other the agent's is taken, which may be of
    the next second.
    """

    def weigh(rank: int) -> tuple[int, int, float]:
        when, code = (int(getattr(failures[rank], name, 0)) for name in ("timestamp", "exitcode"))
        number, left = find_signal(code), read_time(failures[rank])
        if killed and number == signal.SIGKILL:  # torch itself may have left the times of the others
            return when - 2, 0, 0
        weight = {0: 1, signal.SIGABRT.value: 2, signal.SIGTERM.value: 3}.get(number, 0)
        return when if left or weight > 1 else when - 1, weight, left

    return min(failures, key=weigh)


def explain_rank(failures: Mapping[int, Any], place: Place) -> Refusal:
    """Return why the rank of this node that failed first has, by its own words if it left some, for torchrun."""
    killed = has_killed(place.files, place.environ)
    rank = choose_first(failures, killed=killed)
    if (parts := read_reason(failures[rank])) is not None:
        return Refusal(*parts, EXIT_OUTSIDE)
    code, name = int(getattr(failures[rank], "exitcode", 0)), f"rank {rank} on {socket.gethostname()}"
    if code == STOPPED:
        return Refusal(f"{name} has ended, for this node or another one was told to", code, AGAIN, EXIT_OUTSIDE)
    number = find_signal(code)
    if not number:
        remedy = f"mend what its lines above name, then {AGAIN}"
        return Refusal(f"{name} ended with exit code", code, remedy, EXIT_OUTSIDE)
    if killed and number == signal.SIGKILL:
        return explain_kill(name, place.files)
    if number in CRASHES:
        return Refusal(f"{name} crashed by signal", number, CRASHED, EXIT_OUTSIDE)
    return Refusal(f"{name} was killed by signal", number, f"find out who sent it, and {AGAIN}", EXIT_OUTSIDE)


def find_signal(code: int) -> int:
    """Return which signal has ended a rank, or what a shell had started for it (bash(1), EXIT STATUS); 0 if none has.

    code: as Python's subprocess has it, less than 0 for a signal. STOPPED is what a rank ends with by itself.
    """
    number = max(-code, code - 128)
    return number if number in signal.valid_signals() and code != STOPPED else 0


def explain_disk(text: str, matched: str, place: Place) -> Refusal:
    """Return which file systems are full."""
    full = place.full()
    if "/torch_" in text or (full and all(f"{disk.path}/".startswith(f"{SHM}/") for disk in full)):
        return explain_shm(text, matched, place)
    value = ", ".join(map(str, full)) or matched
    return Refusal(f"no space is left for {place.who}", value, MORE_ROOM, EXIT_OUTSIDE)


def explain_write(text: str, matched: str, place: Place) -> Refusal | None:
    """Return which directory is full or which limit is reached, if it is that for which nothing could be written."""
    if place.full():
        return explain_disk(text, matched, place)
    error = place.refused()
    return explain_refused(error.errno or 0, str(error.filename or matched), place.who) if error else None


def explain_number(text: str, matched: str, place: Place) -> Refusal | None:
    """Return which limit is reached, as the number in an error of Python or of Rust says."""
    said = next(line for line in text.splitlines() if matched in line)
    return explain_refused(int(re.sub(r"\D", "", matched)), said, place.who)


def explain_shm(text: str, matched: str, place: Place) -> Refusal:
    """Return how large /dev/shm is."""
    disk = place.measure(SHM)
    value = f"{SHM} has {write_size(disk.size)}" if disk else SHM
    return Refusal(f"no shared memory is left for {place.who}", value, f"{MORE_SHM}, or fewer workers", EXIT_OUTSIDE)


def explain_killed(text: str, matched: str, place: Place) -> Refusal | None:
    """Return why a worker of a DataLoader was killed, if that was for want of memory."""
    remedy = f"{MORE_MEMORY}, or fewer --dataloader_num_workers"
    if not has_killed(place.files, place.environ):
        return None
    name = f"a DataLoader worker of {place.who} was killed by signal 9"
    return Refusal(name, explain_memory(place.files), remedy, EXIT_OUTSIDE)


def explain_peer(text: str, matched: str, place: Place) -> Refusal:
    """Return where the other rank was, and where it is: one that has not answered in time may live."""
    peers = [match.group(1) for match in PEER.finditer(text)]
    value = f"{matched}, {peers[-1]}" if peers else matched
    remedy = f"read the log of that rank first: it has ended, or the network to its node is cut; then {AGAIN}"
    if matched in UNREACHED:
        remedy = f"{ELSEWHERE}; then {AGAIN}"
    elif WAITED.match(matched):
        others = place.others()
        value, remedy = f"{value}; {others}" if others else value, f"{BUSY}; then {AGAIN}"
    return Refusal(f"{place.who} has lost another rank", value, remedy, EXIT_OUTSIDE)


def explain_nodes(text: str, matched: str, place: Place) -> Refusal:
    """Return which node this one was told to be; in an elastic rendezvous no node is told that."""
    if place.environ.get("PET_RDZV_ENDPOINT"):
        return explain_peer(text, matched, place)
    names = [name for name in ("PET_NNODES", "PET_NODE_RANK") if place.environ.get(name)]
    value = " ".join(f"{name}={place.environ[name]}" for name in names) or matched
    remedy = "the same PET_NNODES on every node, and another PET_NODE_RANK on each, from 0; if they are, start it again"
    return Refusal("the nodes do not agree on how many they are, or which each is", value, remedy, EXIT_OUTSIDE)


def explain_port(text: str, matched: str, place: Place) -> Refusal:
    """Return which port is another's: it was free when rank 0 was started (world/master.py), seconds ago."""
    name = "PET_MASTER_PORT" if any(variable.startswith("PET_") for variable in place.environ) else "MASTER_PORT"
    port = int(matched) + 1 if int(matched) < LAST_PORT else PORT
    fact = "the port where rank 0 has to listen is in use"
    return Refusal(fact, matched, f"export {name}={port} on every node", EXIT_OUTSIDE)


def say(fact: str, remedy: str, code: int = EXIT_OUTSIDE) -> Callable[[str, str, Place], Refusal]:
    """Return a rule whose fact and remedy are always the same, and whose value is what its pattern has matched."""
    return lambda text, matched, place: Refusal(fact, matched, remedy, code)


MASTER = "start the node of rank 0, or correct its address, its port or the network to it"
ENDPOINT = (
    "the same --rdzv_id (PET_RDZV_ID) on every node; or read the log of the node that PET_RDZV_ENDPOINT names, which "
    "must be one pod or a headless Service, and when it is back, start this node again"
)
CPU = "bf16=False, for this processor would emulate it; or TrainingArguments(..., use_cpu=True), or --use_cpu"
BACKEND = 'init_process_group("gloo"), or the backend that `doctor` names; build.py --backend ccl makes images with ccl'
CRASHED = f"read its lines above, and export PYTHONFAULTHANDLER=1 to see in which library; then {AGAIN}"

# What an error's text has, in the order in which it is looked for, and what to print then.
RULES: tuple[tuple[str, Callable[[str, str, Place], Refusal | None]], ...] = (
    (r"killed by signal: Bus error|unable to (?:write to|allocate shared memory|mmap).*/torch_", explain_shm),
    (r"No space left on device|os error 28", explain_disk),
    (r"(\[Errno (?:27|122)\]|\(os error (?:27|122)\))", explain_number),
    # What torch.save says when it cannot write (caffe2/serialize/inline_container.cc, a C++ stream).
    (r"PytorchStreamWriter failed writing|iostream error|inline_container\.cc.*unexpected pos", explain_write),
    (r"DataLoader worker .*killed by signal: Killed", explain_killed),
    # at_exit.py asks for an interrupt where no thread can be started (OpenBLAS, driver/others/blas_server.c).
    (r"\AKeyboardInterrupt|can't start new thread|Cannot fork"
     r"|(?:BlockingIO|Runtime)Error.*Resource temporarily unavailable",
     lambda text, matched, place: explain_processes(place.files, place.who)),
    (r"Too many open files", lambda text, matched, place: explain_files(place.who)),
    (r"can't allocate memory|Cannot allocate memory|MemoryError|std::bad_alloc",
     lambda text, matched, place: Refusal(f"{place.who} got no memory", matched, MORE_MEMORY, EXIT_OUTSIDE)),
    # Of torchrun's agent (torch/distributed/elastic/rendezvous/api.py).
    (r"Rendezvous(?:Connection|Timeout|Closed)Error", say("too few nodes have come to the rendezvous", ENDPOINT)),
    # Of torch's store (c10d/TCPStore.cpp, socket.cpp), and of an agent whose fellows do not report
    # (elastic/agent/server/api.py, _assign_worker_ranks).
    (r"Timed out after \d+ seconds waiting for clients\. (\d+/\d+ clients joined)",
     say("too few have come to the master in time", "start the others, or read their logs")),
    (r"server socket has failed to (?:listen|bind).*?(?:port: |\]:)(\d+)(?=.*?(?:EADDRINUSE|errno: 98))", explain_port),
    (r"client socket has timed out after (\d+ms while trying to connect to \([^()]+, \d+\))",
     say("the master does not answer", MASTER)),
    (r"([Ww]ait timeout after \d+ms), keys: \S*torchelastic/(?:role_info|assigned_ranks)", explain_nodes),
    # importlib.metadata, by which transformers and accelerate look for what an option needs, such as deepspeed.
    (r"No package metadata was found for (?:The ')?([\w.-]+)",
     lambda text, matched, place: Refusal(
         "this image has no package that the training asks for", matched,
         f"pip install {matched} as USER root in an image FROM this one, or leave it out", EXIT_USER)),
    # Of torch's inductor (torch/_inductor/exc.py, cpp_builder.py); and a compiler without the headers of Python.
    (r"InvalidCxxCompiler: ([^\n]*)|(Python\.h: No such file or directory)",
     say("this image has no C++ compiler, which torch.compile calls", COMPILER, EXIT_USER)),
    # A backend is built into torch, or comes with a package (torch/distributed/distributed_c10d.py).
    (r"doesn't have (\w+) built in|Unknown (?:c10d )?backend type '?(\w+)|Invalid backend: '(\w+)|"
     r"No module named '(oneccl_bindings_for_pytorch|torch_ccl)",
     say("this image trains on CPUs, and has no such backend", BACKEND, EXIT_USER)),
    # transformers/training_args.py, where there is no GPU; version 4 does not say what to do.
    (r"Your setup doesn't support (bf16)/gpu", say("transformers looks for a GPU", CPU, EXIT_USER)),
    # The words of gloo (gloo/transport/tcp/pair.cc, unbound_buffer.cc) and of torch's store, behind a word that shows
    # that they are theirs: a hub's server may reset a connection, too.
    (r"(?s)(?:gloo|c10d|C10d|Dist\w+Error).*?(Connection closed by peer|Connection reset by peer|Connection timed out"
     r"|Broken pipe|No route to host|Timed out waiting \d+ms for \w+(?: operation)?|[Ww]ait timeout after \d+ms"
     r"|failed to recv|timed out)", explain_peer),
)  # fmt: skip
