"""skopeo, the program that talks to registries: how it is called, logged in, and waited for."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from images.deliver import docker_config
from images.deliver.refusals import PULL, PUSH, Refusals, refusal, refused
from images.host import process
from images.host.certificates import trusted
from images.host.context import Access
from images.host.errors import Fault, WorldFault
from images.host.store import Store
from images.oci.reference import Place

OLDEST = (1, 9)  # older ones were not tried
INSTALL = "apt-get install skopeo (1.9 or newer)"
PAUSES = (1.0, 3.0)  # seconds before the second and the third attempt
PATIENCE = "120s"  # for a manifest or a configuration, with the time in which skopeo asks a busy registry again

NOTHING = "nothing came or went for {:.0f} s"


@dataclass(frozen=True)
class Patience:
    """Seconds in which no byte comes or goes: when that is said, and when a pull or a push is given up.

    skopeo waits up to 60 before it asks a busy registry again. A registry copies a large layer once it has all of it.
    """

    said: float = 20
    pull: float = 120
    push: float = 300


class Server:
    """skopeo, talking to one registry: with its login in a private file, in a directory of its own."""

    def __init__(
        self, place: Place, store: Store, access: Access, aside: Path, patience: Patience = Patience()
    ) -> None:
        self.place, self._store, self._access, self._aside, self._patience = place, store, access, aside, patience
        self._trouble: Fault | None = None

    def inspect(self, tag_or_digest: str, *options: str, refusals: Refusals = PULL) -> bytes:
        """Return a manifest by its tag or digest, or with `--config` the configuration, as the registry has it."""
        tls = ["--tls-verify=false"] if self.place.plain else []
        reference = self.place.called(tag_or_digest)
        return self._run(["inspect", "--raw", *options, *tls, f"docker://{reference}"], reference, refusals)

    def pull(self, digest: str, tick: Callable[[], None]) -> None:
        """Copy the layers of a manifest to shared/sha256/; those that are there already are not fetched."""
        tls = ["--src-tls-verify=false"] if self.place.plain else []
        # The first option keeps layers that are not compressed as they are. The manifest that skopeo writes may be
        # another one (OCI's for one of Docker's) and is not read: only the layers matter.
        options = ["--dest-oci-accept-uncompressed-layers", "--remove-signatures", "--dest-shared-blob-dir", "shared"]
        reference = self.place.called(digest)
        self._run(["copy", *tls, *options, f"docker://{reference}", "oci:layout:pulled"], reference, PULL, tick)

    def push(self, tag: str) -> None:
        """Copy the one image in layout/ to a tag, as it is."""
        tls = ["--dest-tls-verify=false"] if self.place.plain else []
        reference = self.place.called(tag)
        self._run(["copy", "--preserve-digests", *tls, "oci:layout", f"docker://{reference}"], reference, PUSH)

    def _run(
        self, arguments: Sequence[str], shown: str, refusals: Refusals, tick: Callable[[], None] | None = None
    ) -> bytes:
        """Run skopeo, up to three times where that may help; what it has copied is not copied again."""
        command, *rest = arguments
        environ = self._environ
        limit = ["--command-timeout", PATIENCE] if command == "inspect" else []  # how long a copy takes, nobody knows
        line = ["skopeo", *limit, "--insecure-policy", command, *self._login, *rest]
        for pause in (*PAUSES, None):
            answer = self._aside / "answer"
            with answer.open("wb") as file:
                done = process.run(
                    line, environ, INSTALL, out=file, cwd=self._aside, tick=tick, idle=self._waiting(shown, refusals)
                )
            if done.code == 0:
                return answer.read_bytes()
            fault, again = refusal(done.err, shown, self.place.host, refusals, self._store.root)
            if self._trouble and fault.kind in ("login", "denied"):
                raise self._trouble  # the login that could not be read may be the one that is missing
            if pause is None or not again:
                raise fault
            self._access.wait(pause)
        raise AssertionError("the last attempt returns or raises")

    def _waiting(self, shown: str, refusals: Refusals) -> Callable[[float], None]:
        """Return what says once that a registry is silent, and raises a fault when it stays so."""
        said = list[str]()
        limit = self._patience.pull if refusals is PULL else self._patience.push

        def wait(seconds: float) -> None:
            if seconds >= limit:
                raise refused("silent", refusals, f"{shown} ({NOTHING.format(seconds)})", self.place.host)
            if seconds >= self._patience.said and not said:
                said.append(f"note: waiting for {self.place.host}: {NOTHING.format(seconds)}; at most {limit:.0f} s")
                self._access.say(said[0])

        return wait

    @cached_property
    def _environ(self) -> Mapping[str, str]:
        """Check that skopeo is there, and hand on the certificates that requests and pip trust."""
        environ = self._access.environ
        require(environ, f"{self.place.host}/{self.place.name}")
        # There is no configuration of Docker's there: skopeo reads that too, but for some forms that Docker has.
        return {**environ, **trusted(environ, self._access.certificate), "DOCKER_CONFIG": str(self._aside)}

    @cached_property
    def _login(self) -> Sequence[str]:
        """Write Docker's login, if there is one, for skopeo alone, and return the option that names its file.

        Nothing of it is ever on a command line. Without one, and where REGISTRY_AUTH_FILE is set, skopeo takes podman's
        logins from all of their places (containers-auth.json(5)).
        """
        entry = None
        if not self._access.environ.get("REGISTRY_AUTH_FILE"):
            try:
                entry = docker_config.login(self.place.host, self._access.environ)
            except Fault as fault:
                self._trouble = fault
        if entry is None:
            return ()
        name = f"auth-{re.sub('[^a-z0-9]', '-', self.place.host.lower())}.json"
        handle = os.open(self._aside / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump({"auths": {self.place.host: entry}}, file)
        return ("--authfile", name)


def require(environ: Mapping[str, str], shown: str) -> None:
    """Raise WorldFault where skopeo is missing or too old; `shown` is what it is needed for."""
    if shutil.which("skopeo", path=environ.get("PATH")) is None:
        raise WorldFault("registries are reached through skopeo, which is not installed", shown, INSTALL)
    text = process.run(["skopeo", "--version"], environ, INSTALL).out
    found = re.search(r"([0-9]+)\.([0-9]+)[0-9.]*", text)
    if not found or (int(found[1]), int(found[2])) < OLDEST:
        raise WorldFault("skopeo is too old", text.strip() or "no version", INSTALL)
