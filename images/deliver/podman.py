"""podman, by its command: load an image, run a command in it, save one of its images."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from images.host import process
from images.host.errors import WorldFault
from images.host.store import Store
from images.model import Image
from images.oci.archive import write_archive

INSTALL = "apt-get install podman"
# Exit codes of podman itself, of the container's command not among them (podman-run(1), Exit Status).
NOT_STARTED = (125, 126, 127)
ABSENT = 1  # of podman-image-exists(1): the image is not there; any other but 0 is a failure
LONGEST = 300  # characters of what is shown of a message
# A user without root has the user ids that podman found in these files when it was first asked, until this command
# (podman-system-migrate(1)).
MAPPING = re.compile(r"/etc/sub[ug]id|system[ -]migrate")
MIGRATE = "look for your name in /etc/subuid and /etc/subgid, run `podman system migrate`, then the same command again"


def refusal(environ: Mapping[str, str], seconds: float) -> str | None:
    """Return why podman does not work here, None where it does: one that is installed may lack a range of user ids.

    It may also wait for the lock of its storage; it has so many seconds to answer.
    """
    done = process.answer(["podman", "info", "--format", "{{.Host.Arch}}"], environ, INSTALL, seconds)
    if done is None:
        return f"podman does not answer ({seconds} seconds)"
    return f"podman does not work: {_complaint(done)}" if done.code else None


def load(environ: Mapping[str, str], image: Image, store: Store) -> None:
    """Load an image.

    Raises WorldFault when podman refuses it.
    """
    with store.aside() as path:
        write_archive(path, image, store)
        done = process.run(["podman", "load", "--quiet", "--input", str(path)], environ, INSTALL)
    if done.code:
        first = MIGRATE if MAPPING.search(done.err) else "run `podman info`"
        remedy = f"{first}; --output FILE keeps the image as a file"
        raise WorldFault("podman could not load the image", _complaint(done), remedy)


def _complaint(done: process.Result) -> str:
    """Return what podman said last, beginning with a whole word: the cause is at the end, after lines of advice."""
    text = " ".join(done.err.split()) or f"exit code {done.code}"
    return text if len(text) <= LONGEST else "... " + text[-LONGEST:].partition(" ")[2]


def run(environ: Mapping[str, str], image: Image, command: Sequence[str]) -> str | None:
    """Run a command in a container of a loaded image, without network.

    Returns None when it ends well, else the last line that it wrote on stderr.
    Raises WorldFault when the container cannot be started.
    """
    name = f"multinode-{secrets.token_hex(6)}"
    # An interrupt ends podman alone, at once: Python, as the first process of a container, ignores what is passed on.
    start = ["podman", "run", "--rm", "--name", name, "--sig-proxy=false", "--stop-timeout", "0", "--network", "none"]
    start += ["--entrypoint", command[0], image.tag]
    try:
        done = process.run([*start, *command[1:]], environ, INSTALL)
    except BaseException:
        process.run(["podman", "rm", "--force", "--ignore", name], environ, INSTALL)
        raise
    if done.code in NOT_STARTED:
        remedy = f"make `podman run --rm {image.tag} true` work; scripts/lib.sh knows what podman lacks in a container"
        raise WorldFault("podman could not start the image", (done.failure or "")[:300], remedy)
    return done.failure


def save(environ: Mapping[str, str], name: str, path: Path) -> bool:
    """Save an image as an archive at `path`; return False where podman does not have it.

    Raises WorldFault when that cannot be known, or podman has it and cannot save it.
    """
    found = process.run(["podman", "image", "exists", name], environ, INSTALL)
    if found.code == ABSENT:
        return False
    command = ["podman", "save", "--quiet", "--format", "docker-archive", "--output", str(path), name]
    done = found if found.code else process.run(command, environ, INSTALL)
    if done.code:
        raise WorldFault("podman could not save the image", f"{name} ({_complaint(done)})", "podman save it by hand")
    return True
