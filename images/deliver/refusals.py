"""What errors of a registry mean to the user: the words in skopeo's log, and the fault for each kind of refusal."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path

from images.host.certificates import TRUST
from images.host.disk.faults import disk_fault
from images.host.errors import Fault, UserFault, WorldFault
from images.oci.manifest import ON_THE_WAY

LOGIN = (
    "docker login {host} (or podman login) as a user who may pull it; check the spelling: what does not exist looks "
    "the same"
)
MAY_PUSH = "docker login {host} (or podman login) as a user who may push there; check the spelling too"
LATER = "run it again later, or --registry-mirror HOST; what has come is kept"
CHECK = "check the network and proxy settings (HTTPS_PROXY), or --registry-mirror HOST"
STALLED = "check the network and proxy settings (HTTPS_PROXY), then run it again: what is there is not sent again"
OTHER = "another registry, or ask whoever runs {host}"
RAISE = "raise its limit, such as client_max_body_size of nginx; what is there is not sent again"
CLIENT = "its certificate and key for you as client.cert and client.key in ~/.config/containers/certs.d/{host}/"
PROXY = "HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT, with %40 for each @ in them, %3A for :, %2F for / and %25 for %"
PLAIN = "a registry with TLS, or name it with `insecure = true` in /etc/containers/registries.conf"
WHO = "check the address and proxy settings: a login page, or another server, may answer there in place of a registry"

SHOWN, READ = 300, 600  # characters of a message: an error has names in it, and a page of a proxy has any words
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
    # Some registries call these two "denied". Their words are longer than one, since a repository is called anything.
    (r"configured upper limit|quota (has been )?exceeded", "crammed", False),
    (r"cannot be overwritten|\b(is|as) immutable|tag immutability", "immutable", False),
    (r"unauthorized|authentication required|invalid username/password|" + _STATUS + "401", "login", False),
    (r"denied|: 403 \(|" + _STATUS + "403", "denied", False),
    (_STATUS + r"405|: 405 \(|method not allowed|operation is unsupported", "closed", False),
    (_STATUS + r"413|: 413 \(|entity too large", "large", False),
    (_STATUS + r"507|: 507 \(|insufficient storage", "crammed", False),
    (r"pinging container registry .*" + _STATUS + "404", "elsewhere", False),  # no registry has no /v2/
    (r"(manifest|name|blob) unknown|not found|" + _STATUS + "404", "absent", False),
    (_STATUS + "5[0-9][0-9]|internal server error|unavailable", "failed", True),
    (r"(did|does) not match|mismatch", "damaged", True),
    (r"manifest[ _]invalid|unsupported media ?type", "form", False),
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
    "elsewhere": (WorldFault, "no registry answers there", WHO),
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
    "immutable": (UserFault, "the registry does not let a tag be replaced", "another tag"),
    "form": (WorldFault, "the registry refuses the manifest", "check the address, proxy and mirror"),
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
    "form": (WorldFault, "the registry refuses the manifest, as some do for layers in zstd", "--compression gzip"),
    "otherwise": (WorldFault, "cannot push", "check the address, the network and proxy settings (HTTPS_PROXY)"),
}
LACKS = "the registry does not have what was pushed"
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
