"""The engines that an image is loaded into: what each of them does, and which one is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from images.deliver import command_line, docker
from images.host.errors import Fault
from images.oci.image import Image
from images.store.store import Store

KEEP = "--output FILE"


class Engine(Protocol):
    """An engine on this machine that has answered; `name` is what it is called."""

    name: str

    def load(self, image: Image, store: Store) -> None:
        """Load an image with all its names.

        Raises WorldFault where the engine refuses it.
        """

    def run(
        self, image: Image, command: Sequence[str], given: Path | None = None, out: Path | None = None
    ) -> str | None:
        """Run a command in a container of a loaded image, without network or capabilities.

        The command reads the file `given`: one more argument is the path of that in the container, or empty where it is
        the standard input. The standard output goes to `out`.
        Returns None when it ends well, else the last line that it wrote on stderr.
        Raises WorldFault when the container cannot be started.
        """

    def save(self, name: str, path: Path) -> bool:
        """Save an image as an archive at `path`; return False where the engine does not have it.

        Raises WorldFault when the engine has it and cannot save it.
        """


class EngineRow(NamedTuple):
    """An engine that there may be: what it is called, and what returns it.

    That has so many seconds to answer. It returns None where there is none, and raises a Fault where there is one that
    this user cannot use, or that was named and is not there.
    """

    name: str
    connect: Callable[[Mapping[str, str], int], Engine | None]


# The first that answers is taken.
ENGINES = (
    EngineRow("Docker", docker.connect_docker),
    EngineRow("podman", partial(command_line.connect_program, command_line.PODMAN)),
)


class Search(NamedTuple):
    """The engine that answers, or None; `faults` are those of the engines that were tried before."""

    engine: Engine | None
    faults: Sequence[Fault] = ()

    @property
    def why(self) -> str:
        """Return why no engine was taken, or not the first."""
        return "; ".join(f"{fault.fact}: {fault.value}" for fault in self.faults) or ", ".join(
            f"no {row.name}" for row in ENGINES
        )

    @property
    def remedy(self) -> str:
        """Return what to do where no engine was found."""
        first, *others = (row.name for row in ENGINES)
        return self.faults[0].remedy if self.faults else f"start {first} (or install {' or '.join(others)})"


def find_engine(environ: Mapping[str, str], seconds: int = 10) -> Search:
    """Return the first engine that answers within so many seconds, and why others before it were not taken."""
    faults = list[Fault]()
    for answer in connect_all(environ, seconds):
        if not isinstance(answer, Fault):
            return Search(answer, faults)
        faults.append(answer)
    return Search(None, faults)


def connect_all(environ: Mapping[str, str], seconds: int = 10) -> Iterator[Engine | Fault]:
    """Yield the engines that answer within so many seconds, in their order, and why others do not."""
    for row in ENGINES:
        try:
            if engine := row.connect(environ, seconds):
                yield engine
        except Fault as fault:
            yield fault


def choose_engine(
    wanted: bool | None, environ: Mapping[str, str], say: Callable[[str], None], *, elsewhere: bool = False
) -> Engine | None:
    """Return the engine to load into; wanted: True requires one, False takes none, None takes one if it answers.

    Warns that the image will be kept nowhere, unless it goes `elsewhere` too.
    Raises Fault when an engine is required and none answers.
    """
    if wanted is False:
        return None
    search = find_engine(environ)
    if engine := search.engine:
        if search.faults:
            say(f"note: the image goes into {engine.name}: {search.why}")
    elif wanted:
        raise Fault("no engine to load the image into", search.why, f"{search.remedy}, or --no-load {KEEP}")
    elif not elsewhere:
        say(f"note: no engine answers, the image is kept nowhere: {search.why}; {search.remedy}, or {KEEP}")
    elif search.faults:
        say(f"note: no engine answers, the image is not loaded: {search.why}")
    return engine
