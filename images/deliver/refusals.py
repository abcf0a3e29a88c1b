"""What errors of a registry mean to the user: where skopeo's own words do not say what to do, the fault that does."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path

from images.host.certificates import TRUST
from images.host.disk.faults import disk_fault
from images.host.errors import Fault, UserFault, WorldFault
from images.oci.manifest import ON_THE_WAY

LOGIN = "docker login {host} (or podman login) as a user who may pull it; check the spelling too"
MAY_PUSH = "docker login {host} (or podman login) as a user who may push there; check the spelling too"
NETWORK = "check the address, the network and proxy settings (HTTPS_PROXY)"
AGAIN = "run it again; if it stays so, remove the directory"
LATER = "run it again later; what is there is kept"
PLAIN = "a registry with TLS, or name it with `insecure = true` in /etc/containers/registries.conf"
SHOWN, READ = 300, 600  # characters of a message: an error has names in it, and a page of a proxy has any words

# What skopeo says (a regular expression, the first that is found counts) -> kind of refusal, and whether to try again.
_STATUS = r"status(?: ?code)?(?: from registry)?:? "
SAID: tuple[tuple[str, str, bool], ...] = (
    (r"no space left on device|disk quota exceeded", "full", False),
    (r"server gave HTTP response to HTTPS client", "plain", False),
    (r"x509: |(?<!remote error: )tls: .*certificate", "certificate", False),  # not what the other end says of ours
    (r"context deadline exceeded", "silent", False),
    (r"toomanyrequests|too many requests|" + _STATUS + "429", "busy", False),  # skopeo has waited and asked again
    # Some registries call these two "denied". Their words are longer than one, since a repository is called anything.
    (r"configured upper limit|quota (has been )?exceeded", "crammed", False),
    (r"cannot be overwritten|\b(is|as) immutable|tag immutability", "immutable", False),
    (r"unauthorized|(?<!proxy )authentication required|invalid username/password|" + _STATUS + "401", "denied", False),
    (r"denied|: 403 \(|" + _STATUS + "403", "denied", False),
    (r"(manifest|name|blob) unknown|not found|" + _STATUS + "404", "absent", False),
    (r"(did|does) not match|mismatch", "damaged", True),
    (r"manifest[ _]invalid|unsupported media ?type", "form", False),
)  # fmt: skip

Refusals = Mapping[str, tuple[type[Fault], str, str]]  # kind -> fault, fact, what to try; {host} is filled in

PULL: Refusals = {
    "plain": (WorldFault, "the registry speaks plain HTTP, which is for this machine only", PLAIN),
    "certificate": (WorldFault, "the registry's certificate is not trusted", TRUST),
    "silent": (WorldFault, "the registry does not answer", f"{NETWORK}, or --registry-mirror HOST"),
    "busy": (WorldFault, "the registry has had too many requests", f"docker login {{host}}, or {LATER}"),
    "crammed": (WorldFault, "the registry has no room", "ask whoever runs {host}"),
    "immutable": (UserFault, "the registry does not let a tag be replaced", "another tag"),
    "denied": (UserFault, "the registry wants a login, or another one", LOGIN),
    "absent": (UserFault, "the registry has no such image", "check host, name and tag"),
    "damaged": (WorldFault, "a download has another sha256 than expected", ON_THE_WAY),
    "form": (WorldFault, "the registry refuses the manifest", NETWORK),
    "otherwise": (WorldFault, "cannot download", f"{NETWORK}, or --registry-mirror HOST"),
}  # fmt: skip
PUSH: Refusals = {
    **PULL,
    "denied": (UserFault, "the registry does not let you push there", MAY_PUSH),
    "absent": (UserFault, "the registry has no such place", "check the name; some registries want it created before"),
    "silent": (WorldFault, "the registry does not answer", f"{NETWORK}, then {LATER}"),
    "busy": (WorldFault, "the registry has had too many requests", LATER),
    "damaged": (WorldFault, "the registry received something else than was sent", f"{AGAIN} `blobs` of the cache"),
    "form": (WorldFault, "the registry refuses the manifest, as some do for layers in zstd", "--compression gzip"),
    "otherwise": (WorldFault, "cannot push", f"{NETWORK}, then {LATER}"),
}


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
    return refused(kind, refusals, f"{shown} ({text[:SHOWN].strip()})", host), again


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
    return re.sub(r"\?[^\s\"]*", "", text)[:READ].strip(" ,:") or "no message"
