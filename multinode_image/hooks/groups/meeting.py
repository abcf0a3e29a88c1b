"""Where a group meets: at the agent's store if that is what is meant, and not on each node for itself.

torchrun's ranks meet at the store of its agent, and so torch lets no process that has their variables serve a store. A
rank whose script names another place, as MASTER_ADDR=localhost in tutorials, meets the others where it was told to. A
script that starts processes of its own (mp.spawn, Ray, notebook_launcher) gives them another address, where nobody
serves one then: they wait for 30 minutes. They get a store of their own here.

A script that does so on each of several nodes trains a model on each. So each such process says in the job's store
where it meets; if those of another rank meet elsewhere, both are ended before they begin, and their ranks with them:
Ray would start such processes again without end.

The agent's store outlives a group: a rank that forms a group again after destroy_process_group finds there where the
others listened before, connects to nobody, and waits for half an hour. So do ranks that are started again where all
starts have one store, as under the static rendezvous; torch thinks that each has a new one
(torch/distributed/rendezvous.py, _create_c10d_store). So each group of a process, and each start of the ranks, has keys
of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

from multinode_image.hooks.ends.ending import START as START_OF_RANKS
from multinode_image.hooks.job.messenger import are_there, connect
from multinode_image.hooks.job.one_job import MEMBER, Fault, count_meant, leave
from multinode_image.hooks.job.place import AGENT, Job, read_job
from multinode_image.hooks.job.reason import leave_reason
from multinode_image.settings import APART, TRAINING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SECONDS, PAUSE = 5.0, 0.1  # for another rank that starts its processes as well: one that comes later hears of these
START = "multinode SCRIPT.py starts the ranks: take out what starts processes (mp.spawn, Ray, notebook_launcher)"


def watch_stores(module: Any) -> None:
    """Let groups meet where they are meant to; module: torch.distributed.rendezvous."""
    make = getattr(module, "_create_c10d_store", None)
    if make is None:
        return

    @functools.wraps(make)
    def make_where_meant(hostname: str, port: int, rank: int, world_size: int, *words: Any, **options: Any) -> Any:
        job = read_job(os.environ)
        if is_started_by_rank(os.environ, os.getpid()) and world_size > 1:
            check(f"{hostname}:{port}", job)
        if job is not None and is_rank_of(job, rank, world_size):
            hostname, port = job.host, job.port
        with serve_if(job is not None and port != job.port):
            return make(hostname, port, rank, world_size, *words, **options)

    module._create_c10d_store = make_where_meant


def separate_groups(module: Any) -> None:
    """Let each group of a job have keys of its own in a store; module: torch.distributed.distributed_c10d.

    Only the groups of all ranks are counted: of these each rank has formed as many.
    """
    form, meet, formed = module.init_process_group, module.rendezvous, list[int]()

    @functools.wraps(form)
    def form_and_count(*words: Any, **options: Any) -> Any:
        result = form(*words, **options)
        if str(module.get_world_size()) == os.environ.get("WORLD_SIZE"):
            formed.append(os.getpid())
        return result

    @functools.wraps(meet)
    def meet_apart(*words: Any, **options: Any) -> Iterator[Any]:
        count = formed.count(os.getpid())  # what was forked from a rank begins anew
        start = os.environ.get(START_OF_RANKS, "0")
        keys = f"again/{start}/{count}" if count or start != "0" else ""
        for store, *place in meet(*words, **options):
            yield (module.PrefixStore(keys, store) if keys else store, *place)

    module.init_process_group, module.rendezvous = form_and_count, meet_apart


@contextlib.contextmanager
def serve_if(is_other: bool) -> Iterator[None]:
    """Let torch serve a store that is not the agent's."""
    told = os.environ.pop(AGENT, None) if is_other else None
    try:
        yield
    finally:
        if told is not None:
            os.environ[AGENT] = told


def is_rank_of(job: Job, rank: int, world_size: int) -> bool:
    """Return whether this process forms the group of its job; what it starts from now on is its own."""
    if os.environ.get(TRAINING) != str(os.getpid()) or (rank, world_size) != (job.rank, job.size):
        return False
    if job.size > 1:
        os.environ.setdefault(MEMBER, str(os.getpid()))
    return True


def is_started_by_rank(environ: Mapping[str, str], pid: int) -> bool:
    """Return whether this process was started by a rank of several that is in no group itself."""
    rank = environ.get(TRAINING, "")
    return rank.isdigit() and int(rank) != pid and not environ.get(MEMBER) and count_meant(environ) > 1


def check(place: str, job: Job | None) -> None:
    """End this process if its group is one of several that ranks form, each for itself; place: where it meets."""
    is_here = is_of_this_node(place.rpartition(":")[0])
    name = f"{socket.gethostname()}, {place}" if is_here else place
    if job is None:
        if is_here and os.environ.get("RANK", "0") != "0":
            end(describe(os.environ["RANK"], name, "nobody can be asked where those of other ranks do"))
        return
    other = None
    with contextlib.suppress(Exception):  # a store that is not reached says nothing
        other = ask_neighbour(connect(job.host, job.port), job, name)
    if other is not None and other != name:
        end(describe(str(job.rank), name, f"those of rank {(job.rank + 1) % job.size} at {other}"))


def is_of_this_node(host: str) -> bool:
    """Return whether an address is one that no other node reaches."""
    try:
        return all(str(row[4][0]).startswith(("127.", "::1")) for row in socket.getaddrinfo(host, None))
    except OSError:
        return False


def ask_neighbour(store: Any, job: Job, place: str, wait: Callable[[float], None] = time.sleep) -> str | None:
    """Return where processes of the next rank meet; None if they do not for a while."""
    mine, other = (f"multinode/{job.attempt}/meets/{rank}" for rank in (job.rank, (job.rank + 1) % job.size))
    store.set(mine, place)
    until = time.monotonic() + SECONDS
    while not are_there(store, [other]):
        if time.monotonic() > until:
            return None
        wait(PAUSE)
    return str(bytes(store.get(other)).decode())


def describe(rank: str, place: str, others: str) -> Fault:
    """Return why the processes of a rank end."""
    fact = "processes that ranks have started would form a group of each rank, and train a model in each"
    return Fault(
        fact, f"those of rank {rank} meet at {place}, and {others}", f"{START}; or {APART}=1 where that is meant"
    )


def end(fault: Fault) -> NoReturn:
    """End this process, and its rank if that does not see it end."""
    leave_reason(fault, os.environ)
    rank = int(os.environ[TRAINING])
    if os.getppid() != rank:
        print(fault, file=sys.stderr, flush=True)
        os.kill(rank, signal.SIGTERM)
    leave(fault)
