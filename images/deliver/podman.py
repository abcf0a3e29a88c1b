"""podman, by its command: load an image, run a command in it, save one of its images."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from images.host import process
from images.host.errors import WorldFault
from images.host.store import Store
from images.model import Image
from images.oci.archive import write_archive

INSTALL = "apt-get install podman"
# Exit codes of podman itself, of the container's command not among them (podman-run(1), Exit Status).
NOT_STARTED = (125, 126, 127)
ABSENT = 1  # of podman-image-exists(1): the image is not there; any other but 0 is a failure


def connect(environ: Mapping[str, str], seconds: int) -> Podman | None:
    """Return podman, None where it is not installed.

    Raises WorldFault where it does not work: one that is installed may lack a range of user ids, or wait for the lock
    of its storage for longer than so many seconds.
    """
    if shutil.which("podman", path=environ.get("PATH")) is None:
        return None
    done = process.answer(["podman", "info", "--format", "{{.Host.Arch}}"], environ, INSTALL, seconds)
    if done is None or done.code:
        said = done.failure if done else f"no answer in {seconds} seconds"
        raise WorldFault("podman does not work", said, "make `podman info` work")
    return Podman(environ)


class Podman:
    """A podman that works, in this environment."""

    name = "podman"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def load(self, image: Image, store: Store) -> None:
        """Load an image, as Engine has it."""
        with store.temporary() as path:
            write_archive(path, image, store)
            done = self._podman("load", "--quiet", "--input", str(path))
        if done.code:
            remedy = "do what it says, or look at `podman info`; --output FILE keeps the image as a file"
            raise WorldFault("podman could not load the image", done.failure, remedy)

    def run(
        self, image: Image, command: Sequence[str], given: Path | None = None, out: Path | None = None
    ) -> str | None:
        """Run a command in a container of a loaded image, as Engine has it."""
        name = f"multinode-{secrets.token_hex(6)}"
        # An interrupt ends podman alone, at once: Python, as the first process of a container, ignores what is passed.
        options = ["--rm", "--name", name, "--sig-proxy=false", "--stop-timeout", "0", "--network", "none"]
        options += ["--cap-drop", "all", "--security-opt", "no-new-privileges", "--interactive"]
        try:
            with (given or Path(os.devnull)).open("rb") as feed, (out or Path(os.devnull)).open("wb") as written:
                words = ["--entrypoint", command[0], image.tag, *command[1:], *([""] if given else [])]
                done = self._podman("run", *options, *words, feed=feed, out=written)
        except BaseException:
            self._podman("rm", "--force", "--ignore", name)
            raise
        if done.code in NOT_STARTED:
            remedy = f"make `podman run --rm {image.tag} true` work"
            raise WorldFault("podman could not start the image", done.failure, remedy)
        return done.failure

    def save(self, name: str, path: Path) -> bool:
        """Save an image as an archive at `path`; return False where podman does not have it."""
        done = self._podman("image", "exists", name)
        if done.code == ABSENT:
            return False
        if not done.code:
            done = self._podman("save", "--quiet", "--format", "docker-archive", "--output", str(path), name)
        if done.code:
            value = f"{name} ({done.failure})"
            raise WorldFault("podman could not save the image", value, "podman save it by hand")
        return True

    def _podman(self, *arguments: str, feed: IO[bytes] | None = None, out: IO[bytes] | None = None) -> process.Result:
        return process.run(["podman", *arguments], self._environ, INSTALL, feed, out=out)
