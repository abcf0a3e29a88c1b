"""Say in words what ended a process of a training, after Python has printed its traceback.

The program of an image's .pth file (programs/at_end.py) calls this at the exit of every Python that has imported torch:
of a rank, and of torchrun's agent, which outlives a rank that was killed.
"""

from __future__ import annotations

import re
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from entrypoint.errors import WORLD, Refusal, list_causes
from entrypoint.faults.disks import MORE_DISK, Disk, find_directory, write_disk
from entrypoint.faults.memory import REMEDY, explain_memory, has_killed, recall_kills
from entrypoint.faults.ranks import find_first
from entrypoint.machine.limits import SHM, write_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from entrypoint.machine.cpus import Files

MORE_SHM = (
    "docker run --shm-size 1g, in Kubernetes an emptyDir with medium Memory at /dev/shm, or fewer DataLoader workers"
)
AGAIN = "start it again: a task goes on from its last checkpoint, your own script where it loads one"
OTHER_RANK = f"read the log of that rank first: it has ended, or the network to its node is cut; then {AGAIN}"
QUOTA = "Disk quota exceeded"
NO_SPACE = rf"No space left on device|os error 28|{QUOTA}"
# What torch.save says when it cannot write, without the reason (caffe2/serialize/inline_container.cc, a C++ stream).
NOT_WRITTEN = r"PytorchStreamWriter failed writing|iostream error|inline_container\.cc.*unexpected pos"
NO_SHM = r"killed by signal: Bus error|unable to (?:write to|allocate shared memory|mmap).*/torch_"
KILLED = r"DataLoader worker .*killed by signal: Killed"
NO_MEMORY = r"can't allocate memory|Cannot allocate memory|MemoryError|std::bad_alloc"
# A kernel that hands out no more memory than it has refuses to copy a large process, of which next to nothing would be
# used: no worker of a DataLoader starts (Documentation/mm/overcommit-accounting.rst).
OVERCOMMIT = "/proc/sys/vm/overcommit_memory"
NEVER = "2"
# The words of gloo (gloo/transport/tcp/pair.cc, unbound_buffer.cc) and of torch's store (c10d/socket.cpp), behind a
# word that shows that they are theirs: a hub's server may reset a connection, too.
GONE = (
    r"(?s)(?:gloo|c10d|C10d|Dist\w+Error).*?(Connection closed by peer|Connection reset by peer|Connection timed out"
    r"|Broken pipe|No route to host|Timed out waiting \d+ms for \w+(?: operation)?|[Ww]ait timeout after \d+ms"
    r"|failed to recv|timed out)"
)
# What torch says when not all came to its store in time, or the store did not answer (c10d/TCPStore.cpp, socket.cpp),
# and what torchrun's agents say when one of them did not report (elastic/agent/server/api.py, _assign_worker_ranks).
FEW = r"Timed out after \d+ seconds waiting for clients\. \d+/\d+ clients joined"
SILENT = r"client socket has timed out after (\d+ms while trying to connect to \([^()]+, \d+\))"
STRANGERS = r"([Ww]ait timeout after \d+ms), keys: \S*torchelastic/(?:role_info|assigned_ranks)"
# The errors of torchrun's agent that has no rendezvous (torch/distributed/elastic/rendezvous/api.py).
UNREACHED = "RendezvousConnectionError"
RENDEZVOUS = {
    UNREACHED: "the rendezvous does not answer, or not any more",
    "RendezvousTimeoutError": "too few nodes came to the rendezvous in time",
    "RendezvousClosedError": "the job of this rendezvous has ended already",
}
NO_HOST = "or no node has this address, as that of a Service: name the pod of worker 0, or a headless Service for it"
OTHER_NODE = "the log of the node that the endpoint names; when it is back, start this node again, and it joins anew"
# A rank of mpirun or srun has one of these, and so have torchrun's workers where such a rank started torchrun.
STARTED = ("SLURM_STEP_NUM_TASKS", "PMI_RANK", "OMPI_COMM_WORLD_RANK")
# What IPEX says (intel_extension_for_pytorch/frontend.py, optimize).
NO_BF16 = r"BF16 weight prepack needs the cpu support ([a-z0-9_, ]+ and avx512dq)"
# What transformers says of bf16 where there is no GPU (training_args.py); version 4 does not say what to do.
NO_GPU = r"Your setup doesn't support (bf16)/gpu"
# What torch.compile says without a compiler, and the compiler without the headers of Python.
NO_COMPILER = r"(No working C\+\+ compiler found)|fatal error: (Python\.h)"
PEER = re.compile(r"\[((?:\d+\.){3}\d+|[0-9a-fA-F:]*:[0-9a-fA-F:.]+)\]:\d+")

