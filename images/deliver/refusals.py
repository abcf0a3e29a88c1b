"""What errors of a registry mean to the user: where skopeo's own words do not say what to do, the fault that does."""

from __future__ import annotations

import re
from typing import NamedTuple

from images.host.errors import ROOM, Fault, UserFault, WorldFault
from images.servers.certificates import TRUST

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
