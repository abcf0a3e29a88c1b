"""What every step of a build works with: settings of this machine and of the command, as values."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # --help does without
    from images.host.pip_config import Sources
    from images.host.progress import Progress
    from images.host.store import Store
    from images.platforms import Platform


@dataclass(frozen=True)
class World:
    """What the program is given from outside: environment variables, the day, and a clock in seconds."""

    environ: Mapping[str, str]
    today: datetime.date
    clock: Callable[[], float]


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

    `wheelhouse` is the user's directory of wheels. For a lock, `base` is the layout or archive that its base lies in,
    and `examples` is where its examples come from.
    Where `compiles` is false, layers are made without bytecode, whatever the lock says: nothing of a base is run.
    `native` is the platform whose programs this machine can start, None on a system of another kind.
    """

    store: Store
    environ: Mapping[str, str]
    today: datetime.date
    progress: Progress
    jobs: int
    pip: Sources | None
    access: Access
    wheelhouse: str | None = None
    base: str | None = None
    examples: str | None = None
    compiles: bool = False
    native: Platform | None = None

    @property
    def sources(self) -> Sources:
        """Return how servers of packages are reached; where nothing may be downloaded, without any setting of pip's."""
        from images.host.pip_config import Sources

        return self.pip or Sources()