WITHOUT_BF16 = "the same command without --bf16, or without --use_ipex"


class Place(NamedTuple):
    """What an explanation may ask for: variables, files of the kernel, the disk at a path, and those that are full.

    at: the directory in which an error says that there was no space; empty where it names none.
    """

    environ: Mapping[str, str]
    files: Files
    measure: Callable[[str], Disk | None]
    full: Callable[[], list[Disk]]
    at: str = ""


def explain(error: BaseException, place: Place) -> Refusal | None:
    """Return what to print about the error that ends this process; None where its own words are enough."""
    causes = list_causes(error)
    text = "\n".join(f"{type(each).__name__}: {each}" for each in causes)
    failures = getattr(error, "failures", None)
    if isinstance(failures, dict) and failures:
        return explain_rank(failures, place)
    if hasattr(error, "sigval"):  # torchrun's agent was told to end (elastic/multiprocessing/api.py)
        name = f"torchrun on {socket.gethostname()} was ended by signal"
        return Refusal(name, int(error.sigval), AGAIN, WORLD)
    place = place._replace(at=next(filter(None, map(find_directory, causes)), ""))
    for pattern, rule in RULES:
        if found := re.search(pattern, text):
            return rule(text, found.group(found.lastindex or 0), place)
    return None


def name_rank(environ: Mapping[str, str]) -> str:
    """Return how this process is called in a message."""
    host = socket.gethostname()
    return f"rank {environ['RANK']} on {host}" if environ.get("RANK") else f"the training on {host}"


def explain_rank(failures: Mapping[int, Any], place: Place) -> Refusal | None:
    """Return which rank of this node failed first, for torchrun's agent (elastic/multiprocessing/errors)."""
    before = recall_kills(place.environ)
    killed = has_killed(place.files, before)
    rank, code = find_first(failures, killed=killed)
    name = f"rank {rank} on {socket.gethostname()}"
    if code >= 0:
        return Refusal(f"{name} ended with exit code", code, "read what it printed before, above", WORLD)
    if code == -signal.SIGKILL and killed:
        return Refusal(f"{name} was killed by signal 9", explain_memory(place.files, before), REMEDY, WORLD)
    return Refusal(f"{name} was killed by signal", -code, f"find out who sent it, and {AGAIN}", WORLD)


def explain_disk(text: str, found: str, place: Place) -> Refusal:
    """Return which directory is full: that of the file in the error, or those that are found to be so.

    A quota is that of a user or a project, and does not show in what is free.
    """
    at = place.measure(place.at) if place.at else None
    full = [at] if at else [] if found == QUOTA else place.full()
    if "/torch_" in text or (full and all(f"{disk.path}/".startswith(f"{SHM}/") for disk in full)):
        return explain_shm(text, found, place)
    value = f"{found}, {at.path}" if at and found == QUOTA else ", ".join(map(write_disk, full)) or found
    return Refusal(f"no space is left for {name_rank(place.environ)}", value, MORE_DISK, WORLD)


def explain_write(text: str, found: str, place: Place) -> Refusal | None:
    """Return which directory is full, if it is that for which something could not be written."""
    return explain_disk(text, found, place) if place.full() else None


def explain_shm(text: str, found: str, place: Place) -> Refusal:
    """Return how large /dev/shm is."""
    disk = place.measure(SHM)
    value = f"{SHM} has {write_size(disk.size)}" if disk else SHM
    return Refusal(f"no shared memory is left for {name_rank(place.environ)}", value, MORE_SHM, WORLD)


def explain_killed(text: str, found: str, place: Place) -> Refusal | None:
    """Return why a worker of a DataLoader was killed, if that was for want of memory."""
    before = recall_kills(place.environ)
    if not has_killed(place.files, before):
        return None
    name = f"a DataLoader worker of {name_rank(place.environ)} was killed by signal 9"
    return Refusal(name, explain_memory(place.files, before), f"{REMEDY}, or fewer --dataloader_num_workers", WORLD)


def explain_allocation(text: str, found: str, place: Place) -> Refusal:
    """Return that there was no memory left to allocate, or that the kernel promises none beyond what it has."""
    value, remedy = found, REMEDY
    if (place.files(OVERCOMMIT) or "").strip() == NEVER:
        value = f"{found}, and vm.overcommit_memory is {NEVER} on this machine"
        remedy = f"sysctl vm.overcommit_memory=0 on the host, or fewer --dataloader_num_workers, or {REMEDY}"
    return Refusal(f"{name_rank(place.environ)} got no memory", value, remedy, WORLD)


