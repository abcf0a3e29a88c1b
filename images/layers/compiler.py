"""Where the base's own Python compiles: one row for each way, and the first that can be used is taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import IO, NamedTuple

from images.debian import packages
from images.deliver import engine as engines
from images.host import process
from images.host.context import Context
from images.host.disk.faults import ELSEWHERE, require_programs
from images.host.errors import WorldFault
from images.host.store import key_of
from images.layers import interpreter, sandbox
from images.layers.interpreter import PythonSource
from images.layers.sandbox import Sandbox
from images.model import Base, Image, Lock, Plan
from images.oci import image as oci

WITHOUT = "--no-bytecode, without --lock"
REMOVE_TREES = "remove the store's directory `trees` and build again"
FOREIGN = "this machine cannot start it"
SECONDS = 5  # for an engine to answer
CREATED = "2024-01-01T00:00:00Z"
SEED = {"PYTHONHASHSEED": "0"}  # heeded by Python before 3.11, which is started without -I


@dataclass(frozen=True)
class Situation:
    """What decides how a base's Python may run: its name, whether Debian signed all it is made of, and the machine."""

    name: str | None
    context: Context
    is_signed: Callable[[], bool]

    @cached_property
    def sandbox(self) -> Sandbox:
        """Return bubblewrap as it is here."""
        return sandbox.find(self.context.environ)

    @cached_property
    def engine(self) -> engines.Search:
        """Return the engine that answers, or why there is none."""
        return engines.search(self.context.environ, SECONDS)


# Run Python with arguments and a last one, the file to read (empty: standard input), into a file; None: it went well,
# else what it said.
Run = Callable[[Sequence[str], Path, Path], "str | None"]


class Way(NamedTuple):
    """A way to run a base's Python: why it cannot be used, what makes it usable, and how it is made ready.

    What makes it ready is given the Python, and its base where that is made already; it returns None to wait for it.
    """

    refusal: Callable[[Situation], str | None]
    remedy: Callable[[Situation], str]
    ready: Callable[[Situation, PythonSource, Base | None], Run | None]


@dataclass(frozen=True)
class Compiler:
    """A base's Python that is ready to compile."""

    source: PythonSource
    run: Run


@dataclass(frozen=True)
class Chosen:
    """The way that is taken for a lock."""

    situation: Situation
    way: Way
    lock: Lock = field(repr=False)

    def compiler(self, base: Base | None) -> Compiler | None:
        """Return the Python of a base, ready to compile; of Debian's packages maybe before it is made."""
        store = self.situation.context.store
        if base and base.manifest:
            source = interpreter.of_base(store, base)
        else:
            source = interpreter.of_packages(store, self.lock.debian.debs, self.lock.python)
        run = self.way.ready(self.situation, source, base)
        return Compiler(source, run) if run else None


def _run_here(box: Sandbox | None, root: Path, path: str) -> Run:
    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        require_programs(root, "the store", f"{ELSEWHERE} where they can, or {WITHOUT}")
        command = [*interpreter.command(root, path), *arguments, ""]
        with given.open("rb") as feed, out.open("wb") as written:
            return _started(box, root, command, feed, written).failure

    return run


def _started(box: Sandbox | None, root: Path, command: list[str], feed: IO[bytes], out: IO[bytes]) -> process.Result:
    if box is None:
        return process.run(command, SEED, REMOVE_TREES, feed, out=out)
    return box.run(command, [root], SEED, REMOVE_TREES, feed, out)


def _here(situation: Situation, source: PythonSource, _: Base | None, *, alone: bool) -> Run:
    """Unpack the Python, which runs through its own loader, without root and outside of its root file system."""
    root = interpreter.unpack(situation.context.store, source)
    return _run_here(situation.sandbox if alone else None, root, source.path)


def _in_engine(situation: Situation, source: PythonSource, base: Base | None) -> Run | None:
    """Load the base into the engine, where it stays: its layers are those of the image."""
    engine, store = situation.engine.engine, situation.context.store
    if base is None or engine is None:
        return None
    tag, alone, loaded = f"multinode-base:{key_of(source.identity)[:12]}", threading.Lock(), threading.Event()
    settings = {"User": "65534:65534", "Env": [f"{name}={value}" for name, value in SEED.items()]}
    image = Image((tag,), oci.config(base.layers, settings, CREATED, base.history), b"", base.layers)

    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        with alone:
            if not loaded.is_set():
                engine.load(image, store)
                loaded.set()
        return engine.run(image, [f"/{source.path}", *arguments], given, out)

    return run


def _not_signed(situation: Situation) -> str | None:
    if not situation.context.native:
        return FOREIGN
    return None if situation.is_signed() else "what it is made of is not signed by Debian"


WAYS = (
    Way(_not_signed, lambda _: "", partial(_here, alone=False)),
    Way(
        lambda it: it.sandbox.refusal if it.context.native else FOREIGN, lambda it: it.sandbox.remedy,
        partial(_here, alone=True),
    ),
    Way(
        lambda it: None if it.engine.engine else it.engine.why or engines.NONE, lambda it: it.engine.remedy, _in_engine,
    ),
)  # fmt: skip


def require(planned: Plan, context: Context) -> None:
    """Raise WorldFault where nothing can run the Python of a plan's base, before anything is downloaded."""
    if planned.bytecode and context.compiles:
        _first(Situation(planned.base, context, lambda: planned.base_reference is None))


def choose(lock: Lock, context: Context) -> Chosen | None:
    """Choose how the modules of a lock are compiled; None where they are not.

    Raises WorldFault where nothing here can run the Python of its base.
    """
    if not (lock.bytecode and context.compiles):
        return None
    situation = Situation(lock.base, context, lambda: not (lock.base_image or packages.unsigned(lock.debian, context)))
    return Chosen(situation, _first(situation), lock)


def _first(situation: Situation) -> Way:
    reasons = []
    for way in WAYS:
        if (refusal := way.refusal(situation)) is None:
            return way
        reasons.append(refusal)
    remedies = [remedy for way in reversed(WAYS) if (remedy := way.remedy(situation))]
    fact = "nothing here may run the Python of the base, which compiles"
    value = f"{situation.name or 'the base'} ({'; '.join(dict.fromkeys(reasons))})"
    raise WorldFault(fact, value, ", or ".join([*remedies, WITHOUT]))
