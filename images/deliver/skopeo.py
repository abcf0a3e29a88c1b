"""skopeo, the program that talks to registries: how it is called, logged in, and waited for; what its errors mean."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from images.context import Access
from images.deliver import logins
from images.host import limits, process
from images.host.errors import ROOM, Fault, UserFault, WorldFault
from images.oci.reference import Remote
from images.pip_config import TRUST, trusted

NETWORK = "check the address, the network and proxy settings (HTTPS_PROXY), or name a mirror (registries.conf)"
LATER = "run it again later; what is there is kept"
PLAIN = "a registry with TLS, or name it with `insecure = true` in /etc/containers/registries.conf"
SHOWN, READ = 300, 600  # characters of a message: an error has names in it, and a page of a proxy has any words


class Refusal(NamedTuple):
    """A kind of refusal: what skopeo says of it (a regular expression), or Python, its fault, fact, and what to try.

    {host} is filled in.
    """

    kind: str
    said: str
    fault: type[Fault]
    fact: str
    remedy: str


_STATUS = r"status(?: ?code)?(?: from registry)?:? "
AGAIN = f"{NETWORK}, then {LATER}"
OTHERWISE = Refusal("otherwise", "", WorldFault, "a transfer from or to a registry failed", AGAIN)
SILENT = Refusal("silent", "context deadline exceeded", WorldFault, "the registry does not answer", AGAIN)
# The first that is found counts. Another attempt helps against none of them.
REFUSALS = (
    Refusal(
        "plain", r"server gave HTTP response to HTTPS client|\[SSL: WRONG_VERSION_NUMBER\]", WorldFault,
        "the registry speaks plain HTTP, which is for this machine only", PLAIN,
    ),
    Refusal(  # of skopeo and of Python; not what the other end says of ours
        "certificate", r"x509: |\[SSL: CERTIFICATE_VERIFY_FAILED\]|(?<!remote error: )tls: .*certificate", WorldFault,
        "the registry's certificate is not trusted", TRUST,
    ),
    SILENT,
    Refusal(  # skopeo has waited and asked again
        "busy", rf"toomanyrequests|too many requests|{_STATUS}429", WorldFault,
        "the registry has had too many requests", f"docker login {{host}}, or {LATER}",
    ),
    Refusal("full", "no space left on device|disk quota exceeded", WorldFault, "the disk is full", ROOM),
    # Some registries call these two "denied". Their words are longer than one, since a repository is called anything.
    Refusal(
        "crammed", r"configured upper limit|quota (has been )?exceeded", WorldFault,
        "the registry has no room", "ask whoever runs {host}",
    ),
    Refusal(
        "immutable", r"cannot be overwritten|\b(is|as) immutable|tag immutability", UserFault,
        "the registry does not let a tag be replaced", "another tag",
    ),
    Refusal(
        "denied",
        r"unauthorized|(?<!proxy )authentication required|invalid username/password|denied|: 403 \("
        rf"|{_STATUS}40[13]",
        UserFault, "the registry wants a login, or another one",
        "docker login {host} (or podman login) as a user who may pull or push that; check the spelling too",
    ),
    Refusal(
        "absent", rf"(manifest|name|blob) unknown|not found|{_STATUS}404", UserFault, "the registry has no such image",
        "check host, name and tag; some registries want a repository created before a push",
    ),
    Refusal(
        "form", r"manifest[ _]invalid|unsupported media ?type", WorldFault,
        "the registry refuses the manifest, as some do for layers in zstd", "--compression gzip",
    ),
    Refusal(  # but for a proxy's wish for a login, and what was too slow
        "refused", rf"{_STATUS}4(?!0[78]|29)\d\d", WorldFault,
        "the registry does not take that", "what it says; or ask whoever runs {host}",
    ),
)  # fmt: skip


def explain_refusal(err: str, shown: str, host: str) -> Fault:
    """Return what skopeo's standard error means for `shown`; only of the kind `otherwise` another attempt may help."""
    text = last_message(err)
    # The words are those of the error, not of names and addresses in it.
    words = re.sub(r"\b(https?|docker)://[^\s\"]*", "", text.replace(shown, "").replace(host, ""))
    refusal = next((row for row in REFUSALS if re.search(row.said, words, re.IGNORECASE)), OTHERWISE)
    return refusal_fault(refusal, f"{shown} ({text[:SHOWN].strip()})", host)


def refusal_fault(refusal: Refusal, value: str, host: str) -> Fault:
    """Return the fault that stands for a refusal, and says which kind it is of."""
    return refusal.fault(refusal.fact, value, refusal.remedy.format(host=host), refusal.kind)


def last_message(err: str) -> str:
    """Return the last error in skopeo's log (logrus: key=value), without its preamble and without signed queries."""
    lines = err.strip().splitlines() or ["no message"]
    match = re.search(r'\bmsg="((?:[^"\\]|\\.)*)"', lines[-1])
    text = re.sub(r"\\(.)", lambda pair: " " if pair[1] in "nt" else pair[1], match[1]) if match else lines[-1]
    text = re.sub(
        r'^(Error parsing image name "[^"]*": |initializing source \S+: |reading manifest \S+ in \S+: )+', "", text
    )
    return re.sub(r"\?[^\s\"]*", "", text)[:READ].strip(" ,:") or "no message"


OLDEST = (1, 9)  # older ones were not tried
INSTALL = "apt-get install skopeo (1.9 or newer)"
PAUSES = (1.0, 3.0)  # seconds before the second and the third attempt
FILES = ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE")  # places of logins


