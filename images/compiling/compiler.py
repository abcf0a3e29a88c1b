"""Where the base's Python compiles: directly where Debian has signed all that it is made of, else in an engine.

A machine that cannot start that of the image starts the same release of Debian for TWIN, which gives the same bytes:
marshal knows of a machine only the order of bytes, and the numbers of 64 bits that it writes are the same on all
PLATFORMS. `tests/integration/test_twin.py` holds that for every module of an image.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from images.base.base import Base
from images.base.facts import Site
from images.base.inspect import debian_site
from images.compiling import interpreter
from images.context import Context
from images.debian import packages
from images.debian.deb import Deb
from images.deliver import engine as engines
from images.deliver.engine import Engine
from images.host import process
from images.host.errors import WorldFault
from images.lock.lock import Lock
from images.oci import image as oci
from images.oci.image import Image
from images.oci.manifest import digest_of
from images.plan.plan import Plan
from images.platforms import TWIN, Platform
from images.store.store import Store, key_of

WITHOUT = "--no-bytecode, without --lock"
REMOVE_TREES = "remove the store's directory `trees` and build again; on a noexec disk, set XDG_CACHE_HOME"
FOREIGN, UNSIGNED = "this machine cannot start it", "what it is made of is not signed by Debian"
SECONDS = 5  # for an engine to answer
CREATED = "2024-01-01T00:00:00Z"
SEED = {"PYTHONHASHSEED": "0"}  # heeded by Python before 3.11, which is started without -I

# Run Python with arguments and a last one, the file to read (empty: standard input), into a file; None: it went well,
# else what it said.
Run = Callable[[Sequence[str], Path, Path], "str | None"]


@dataclass(frozen=True)
class Compiler:
    """A base's Python that is ready to compile.

    `identity` is what its bytecode depends on, beside the modules: everything that can run while it compiles.
    """

    site: Site
    identity: str
    run: Run


@dataclass(frozen=True)
class Choice:
    """Whose Python compiles: that of the base in an `engine`; without one Debian's, which needs no base to be there."""

    engine: Engine | None


def require_compiler(planned: Plan, context: Context) -> None:
    """Raise WorldFault where nothing can run the Python of a plan's base, before anything is downloaded."""
    if planned.bytecode and context.compiles:
        starts = (planned.platform, TWIN) if planned.base_reference is None else ()
        if context.native not in starts:
            _engine(planned.base, FOREIGN if starts else UNSIGNED, context)


def choose_compiler(lock: Lock, context: Context) -> Choice | None:
    """Choose how the modules of a lock are compiled; None where they are not.

    Raises WorldFault where nothing here can run the Python of its base.
    """
    if not (lock.bytecode and context.compiles):
        return None
    debs, platform = _packages(lock, context)
    if context.native != platform:
        return Choice(_engine(lock.base, FOREIGN, context))
    if lock.base_image or packages.list_unsigned(lock.debian.suite, debs, platform, context):
        return Choice(_engine(lock.base, UNSIGNED, context))
    return Choice(None)


def prepare_compiler(choice: Choice, lock: Lock, base: Base, context: Context) -> Compiler:
    """Return the Python that was chosen, ready to compile for a base."""
    if choice.engine is None:
        return unpack_debian(lock, context)
    return load_base(choice.engine, lock.platform, base, context.store)


def _engine(base: str, refusal: str, context: Context) -> Engine:
    """Return an engine, for a Python that may not run as it is."""
    search = engines.find_engine(context.environ, SECONDS)
    if search.engine is None:
        fact = "nothing here may run the Python of the base, which compiles"
        raise WorldFault(fact, f"{base} ({refusal}; {search.why})", f"{search.remedy}, or {WITHOUT}")
    return search.engine


def _packages(lock: Lock, context: Context) -> tuple[Sequence[Deb], Platform]:
    """Return the packages of Debian whose Python compiles here: those of the base, or its twin."""
    if lock.twin and context.native == TWIN:
        return lock.twin, TWIN
    return lock.debian.debs, lock.platform


def unpack_debian(lock: Lock, context: Context) -> Compiler:
    """Unpack Debian's Python, which runs through its own loader, without root and outside of its root file system."""
    store = context.store
    source = interpreter.choose_interpreter(store, *_packages(lock, context), lock.python)
    root = interpreter.unpack(store, source)

    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        command = [*interpreter.interpreter_command(root, source), *arguments, ""]
        with given.open("rb") as feed, out.open("wb") as written:
            failure = process.run(command, SEED, REMOVE_TREES, feed, out=written, cwd=root).failure
        if failure:
            interpreter.remove(store, root)
        return failure

    return Compiler(debian_site(lock.python), source.identity, run)


def load_base(engine: Engine, platform: Platform, base: Base, store: Store) -> Compiler:
    """Load the base into the engine, where it stays: its layers are those of the image.

    Any file of a base may be code that runs when its Python starts, so that what it writes is kept for this base alone.
    """
    settings = {"User": "65534:65534", "Env": [f"{name}={value}" for name, value in SEED.items()]}
    config = oci.write_config(base.layers, platform, settings, CREATED, base.history)
    digest = digest_of(config)
    image = Image((f"multinode-base:{digest.removeprefix('sha256:')}",), config, b"", base.layers)
    alone, load = threading.Lock(), functools.cache(partial(engine.load, image, store))

    def run(arguments: Sequence[str], given: Path, out: Path) -> str | None:
        with alone:
            load()
        return engine.run(image, [f"/{base.interpreter}", *arguments], given, out)

    return Compiler(base.site, key_of([digest, base.interpreter]), run)
