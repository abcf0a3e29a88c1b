"""Where the base's Python compiles: three ways to run it, and the first that can be used is taken.

A machine that cannot start that of the image starts the same release of Debian for TWIN, which gives the same bytes:
marshal knows of a machine only the order of bytes, and the numbers of 64 bits that it writes are the same on all
PLATFORMS. `tests/integration/test_twin.py` holds that for every module of an image.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from images.debian import packages
from images.deliver import engine as engines
from images.deliver.engine import Engine
from images.host import process
from images.host.context import Context
from images.host.disk.faults import ELSEWHERE, require_programs
from images.host.errors import WorldFault
from images.host.store import Store, key_of
from images.layers import interpreter, sandbox
from images.layers.interpreter import PythonSource
from images.model import Base, Deb, Image, Lock, Plan
from images.oci import image as oci
from images.platforms import TWIN, Platform

WITHOUT = "--no-bytecode, without --lock"
REMOVE_TREES = "remove the store's directory `trees` and build again"
FOREIGN, UNSIGNED = "this machine cannot start it", "what it is made of is not signed by Debian"
SECONDS = 5  # for an engine to answer
CREATED = "2024-01-01T00:00:00Z"
SEED = {"PYTHONHASHSEED": "0"}  # heeded by Python before 3.11, which is started without -I

# Run Python with arguments and a last one, the file to read (empty: standard input), into a file; None: it went well,
# else what it said.
Run = Callable[[Sequence[str], Path, Path], "str | None"]


class Way(NamedTuple):
    """A way to run a base's Python: why it cannot be used here, what makes it usable, and how it is made ready.

    `ready` is given a lock, and its base where that is made already; it returns None to wait for that.
    """

    refusal: str | None
    remedy: str
    ready: Callable[[Lock, Base | None], Compiler | None]


@dataclass(frozen=True)
class Compiler:
    """A base's Python that is ready to compile."""

    source: PythonSource
    run: Run


class Startable(NamedTuple):
    """Whether this machine can start a Python of a base, and whether Debian has signed all that it is made of."""

    native: bool
    is_signed: Callable[[], bool]


# Return the Python of a base, ready to compile; of Debian's packages maybe before it is made, or None to wait for it.
Chosen = Callable[["Base | None"], "Compiler | None"]


def require(planned: Plan, context: Context) -> None:
    """Raise WorldFault where nothing can run the Python of a plan's base, before anything is downloaded."""
    if planned.bytecode and context.compiles:
        own = planned.base_reference is None
        starts = (planned.platform, TWIN) if own else (planned.platform,)
        _first(planned.base, context, Startable(context.native in starts, lambda: own))


def choose(lock: Lock, context: Context) -> Chosen | None:
    """Choose how the modules of a lock are compiled; None where they are not.

    Raises WorldFault where nothing here can run the Python of its base.
    """
    if not (lock.bytecode and context.compiles):
        return None
    debs, platform = _packages(lock, context)

    def is_signed() -> bool:
        return not (lock.base_image or packages.unsigned(lock.debian.suite, debs, platform, context))

    way = _first(lock.base, context, Startable(context.native == platform, is_signed))
    return partial(way.ready, lock)


def _packages(lock: Lock, context: Context) -> tuple[Sequence[Deb], Platform]:
    """Return the packages of Debian whose Python compiles here: those of the base, or its twin."""
    if lock.twin and context.native == TWIN:
        return lock.twin, TWIN
    return lock.debian.debs, lock.platform


def _source(store: Store, lock: Lock, base: Base | None, debs: Sequence[Deb], platform: Platform) -> PythonSource:
    """Return the Python of a pulled base, else that of packages of Debian for a platform."""
    if base and base.manifest:
        return interpreter.of_base(store, base, lock.platform)
    return interpreter.of_packages(store, debs, platform, lock.python)


def _first(base: str, context: Context, python: Startable) -> Way:
    found = []
    for make in WAYS:
        way = make(context, python)
        if way.refusal is None:
            return way
        found.append(way)
    reasons = dict.fromkeys(way.refusal for way in found if way.refusal)
    remedies = [way.remedy for way in reversed(found) if way.remedy]
    fact = "nothing here may run the Python of the base, which compiles"
    raise WorldFault(fact, f"{base} ({'; '.join(reasons)})", ", or ".join([*remedies, WITHOUT]))


def directly(context: Context, python: Startable) -> Way:
    """Run it as it is, unpacked: Debian signed all that it is made of."""
    refusal = FOREIGN if not python.native else None if python.is_signed() else UNSIGNED
    return Way(refusal, "", partial(_unpacked, context, None))


def in_sandbox(context: Context, python: Startable) -> Way:
    """Run it unpacked, by bubblewrap."""
    if context.native is None or not python.native:
        return Way(FOREIGN, "", partial(_unpacked, context, None))
    found = sandbox.find(context.environ, context.native)
    return Way(found.refusal, found.remedy, partial(_unpacked, context, found.program))


def in_engine(context: Context, _: Startable) -> Way:
    """Run it in a container of the base."""
    found = engines.search(context.environ, SECONDS)
    refusal = None if found.engine else found.why or engines.NONE
    return Way(refusal, found.remedy, partial(_loaded, context.store, found.engine))


WAYS = (directly, in_sandbox, in_engine)


def _unpacked(context: Context, bubblewrap: str | None, lock: Lock, base: Base | None) -> Compiler:
    """Unpack a Python, which runs through its own loader, without root and outside of its root file system."""
    store = context.store
    source = _source(store, lock, base, *_packages(lock, context))
    root = interpreter.unpack(store, source)

    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        require_programs(root, "the store", f"{ELSEWHERE} where they can, or {WITHOUT}")
        command = [*interpreter.command(root, source), *arguments, ""]
        wrapped = sandbox.around(bubblewrap, command, [root], source.platform) if bubblewrap else nullcontext(command)
        with wrapped as line, given.open("rb") as feed, out.open("wb") as written:
            failure = process.run(line, SEED, REMOVE_TREES, feed, out=written).failure
        if failure:
            interpreter.remove(store, root)
        return failure

    return Compiler(source, run)


def _loaded(store: Store, engine: Engine | None, lock: Lock, base: Base | None) -> Compiler | None:
    """Load the base into the engine, where it stays: its layers are those of the image."""
    if base is None or engine is None:
        return None
    source = _source(store, lock, base, lock.debian.debs, lock.platform)
    settings = {"User": "65534:65534", "Env": [f"{name}={value}" for name, value in SEED.items()]}
    config = oci.config(base.layers, lock.platform, settings, CREATED, base.history)
    image = Image((f"multinode-base:{key_of(source.identity)[:12]}",), config, b"", base.layers)
    alone, load = threading.Lock(), functools.cache(partial(engine.load, image, store))

    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        with alone:
            load()
        return engine.run(image, [f"/{source.path}", *arguments], given, out)

    return Compiler(source, run)