class Server:
    """skopeo, talking to one registry: with its login in a private file, in a directory of its own.

    It waits for so many seconds of `patience` while nothing moves: skopeo itself takes up to 60 before it asks a busy
    registry again, and a registry copies a large layer once it has all of it. A transfer may take as many, and the time
    of its bytes at the least speed of images/host/limits.py: a byte now and then is not silence.
    """

    def __init__(self, remote: Remote, access: Access, aside: Path, patience: float = limits.PATIENCE) -> None:
        self._remote, self._access, self._aside, self._patience = remote, access, aside, patience
        self._trouble: Fault | None = None

    def inspect(self, tag_or_digest: str, *options: str) -> bytes:
        """Return a manifest by its tag or digest, or with `--config` the configuration, as the registry has it."""
        tls = ["--tls-verify=false"] if self._remote.is_plain else []
        reference = self._remote.called(tag_or_digest)
        return self._run(["inspect", "--raw", *options, *tls, f"docker://{reference}"], reference)

    def pull(self, digest: str, size: int, tick: Callable[[], None]) -> None:
        """Copy the layers of a manifest, so many bytes, to shared/sha256/; those that are there are not fetched."""
        tls = ["--src-tls-verify=false"] if self._remote.is_plain else []
        # The first option keeps layers that are not compressed as they are. The manifest that skopeo writes may be
        # another one (OCI's for one of Docker's) and is not read: only the layers matter.
        options = ["--dest-oci-accept-uncompressed-layers", "--remove-signatures", "--dest-shared-blob-dir", "shared"]
        reference = self._remote.called(digest)
        self._run(["copy", *tls, *options, f"docker://{reference}", "oci:layout:pulled"], reference, size, tick)

    def push(self, tag_or_digest: str, layout: str = "layout") -> None:
        """Copy the one image, index or document in a layout beside it to a tag or a digest, as it is."""
        size = sum(path.stat().st_size for path in (self._aside / layout).rglob("*"))
        tls = ["--dest-tls-verify=false"] if self._remote.is_plain else []
        reference = self._remote.called(tag_or_digest)
        options = ["--all", "--preserve-digests", *tls]
        self._run(["copy", *options, f"oci:{layout}", f"docker://{reference}"], reference, size)

    def _run(
        self, arguments: Sequence[str], shown: str, size: int = 0, tick: Callable[[], None] = lambda: None
    ) -> bytes:
        """Run skopeo, up to three times where that may help; what it has copied is not copied again.

        Raises a Fault of the kind `silent` where nothing moves, or so many bytes take too long.
        """
        command, *rest = arguments
        environ = self._environ
        line = ["skopeo", "--insecure-policy", command, *self._login, *rest]
        pauses = iter(PAUSES)
        while True:
            answer = self._aside / "answer"
            with answer.open("wb") as file:
                idle, late = self._refuse_silence(shown), self._refuse_slowness(shown, size, tick)
                done = process.run(line, environ, INSTALL, out=file, cwd=self._aside, tick=late, idle=idle)
            if done.code == 0:
                return answer.read_bytes()
            fault = explain_refusal(done.err, shown, self._remote.host)
            if self._trouble and fault.kind == "denied":
                raise self._trouble  # the login that could not be read may be the one that is missing
            pause = next(pauses, None)
            if pause is None or fault.kind != OTHERWISE.kind:
                raise fault
            self._access.wait(pause)

    def _refuse_silence(self, shown: str) -> Callable[[float], None]:
        """Return what raises a fault once a registry has been silent for too long."""

        def refuse(seconds: float) -> None:
            if seconds >= self._patience:
                raise refusal_fault(SILENT, f"{shown} (nothing came or went for {seconds:.0f} s)", self._remote.host)

        return refuse

    def _refuse_slowness(self, shown: str, size: int, tick: Callable[[], None]) -> Callable[[], None]:
        """Return what calls `tick`, and raises a fault once so many bytes have had time enough."""
        seconds = self._patience + size / limits.SLOWEST
        end = time.monotonic() + seconds

        def refuse() -> None:
            tick()
            if time.monotonic() > end:
                raise refusal_fault(
                    SILENT, f"{shown} ({size} bytes have not come in {seconds:.0f} s)", self._remote.host
                )

        return refuse

    @cached_property
    def _environ(self) -> Mapping[str, str]:
        """Check that skopeo is there, and hand on the certificates that requests and pip trust."""
        environ = self._access.environ
        require_skopeo(environ, f"{self._remote.host}/{self._remote.name}")
        named = {name: str(Path(environ[name]).absolute()) for name in FILES if environ.get(name)}  # it runs elsewhere
        return {**environ, **named, **trusted(environ, self._access.certificate)}

    @cached_property
    def _login(self) -> Sequence[str]:
        """Write the login of Docker's credential helper for skopeo alone, and return the option that names its file.

        Nothing of it is ever on a command line. All other logins of podman and Docker skopeo finds by itself.
        """
        try:
            entry = logins.of_helper(self._remote.host, self._access.environ)
        except Fault as fault:  # it matters where a login is wanted only
            self._trouble, entry = fault, {}
        if entry is None:
            return ()
        handle = os.open(self._aside / "auth.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump({"auths": {self._remote.host: entry}}, file)
        return ("--authfile", "auth.json")


def require_skopeo(environ: Mapping[str, str], shown: str) -> None:
    """Raise WorldFault where skopeo is missing or too old; `shown` is what it is needed for."""
    if shutil.which("skopeo", path=environ.get("PATH")) is None:
        raise WorldFault("registries are reached through skopeo, which is not installed", shown, INSTALL)
    text = process.run(["skopeo", "--version"], environ, INSTALL).out
    match = re.search(r"\b([0-9]+)\.([0-9]+)", text)
    if not match or (int(match[1]), int(match[2])) < OLDEST:
        raise WorldFault("skopeo is too old", text.strip() or "no version", INSTALL)
