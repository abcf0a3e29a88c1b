"""Prove by their weights that the ranks of a job train one model, whoever trains it.

What is read before a step is what the loop has left after the one before, with averages, clipping and all that it does
there. A few elements (weights.py) are read before the steps 2, 3, 5, 9, ... of an optimizer, and once more at the end;
another thread compares them with those of other ranks (messenger.py), and proof.py says what that proves. No rank waits
for another one, but at its end.

Who is compared: the ranks of the group that there is; and where that is not the whole job, or there is none, the ranks
of the job, by the store of torchrun's agent. A process that a rank has started is compared as what it is in the job.
Whether something was exchanged is asked of the groups, which count their collectives.

A step costs 1 us, the first one 2.6 ms with 1,000 parameters, and one with a look 0.5 ms (a core of an AMD EPYC Milan,
torch 2.13).
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import weakref
import zlib
from typing import TYPE_CHECKING, Any

from multinode_image.hooks.job.messenger import Message, Messenger, Ring
from multinode_image.hooks.job.one_job import DISTRIBUTED, MEMBER, Fault, choose_remedy, count_meant, find_fault, leave
from multinode_image.hooks.job.place import count_exchanges, find_group, find_store, read_job, uses_rpc
from multinode_image.hooks.model.proof import LAST, Look, Record, describe, find_apart, find_bare, find_unlike, show
from multinode_image.hooks.model.weights import Sample, choose_places, is_shared_out, judge, measure, read, unpack
from multinode_image.settings import APART, TRAINING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Keys by which ranks without a group learn that others train without one as well, and that others have ended.
ALONE, LEFT = "alone", "left"
WITHIN, BETWEEN = "group", "job"  # how keys begin
# Seconds of a wait at the end: for ranks that end together; for those of a group, and of none, that exchange nothing;
# and for what one that has left has said before.
SOON, LATE, LATEST, LAST_LOOK = 2.0, 10.0, 60.0, 0.1
MOST = 64  # optimizers that are looked at, of those that there are: a script may make one for each parameter
NEVER = math.inf


class Training:
    """An optimizer and what is known of it; due: after which step it is looked at next."""

    def __init__(self, owner: Any, name: str, group: Any) -> None:
        """Begin before the first step."""
        self.name, self.group, self.count = name, group, count_exchanges(sys.modules)
        try:
            self.owner: Callable[[], Any] = weakref.ref(owner)
        except TypeError:  # thinc's models
            self.owner = lambda: owner
        self.steps, self.due = 0, 1.0
        self.list_parameters: Callable[[Any], list[Any]] = lambda _: []
        self.places: Sequence[Any] = ()
        self.start: tuple[float, ...] = ()
        self.wrapped = self.parts = self.whole = False
        self.exchanged: bool | None = None
        self.key, self.sent = "", 0
        self.looks: dict[Ring, list[Look]] = {}

    def records(self) -> list[Record]:
        """Return what is known, of each set of ranks; where there is none, as one."""
        known: list[tuple[Ring | None, list[Look]]] = [*self.looks.items()] or [(None, [])]
        return [
            Record(self.name, self.steps, tuple(looks), self.wrapped, self.parts, self.whole, self.find_exchanged(ring))
            for ring, looks in known
        ]

    def find_exchanged(self, ring: Ring | None) -> bool | None:
        """Return whether something was exchanged among some ranks: between groups of one job nothing is."""
        return False if ring and ring.prefix.endswith(BETWEEN) and self.count is not None else self.exchanged


class State:
    """What this process knows: of one that was forked, nothing.

    formed: whether a group of all has been there at a step; rpc: whether ranks met by torch.distributed.rpc; alone:
    whether others have trained without a group as well; left: whether they have ended.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Begin anew."""
        self.pid = os.getpid()
        member = environ.get(MEMBER, str(self.pid)) != str(self.pid)
        self.off = member or count_meant(environ) == 1
        self.job = None if self.off else read_job(environ)
        if self.job is not None and self.job.size < count_meant(environ):
            self.job = None  # of an agent that knows of no other node
        self.is_child = environ.get(TRAINING, "").isdigit() and environ[TRAINING] != str(self.pid)
        self.table: dict[int, Training] = {}
        self.trainings: list[Training] = []
        self.ordinals: dict[str, int] = {}
        self.messenger: Messenger | None = None
        self.formed = self.rpc = self.alone = self.left = False
        self.fault: Fault | None = None
        self.said: set[str] = set()

    def records(self) -> list[Record]:
        """Return what is known of all trainings; those before a group formed prove nothing."""
        last = max((number for number, one in enumerate(self.trainings) if one.whole), default=-1)
        judged = [one for number, one in enumerate(self.trainings) if one.whole or number > last]
        return [record for one in judged for record in one.records()]

    def send(self, message: Message) -> None:
        """Hand a message to the thread, which the first one starts."""
        if self.messenger is None:
            self.messenger = Messenger()
        self.messenger.send(message)


KNOWN: list[State] = []
WRAPPED: weakref.WeakSet[Any] = weakref.WeakSet()


def know() -> State:
    """Return what this process knows."""
    if not KNOWN or KNOWN[0].pid != os.getpid():
        KNOWN[:] = [State(os.environ)]
    return KNOWN[0]


def find_rings(state: State, modules: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[list[Ring], bool]:
    """Return the ranks that this process compares itself with, and whether its group is the whole job.

    They are those of its group, and those of the job where that is more.
    """
    job, distributed, group = state.job, modules.get(DISTRIBUTED), find_group(modules)
    attempt = job.attempt if job else environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    rank, size = (int(distributed.get_rank()), int(distributed.get_world_size())) if group and distributed else (0, 0)
    whole = size >= (job.size if job else count_meant(environ))
    rings, inner = [], f"{rank}of{size}" if size else ""
    if size > 1:
        where = (job.host, job.port) if job and whole and not state.is_child else find_store(distributed, environ)
        rings += [Ring(*where, f"multinode/{attempt}/{size}/{WITHIN}", rank, size)] if where else []
    if job and (not whole or state.is_child) and job.size > 1:  # processes of ranks may have a rank twice
        rings.append(Ring(job.host, job.port, f"multinode/{attempt}/{job.size}/{inner}{BETWEEN}", job.rank, job.size))
    if whole and size > 1:
        os.environ[MEMBER] = str(state.pid)
    return rings, whole and size > 1


def begin(state: State, owner: Any, name: str, list_parameters: Callable[[Any], list[Any]]) -> Training:
    """Return a training that begins with the next step."""
    group = find_group(sys.modules)
    training = Training(owner, name, group)
    state.table = {number: one for number, one in state.table.items() if one.owner() is not None}
    state.table[id(owner)] = training
    state.rpc |= uses_rpc(sys.modules)
    state.trainings.append(training)
    parameters = list_parameters(owner)
    training.name = f"{name} of {len(parameters)} parameters"
    training.list_parameters = list_parameters
    training.parts = any(is_shared_out(parameter) for parameter in parameters)
    inside = {id(parameter) for module in WRAPPED for parameter in module.parameters()}
    training.wrapped = bool(inside) and all(id(parameter) in inside for parameter in parameters)
    rings, training.whole = find_rings(state, sys.modules, os.environ)
    state.formed |= training.whole
    if not training.whole:
        begin_alone(state, rings)
    if training.parts or not rings or len(state.table) > MOST:
        return training
    training.places = choose_places(parameters)
    training.start = read(parameters, training.places)
    training.looks = {ring: [] for ring in rings}
    training.key = choose_key(state, training, name, parameters)
    return training


def choose_key(state: State, training: Training, name: str, parameters: Sequence[Any]) -> str:
    """Return by what this training is known on other ranks: what it trains, and how many like it came before."""
    shapes = zlib.crc32(repr([(tuple(parameter.shape), str(parameter.dtype)) for parameter in parameters]).encode())
    kind = f"{name}.{int(training.wrapped)}.{int(training.whole)}.{shapes:08x}"
    state.ordinals[kind] = state.ordinals.get(kind, 0) + 1
    return f"{kind}.{state.ordinals[kind]}"


def begin_alone(state: State, rings: Sequence[Ring]) -> None:
    """Say at the first step without a group that there is none, and hear it of others."""
    if ALONE in state.said or state.formed:
        return
    state.said.add(ALONE)

    def hear(_: object) -> None:
        state.alone = True
        if state.job and state.job.rank == 0 and not state.formed and not state.rpc:
            say(f"ranks train, and no process group has all of them; where none forms, step {LAST} is the last")

    for ring in rings:
        if ring.prefix.endswith(BETWEEN):
            state.send(Message(ring, ALONE, b"1", hear))


def follow(owner: Any, name: str, list_parameters: Callable[[Any], list[Any]]) -> None:
    """Count a step that is about to be made, and look at the weights where that is due."""
    state = know()
    if state.off:
        return
    training = state.table.get(id(owner))
    if training is None or training.group is not find_group(sys.modules) or training.owner() is not owner:
        try:
            training = begin(state, owner, name, list_parameters)
        except Exception:
            training = state.table[id(owner)]
            training.due = NEVER  # it stays without looks, which the last line says
    training.steps += 1
    if training.steps > training.due or state.fault is not None:
        examine(state, training)


def examine(state: State, training: Training) -> None:
    """Look at weights between two steps, and end this process if that has proved an error."""
    done = training.steps - 1
    if done >= training.due:
        training.due *= 2
        try:
            take(state, training, done)
        except Exception:
            training.due = NEVER
    if state.fault is not None:
        leave(state.fault)
    if not state.formed and done >= LAST and must_end_alone(state):
        fault = find_fault(sys.modules, os.environ, training.name)
        if fault is not None:
            leave(fault)


def must_end_alone(state: State) -> bool:
    """Return whether a rank that trains without a group ends here: nobody can be asked whether others do as well.

    Rank 0 may prepare something for long before a group forms.
    """
    return state.job is None and os.environ.get("RANK", "") != "0" and not state.rpc


def take(state: State, training: Training, step: int) -> None:
    """Read a sample, and send it to other ranks."""
    owner, now = training.owner(), count_exchanges(sys.modules)
    known = now is not None and training.count is not None
    training.exchanged = training.exchanged or (now != training.count if known else None)
    if not training.looks or owner is None or step <= training.sent:
        return
    sample = Sample(training.start, read(training.list_parameters(owner), training.places))
    training.sent, epsilons = step, [place.epsilon for place in training.places]
    for ring in training.looks:
        exchanged = training.find_exchanged(ring)

        def hear(texts: list[bytes], ring: Ring = ring, exchanged: bool | None = exchanged) -> None:
            distances = [measure(sample, unpack(text), epsilons) for text in texts]
            worst = max(distances, key=lambda distance: math.inf if distance is None else distance.ratio)
            verdict = judge(worst, epsilons)
            training.looks[ring].append(Look(step, verdict, worst.ratio if worst else 0.0, exchanged))
            weigh(state)

        state.send(Message(ring, f"{training.key}/{step}", sample.pack(), hear))


def weigh(state: State) -> None:
    """Draw conclusions from what has come, in the thread that it has come to; the next step ends what is to end."""
    records = state.records()
    apart = find_apart(records, ended=False)
    if apart is not None:
        state.fault = state.fault or describe_apart(apart)
    if os.environ.get("RANK") != "0":
        return
    for record, fault in ((find_bare(records), describe_bare), (find_unlike(records), describe_unlike)):
        if record is not None and not record.apart and record.name not in state.said:
            state.said.add(record.name)
            say(fault(record))


def describe_apart(record: Record) -> Fault:
    """Return the error of ranks that train another model each."""
    if not record.whole:
        fault = find_fault(sys.modules, os.environ, record.name)
        if fault is not None:
            return fault
    fact = "each rank trains a model of its own, and nothing is exchanged"
    remedy = choose_remedy(sys.modules, record.name)
    if record.wrapped:
        remedy = "call the DistributedDataParallel itself, not its .module, and let no_sync end before a step"
    return Fault(fact, show(record), f"{remedy}; or {APART}=1 where that is meant")


def describe_bare(record: Record) -> Fault:
    """Return what is wrong with a model outside of any wrapper, beside one that is in it."""
    fact = "each rank trains a model of its own beside one that all train"
    remedy = f"DistributedDataParallel for that model as well, or all_reduce of its gradients; or {APART}=1"
    return Fault(fact, show(record), f"{remedy} where that is meant")


def describe_unlike(record: Record) -> Fault:
    """Return what may be wrong where gradients met and weights differ."""
    fact = "weights differ, though all are in a DistributedDataParallel"
    remedy = (
        "the same learning rate and the same options on all ranks; nothing, where weights are averaged now and then"
    )
    return Fault(fact, show(record), remedy)


def say(text: object) -> None:
    """Print a line."""
    with contextlib.suppress(Exception):  # a stream may be closed
        print(text if isinstance(text, Fault) else f"multinode: {text}", file=sys.stderr, flush=True)


def watch_parallel(module: Any) -> None:
    """Remember which models are wrapped; module: torch.nn.parallel.distributed."""
    kind = module.DistributedDataParallel
    make = kind.__init__

    @functools.wraps(make)
    def make_and_remember(self: Any, *words: Any, **options: Any) -> None:
        make(self, *words, **options)
        WRAPPED.add(self)

    kind.__init__ = make_and_remember


def describe_training(size: int) -> str:
    """Return what is proved of a job of so many ranks, at its end; empty for a part that a rank has started."""
    state = know()
    return "" if state.is_child and not state.formed else describe(state.records(), size)


def describe_rpc(meant: int) -> str:
    """Return what is known of ranks that met by torch.distributed.rpc; empty where they did not."""
    return f"{meant} ranks met by torch.distributed.rpc; their weights were not compared" if know().rpc else ""


def finish(modules: Mapping[str, Any], environ: Mapping[str, str]) -> Fault | None:
    """Look once more at the end of a process that ends well; return what makes it an error, if anything does."""
    state = know()
    if state.off:
        return None
    for training in state.trainings:
        with contextlib.suppress(Exception):
            take(state, training, training.steps)
    tell_end(state)
    wait(state)
    if state.fault is not None:
        return state.fault
    records = state.records()
    apart, bare = find_apart(records, ended=True), find_bare(records)
    if apart is not None:
        return describe_apart(apart)
    if bare is not None:
        return describe_bare(bare)
    if not state.trainings or state.formed or state.rpc or not (state.alone or state.job is None):
        return None
    return find_fault(modules, environ, state.trainings[-1].name)


def tell_end(state: State) -> None:
    """Let others know that this rank has ended, and hear it of them."""
    job = state.job
    if job is None or state.is_child or LEFT in state.said:
        return
    state.said.add(LEFT)

    def hear(_: object) -> None:
        state.left = True

    ring = Ring(job.host, job.port, f"multinode/{job.attempt}/{job.size}/{BETWEEN}", job.rank, job.size)
    state.send(Message(ring, LEFT, b"1", hear if state.trainings else None))


def wait(state: State) -> None:
    """Wait for what other ranks have to say, for as long as that may change something."""
    if state.messenger is None:
        return
    seconds = SOON if os.environ.get("RANK") == "0" else 0.0
    if any(record.exchanged is False for record in state.records()):
        seconds = LATE if state.formed else LATEST
    if state.messenger.wait(lambda: state.left or (state.alone and not state.formed), seconds):
        state.messenger.wait(lambda: False, LAST_LOOK)


def stop() -> None:
    """Let others know that this process ends, however it does, and end its thread, if it has one."""
    if KNOWN and KNOWN[0].pid == os.getpid() and KNOWN[0].messenger is not None:
        tell_end(KNOWN[0])
        KNOWN[0].messenger.stop()
