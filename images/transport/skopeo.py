"""skopeo, the program that talks to registries: how it is called, logged in, and what its errors mean to the user."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from images.host import process
from images.host.context import TRUST, Access, trusted
from images.host.disk.faults import disk_fault
from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store
from images.oci.manifest import ON_THE_WAY
from images.oci.reference import Place
from images.transport import docker_config

OLDEST = (1, 9)  # older ones were not tried
INSTALL = "apt-get install skopeo (1.9 or newer)"
PAUSES = (1.0, 3.0)  # seconds before the second and the third attempt
PATIENCE = "120s"  # for a manifest or a configuration, with the time in which skopeo asks a busy registry again

NOTHING = "nothing came or went for {:.0f} s"

LOGIN = "docker login {host} as a user who may pull it; check the spelling too: what does not exist looks the same"
MAY_PUSH = "docker login {host} as a user who may push there; check the spelling too"
LATER = "run it again later, or --registry-mirror HOST; what has come is kept"
CHECK = "check the network and proxy settings (HTTPS_PROXY), or --registry-mirror HOST"
STALLED = "check the network and proxy settings (HTTPS_PROXY), then run it again: what is there is not sent again"
OTHER = "another registry, or ask whoever runs {host}"
RAISE = "raise its limit, such as client_max_body_size of nginx; what is there is not sent again"
CLIENT = "its certificate and key for you as client.cert and client.key in ~/.config/containers/certs.d/{host}/"
PROXY = "HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT, with %40 for each @ in them, %3A for :, %2F for / and %25 for %"
PLAIN = "a registry with TLS, or name it with `insecure = true` in /etc/containers/registries.conf"

# What skopeo says (a regular expression, the first that is found counts) -> kind of refusal, and whether to try again.
_STATUS = r"status(?: ?code)?(?: from registry)?:? "
SAID: tuple[tuple[str, str, bool], ...] = (
    (r"invalid reference format", "name", False),
    (r"no space left on device|disk quota exceeded", "full", False),
    (r"server gave HTTP response to HTTPS client", "plain", False),
    (r"remote error: tls: .*certificate", "client", False),  # what the other end says of ours
    (r"x509: |tls: .*certificate", "certificate", False),
    (r"context deadline exceeded", "silent", False),
    (r"unsupported protocol scheme", "unsafe", False),
    (r'"Authorization"|invalid character|unmarshal', "garbled", False),
    (r"toomanyrequests|too many requests|" + _STATUS + "429", "busy", False),  # skopeo has waited and asked again
    (r"proxy authentication required|" + _STATUS + "407", "proxy", False),
    (r"unauthorized|authentication required|invalid username/password|" + _STATUS + "401", "login", False),
    (r"denied|: 403 \(|" + _STATUS + "403", "denied", False),
    (_STATUS + r"405|: 405 \(|method not allowed|operation is unsupported", "closed", False),
    (_STATUS + r"413|: 413 \(|entity too large", "large", False),
    (_STATUS + r"507|: 507 \(|insufficient storage", "crammed", False),
    (r"(manifest|name|blob) unknown|not found|" + _STATUS + "404", "absent", False),
    (_STATUS + "5[0-9][0-9]|internal server error|unavailable", "failed", True),
    (r"(did|does) not match|mismatch", "damaged", True),
    (r"exceeded maximum allowed size", "long", False),
)  # fmt: skip

Refusals = Mapping[str, tuple[type[Fault], str, str]]  # kind -> fault, fact, what to try; {host} is filled in

PULL: Refusals = {
    "name": (UserFault, "skopeo does not take such a name", "a host in small letters, and no IPv6 address"),
    "login": (UserFault, "the registry wants a login", LOGIN),
    "denied": (UserFault, "the registry does not let you have that", LOGIN),
    "client": (UserFault, "the registry wants a client certificate", CLIENT),
    "proxy": (UserFault, "the proxy wants a login, or another one", PROXY),
    "absent": (UserFault, "the registry has no such image", "check name and tag; the registry's page lists them"),
    "busy": (
        WorldFault, "the registry has had too many requests", "wait, docker login {host}, or --registry-mirror HOST",
    ),
    "failed": (WorldFault, "the registry failed", LATER),
    "silent": (WorldFault, "the registry does not answer", CHECK),
    "garbled": (WorldFault, "the registry answered without a token or a manifest", "check proxy and mirror"),
    "unsafe": (WorldFault, "the registry wants a login at an unsafe address", "a registry or mirror with login by TLS"),
    "certificate": (WorldFault, "the registry's certificate is not trusted", TRUST),
    "plain": (WorldFault, "the registry speaks plain HTTP, which is for this machine only", PLAIN),
    "damaged": (WorldFault, "a download has another sha256 than expected", ON_THE_WAY),
    "long": (WorldFault, "an answer of the registry is too long", "check the address, proxy and mirror"),
    "closed": (WorldFault, "the registry does not do that", "check the address, proxy and mirror"),
    "large": (WorldFault, "the registry refuses so large a request", "check the address, proxy and mirror"),
    "crammed": (WorldFault, "the registry has no room", "ask whoever runs {host}, or --registry-mirror HOST"),
    "otherwise": (WorldFault, "cannot download", CHECK),
}  # fmt: skip
PUSH: Refusals = {
    **PULL,
    "login": (UserFault, "the registry wants a login", MAY_PUSH),
    "denied": (UserFault, "the registry does not let you push there", MAY_PUSH),
    "absent": (UserFault, "the registry has no such place", "check the name; some registries want it created before"),
    "busy": (WorldFault, "the registry has had too many requests", "wait, then run it again: what is there is kept"),
    "failed": (WorldFault, "the registry failed", "run it again later; what is there is not sent again"),
    "silent": (WorldFault, "the registry does not answer", STALLED),
    "damaged": (WorldFault, "the registry received something else than was sent", "run it again"),
    "closed": (WorldFault, "the registry takes nothing: it is read-only", OTHER),
    "large": (WorldFault, "the registry, or a proxy before it, does not take so large a layer", RAISE),
    "crammed": (WorldFault, "the registry has no room", OTHER),
    "otherwise": (WorldFault, "cannot push", "check the address, the network and proxy settings (HTTPS_PROXY)"),
}
LACKS = "the registry does not have what was pushed"
WHO = "check the address and proxy settings: a login page, or another server, may answer there in place of a registry"
PUSHED: Refusals = {**PUSH, "absent": (WorldFault, LACKS, WHO), "garbled": (WorldFault, LACKS, WHO)}


def refusal(err: str, shown: str, host: str, refusals: Refusals, root: Path) -> tuple[Fault, bool]:
    """Return what skopeo's standard error means for `shown`, and whether another attempt may help.

    `root` is that of the store, which a full disk is a matter of.
    """
    text = message(err)
    # The words are those of the error, not of names and addresses in it.
    words = re.sub(r"\b(https?|docker)://[^\s\"]*", "", text.replace(shown, "").replace(host, ""))
    kind, again = next((row[1:] for row in SAID if re.search(row[0], words, re.IGNORECASE)), ("otherwise", True))
    if kind == "full":
        return disk_fault(root, OSError(errno.ENOSPC, text)), False
    return refused(kind, refusals, f"{shown} ({text})", host), again


def refused(kind: str, refusals: Refusals, value: str, host: str) -> Fault:
    """Return the fault that stands for a kind of refusal, and says which."""
    fault, fact, remedy = refusals[kind]
    return fault(fact, value, remedy.format(host=host), kind)


def message(err: str) -> str:
    """Return the last error in skopeo's log (logrus: key=value), without its preamble and without signed queries."""
    lines = err.strip().splitlines() or ["no message"]
    found = re.search(r'\bmsg="((?:[^"\\]|\\.)*)"', lines[-1])
    text = re.sub(r"\\(.)", lambda pair: " " if pair[1] in "nt" else pair[1], found[1]) if found else lines[-1]
    text = re.sub(
        r'^(Error parsing image name "[^"]*": |initializing source \S+: |reading manifest \S+ in \S+: )+', "", text
    )
    return re.sub(r"\?[^\s\"]*", "", text)[:300].strip(" ,:") or "no message"


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
        line = ["skopeo", *limit, "--insecure-policy", command, "--authfile", self._authfile, *rest]
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
        # There is no configuration of Docker's there: skopeo would read that too, in its own way.
        return {**environ, **trusted(environ, self._access.certificate), "DOCKER_CONFIG": str(self._aside)}

    @cached_property
    def _authfile(self) -> str:
        """Write the login, if there is one, for skopeo alone; nothing of it is ever on a command line."""
        try:
            entry = docker_config.login(self.place.host, self._access.environ)
        except Fault as fault:
            entry, self._trouble = None, fault
        name = f"auth-{re.sub('[^a-z0-9]', '-', self.place.host.lower())}.json"
        handle = os.open(self._aside / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump({"auths": {self.place.host: entry} if entry else {}}, file)
        return name


def require(environ: Mapping[str, str], shown: str) -> None:
    """Raise WorldFault where skopeo is missing or too old; `shown` is what it is needed for."""
    if shutil.which("skopeo", path=environ.get("PATH")) is None:
        raise WorldFault("registries are reached through skopeo, which is not installed", shown, INSTALL)
    text = process.run(["skopeo", "--version"], environ, INSTALL).out
    found = re.search(r"([0-9]+)\.([0-9]+)[0-9.]*", text)
    if not found or (int(found[1]), int(found[2])) < OLDEST:
        raise WorldFault("skopeo is too old", text.strip() or "no version", INSTALL)