def explain_rendezvous(text: str, found: str, place: Place) -> Refusal:
    """Return which rendezvous torchrun's agent has lost, or did not find."""
    remedy = f"{OTHER_NODE}; {NO_HOST}" if found == UNREACHED else OTHER_NODE
    return Refusal(RENDEZVOUS[found], place.environ.get("PET_RDZV_ENDPOINT") or found, remedy, WORLD)


def explain_few(text: str, found: str, place: Place) -> Refusal:
    """Return how many have come to the store of the master: nodes to torchrun's agent, or ranks to rank 0."""
    seconds, here, wanted = re.findall(r"\d+", found)
    nodes = ("nodes", "correct PET_NNODES, which is the same on every node")
    who, remedy = ("ranks", "read their logs") if place.environ.get("LOCAL_RANK") else nodes
    value = f"{here} of {wanted} in {seconds} s"
    return Refusal(f"too few {who} came to the master in time", value, f"start the other {who}, or {remedy}", WORLD)


def explain_silent(text: str, found: str, place: Place) -> Refusal:
    """Return which master has not answered."""
    milliseconds, _, rest = found.partition("ms")
    host, _, port = rest[rest.index("(") + 1 : -1].rpartition(", ")
    remedy = "start the node of rank 0 (PET_NODE_RANK=0), or mend its address, its port or the network to it"
    if any(place.environ.get(name) for name in STARTED) and not place.environ.get("TORCHELASTIC_RUN_ID"):
        remedy = "read the log of rank 0; unset MASTER_ADDR, or export the node of rank 0, or mend the network to it"
    value = f"{host}:{port} in {int(milliseconds) // 1000} s"
    return Refusal("the master does not answer", value, remedy, WORLD)


def explain_strangers(text: str, found: str, place: Place) -> Refusal:
    """Return which node this one was told to be; in an elastic rendezvous no node is told that."""
    if place.environ.get("PET_RDZV_ENDPOINT"):
        return explain_peer(text, found, place)
    names = [name for name in ("PET_NNODES", "PET_NODE_RANK") if place.environ.get(name)]
    value = " ".join(f"{name}={place.environ[name]}" for name in names) or found
    same = "export the same PET_NNODES on every node, and another PET_NODE_RANK on each, from 0"
    again = "or a node was started again while the old master still ran: start it again"
    remedy = f"{same}; if they are right, read the logs of the other nodes, {again}"
    return Refusal("the nodes do not agree on how many they are, or which each is", value, remedy, WORLD)


def explain_peer(text: str, found: str, place: Place) -> Refusal:
    """Return where the other rank was."""
    peers = [each.group(1) for each in PEER.finditer(text)]
    value = f"{found}{f', {peers[-1]}' if peers else ''}"
    return Refusal(f"{name_rank(place.environ)} has lost another rank", value, OTHER_RANK, WORLD)


def explain_bf16(text: str, found: str, place: Place) -> Refusal:
    """Return what IPEX needs and the processor lacks."""
    return Refusal("IPEX cannot train in bf16 on this processor, which has not", found, WITHOUT_BF16)


def explain_gpu(text: str, found: str, place: Place) -> Refusal:
    """Return how transformers is told that a CPU is meant."""
    fact = "transformers looks for a GPU unless it is told to train on the CPU"
    return Refusal(fact, found, "TrainingArguments(..., use_cpu=True), or --use_cpu where the script takes its flags")


def explain_compiler(text: str, found: str, place: Place) -> Refusal:
    """Return which packages torch.compile needs."""
    headers = f"libpython{sys.version_info[0]}.{sys.version_info[1]}-dev"
    remedy = f"apt-get install -y g++ {headers} in a Dockerfile FROM this image, or leave --torch_compile out"
    return Refusal("torch.compile has no compiler, or no headers of Python", found, remedy)


RULES: tuple[tuple[str, Callable[[str, str, Place], Refusal | None]], ...] = (
    (NO_SHM, explain_shm),
    (NO_SPACE, explain_disk),
    (NOT_WRITTEN, explain_write),
    (KILLED, explain_killed),
    (NO_MEMORY, explain_allocation),
    (f"({'|'.join(RENDEZVOUS)})", explain_rendezvous),
    (FEW, explain_few),
    (SILENT, explain_silent),
    (STRANGERS, explain_strangers),
    (NO_BF16, explain_bf16),
    (NO_GPU, explain_gpu),
    (NO_COMPILER, explain_compiler),
    (GONE, explain_peer),
)
