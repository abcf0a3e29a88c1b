"""What every step of a command works with: what was typed of how it works, and this machine, as values."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from images.content import EVERY, option
from images.oci.manifest import PUBLISHED

if TYPE_CHECKING:  # --help does without
    from images.host.background import Progress
    from images.pip_config import Sources
    from images.platforms import Platform
    from images.store.store import Store

JOBS = min(2, os.cpu_count() or 1)  # each layer takes two threads to compress, and memory of its own


@dataclass(frozen=True)
class World:
    """What the program is given from outside: environment variables, the day, and a clock in seconds."""

    environ: Mapping[str, str]
    today: datetime.date
    clock: Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a command works: each field is an option of build.py, and in no lock, for no image depends on it.

    By `compression` finished layers are packed anew on their way out: another digest in a registry, and the same id.
    """

    wheelhouse: str | None = option(
        None, "directory of wheels; preferred over an index that has the same version", "DIR",
        commands=f"{EVERY} verify",
    )  # fmt: skip
    compression: str = option(
        PUBLISHED[0], "compression of layers in an OCI layout or a push; Docker before 23.0 needs gzip",
        commands="build", choices=PUBLISHED,
    )  # fmt: skip
    jobs: int = option(JOBS, "layers written at once", "N", commands="build bundle verify")


@dataclass(frozen=True, kw_only=True)
class Access:
    """How registries are reached.

    `certificate` is the file of trusted certificates (None: the usual ones); `say` tells the user what is waited for,
    `wait` sleeps for some seconds before the next attempt.
    """

    environ: Mapping[str, str]
    certificate: str | None = None
    say: Callable[[str], None] = lambda _: None
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True, kw_only=True)
class Context:
    """The store and the world around it; `pip` is where packages come from, None where nothing may be downloaded.

    For a lock, `base` is the layout or archive that its base lies in, and `examples` is where its examples come from.
    Where `compiles` is false, layers are made without bytecode, whatever the lock says: nothing of a base is run.
    `native` is the platform whose programs this machine can start, None on a system of another kind.
    """

    store: Store
    environ: Mapping[str, str]
    today: datetime.date
    progress: Progress
    pip: Sources | None
    access: Access
    settings: Settings = Settings()
    base: str | None = None
    examples: str | None = None
    compiles: bool = False
    native: Platform | None = None

    @property
    def sources(self) -> Sources:
        """Return how servers of packages are reached; where nothing may be downloaded, without any setting of pip's."""
        from images.pip_config import Sources

        return self.pip or Sources()
