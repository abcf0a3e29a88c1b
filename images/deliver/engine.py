"""The engines that an image is loaded into: what each of them does, by a command line or a client; which is taken."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from images.deliver import docker
from images.host import process
from images.host.errors import Fault, WorldFault
from images.oci.image import Image, write_archive
from images.store.store import Store

# Exit codes of a program itself, of the container's command not among them (podman-run(1), Exit Status).
NOT_STARTED = (125, 126, 127)


@dataclass(frozen=True)
class Program:
    """What programs have in other words: each is called with these and what comes last, such as the name of an image.

    `ask` ends well where the program works. `exists` ends with `absent` where an image is not there; any other code but
    0 is a failure. `remove` ends well where there is no such container.
    """

    name: str
    install: str
    ask: tuple[str, ...]
    remove: tuple[str, ...]
    exists: tuple[str, ...]
    absent: int
    save: tuple[str, ...]


PODMAN = Program(
    "podman",
    "apt-get install podman",
    ask=("info", "--format", "{{.Host.Arch}}"),
    remove=("rm", "--force", "--ignore"),
    exists=("image", "exists"),
    absent=1,  # podman-image-exists(1)
    save=("save", "--quiet", "--format", "docker-archive", "--output"),
)


def connect_program(program: Program, environ: Mapping[str, str], seconds: int) -> CommandLine | None:
    """Return an engine, None where its program is not installed.

    Raises WorldFault where it does not work: one that is installed may lack a range of user ids, or wait for the lock
    of its storage for longer than so many seconds.
    """
    name = program.name
    if shutil.which(name, path=environ.get("PATH")) is None:
        return None
    done = process.answer([name, *program.ask], environ, program.install, seconds)
    if done is None or done.code:
        reason = done.failure if done else f"no answer in {seconds} seconds"
        raise WorldFault(f"{name} does not work", reason, f"make `{name} {program.ask[0]}` work")
    return CommandLine(program, environ)


class CommandLine:
    """An engine whose program works, in this environment."""

    def __init__(self, program: Program, environ: Mapping[str, str]) -> None:
        self.name, self._program, self._environ = program.name, program, environ

    def load(self, image: Image, store: Store) -> None:
        """Load an image, as Engine has it."""
        with store.temporary() as path:
            write_archive(path, image, store)
            done = self._call("load", "--quiet", "--input", str(path))
        if done.code:
            remedy = f"do what it says, or look at `{self.name} info`; --output FILE keeps the image as a file"
            raise WorldFault(f"{self.name} could not load the image", done.failure, remedy)

    def run(
        self, image: Image, command: Sequence[str], given: Path | None = None, out: Path | None = None
    ) -> str | None:
        """Run a command in a container of a loaded image, as Engine has it."""
        name = f"multinode-{secrets.token_hex(6)}"
        # An interrupt ends the program alone: Python, as the first process of a container, ignores what is passed.
        options = ["--rm", "--name", name, "--sig-proxy=false", "--stop-timeout", "0", "--network", "none"]
        options += ["--cap-drop", "all", "--security-opt", "no-new-privileges", "--interactive"]
        try:
            with (given or Path(os.devnull)).open("rb") as feed, (out or Path(os.devnull)).open("wb") as written:
                words = ["--entrypoint", command[0], image.tag, *command[1:], *([""] if given else [])]
                done = self._call("run", *options, *words, feed=feed, out=written)
        except BaseException:
            self._call(*self._program.remove, name)
            raise
        if done.code in NOT_STARTED:
            remedy = f"make `{self.name} run --rm {image.tag} true` work"
            raise WorldFault(f"{self.name} could not start the image", done.failure, remedy)
        return done.failure

    def save(self, name: str, path: Path) -> bool:
        """Save an image as an archive at `path`; return False where the engine does not have it."""
        done = self._call(*self._program.exists, name)
        if done.code == self._program.absent:
            return False
        if not done.code:
            done = self._call(*self._program.save, str(path), name)
        if done.code:
            value = f"{name} ({done.failure})"
            raise WorldFault(f"{self.name} could not save the image", value, f"{self.name} save it by hand")
        return True

    def _call(self, *arguments: str, feed: IO[bytes] | None = None, out: IO[bytes] | None = None) -> process.Result:
        return process.run([self.name, *arguments], self._environ, self._program.install, feed, out=out)


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
    EngineRow("podman", partial(connect_program, PODMAN)),
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
