"""Images out of a registry: the OCI distribution protocol 1.1, its two kinds of login, a mirror before the origin."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from images.host.context import Access
from images.host.download import Advance, Answer, ask, resume
from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store
from images.oci import credentials
from images.oci.credentials import Credentials
from images.oci.manifest import INDEXES, LIMIT, MANIFESTS, Descriptor, check, read
from images.oci.reference import HOST, HUB, NAME, Remote

HUB_ADDRESS = "registry-1.docker.io"
# Docker speaks plain HTTP with these only; `docker pull` of any other host needs `insecure-registries`.
NEAR = re.compile(r"(localhost|127(\.[0-9]+){3}|\[::1\])(:[0-9]+)?")
CLIENT = "multinode"
ACCEPT = ", ".join((*MANIFESTS, *INDEXES))

Got = TypeVar("Got")


class Repository:
    """One image name in a registry, asked of the mirror first; a mirror that fails once is not asked again."""

    def __init__(self, remote: Remote, store: Store, access: Access) -> None:
        self._remote, self._store, self._access = remote, store, access
        origin = Place(remote.host, _address(remote.host), remote.name, access)
        self._places = [*([_mirror(access.mirror, remote.name, access)] if access.mirror else []), origin]

    def manifest(self, digest: str | None) -> bytes:
        """Get a manifest or an index by digest, or for None the one that the reference means."""
        wanted = digest or self._remote.digest or self._remote.tag or "latest"
        return self._first(lambda place: place.manifest(wanted))

    def blob(self, part: Descriptor, advance: Advance) -> Path:
        """Bring a blob into the store, unless it is there undamaged."""
        if self._store.whole(part.sha256, "blob") is None:
            self._first(lambda place: place.blob(self._store, part, advance))
        return self._store.root / "blobs" / part.sha256 / "blob"

    def _first(self, question: Callable[[Place], Got]) -> Got:
        for place in self._places[:-1]:
            try:
                return question(place)
            except Fault as fault:
                if len(self._places) > 1:  # else a download beside this one has said it
                    self._access.say(
                        f"the mirror did not help ({fault.fact}: {fault.value}); on to {self._remote.host}"
                    )
                self._places = self._places[-1:]
        return question(self._places[-1])


class Place:
    """One server that has a repository, and what it wants to hear before it answers."""

    def __init__(self, host: str, address: str, name: str, access: Access) -> None:
        self._host, self._address, self._name, self._access = host, address, name, access
        self._authorization: str | None = None

    def manifest(self, wanted: str) -> bytes:
        """Get a manifest by tag or digest.

        Raises UserFault when it is not there or not for this user, WorldFault for everything else.
        """
        url = f"{self._address}/v2/{self._name}/manifests/{wanted}"
        shown = self._shown(wanted)
        answer = self._authorized(
            lambda headers: ask(url, {"Accept": ACCEPT, **headers}, self._access.reach, limit=LIMIT)
        )
        if answer.status != 200:
            raise refusal(answer, self._host, shown)
        announced = wanted if ":" in wanted else answer.headers.get("Docker-Content-Digest", "")
        if announced.startswith("sha256:"):
            check(answer.body, announced, shown)
        read(answer.body, shown)
        return answer.body

    def blob(self, store: Store, part: Descriptor, advance: Advance) -> None:
        """Bring a blob into the store; raises as `manifest` does."""
        url = f"{self._address}/v2/{self._name}/blobs/{part.digest}"
        answer = self._authorized(
            lambda headers: resume(store, url, part.sha256, part.size, headers, self._access.reach, advance)
        )
        if answer.status != 200:
            raise refusal(answer, self._host, self._shown(part.digest))

    def _shown(self, wanted: str) -> str:
        return f"{self._host}/{self._name}{'@' if ':' in wanted else ':'}{wanted}"

    def _authorized(self, question: Callable[[Mapping[str, str]], Answer]) -> Answer:
        """Ask; log in when told to, also in the middle: a token lives for some minutes, a download may take longer."""
        answer = question({"Authorization": self._authorization} if self._authorization else {})
        if answer.status != 401:
            return answer
        self._authorization = self._log_in(challenges(answer.headers.get("WWW-Authenticate", "")))
        return question({"Authorization": self._authorization}) if self._authorization else answer

    def _log_in(self, wanted: Mapping[str, Mapping[str, str]]) -> str | None:
        """Answer the value of an Authorization header, or None when there is nothing to log in with."""
        known = credentials.find(self._host, self._access.environ)
        if "bearer" in wanted:
            return "Bearer " + self._token(wanted["bearer"], known)
        return known.basic if known and known.user and "basic" in wanted else None

    def _token(self, wanted: Mapping[str, str], known: Credentials | None) -> str:
        """Get a token (distribution, "Token Authentication Specification"), with an identity token by OAuth 2."""
        realm = wanted.get("realm", "")
        if urlsplit(realm).scheme != "https" and not (realm.startswith("http:") and self._address.startswith("http:")):
            raise WorldFault("a registry wants a login at an unsafe address", f"{self._host} ({realm!r})", SAFE)
        query = {"service": wanted.get("service", ""), "scope": wanted.get("scope") or f"repository:{self._name}:pull"}
        if known and known.identity:
            form = {**query, "grant_type": "refresh_token", "client_id": CLIENT, "refresh_token": known.identity}
            answer = ask(realm, {}, self._access.reach, limit=LIMIT, form=form)
        else:
            headers = {"Authorization": known.basic} if known else {}
            url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
            answer = ask(url, headers, self._access.reach, limit=LIMIT)
        if answer.status != 200:
            raise refusal(answer, self._host, f"{self._host}/{self._name}")
        return _token_in(answer.body, self._host)


def _address(host: str) -> str:
    """Name where a registry answers: plain HTTP on this machine only."""
    return f"{'http' if NEAR.fullmatch(host) else 'https'}://{HUB_ADDRESS if host == HUB else host}"


def _mirror(text: str, name: str, access: Access) -> Place:
    """Read [http[s]://]HOST[:PORT][/PROJECT]; a project goes before the name of the image, as in Harbor."""
    scheme, separator, rest = text.rpartition("://")
    host, _, project = rest.rstrip("/").partition("/")
    if not HOST.fullmatch(host) or scheme not in ("", "http", "https") or (project and not NAME.fullmatch(project)):
        remedy = "--registry-mirror [https://]HOST[:PORT][/PROJECT]"
        raise UserFault("that is not the address of a mirror", repr(text.rpartition("@")[2]), remedy)
    address = f"{scheme}://{host}" if separator else _address(host)
    return Place(host, address, f"{project}/{name}" if project else name, access)


# A parameter, or else the name of a scheme.
TOKEN = re.compile(r'([\w-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,"]*)|([\w-]+)')


def challenges(header: str) -> dict[str, dict[str, str]]:
    """Read WWW-Authenticate: scheme -> parameters, names in lower case (RFC 9110, 11.6.1)."""
    found: dict[str, dict[str, str]] = {}
    parameters: dict[str, str] = {}
    for name, value, scheme in TOKEN.findall(header):
        if scheme:
            parameters = found.setdefault(scheme.lower(), {})
        else:
            parameters[name.lower()] = _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _token_in(body: bytes, host: str) -> str:
    try:
        said = json.loads(body)
        token = said.get("token") or said.get("access_token")
    except (ValueError, AttributeError, RecursionError):
        token = None
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
        # `from None`: what was answered may be a secret
        raise WorldFault("a registry's login answered without a token", host, "check proxy and mirror") from None
    return token


SAFE = "a registry, or a mirror, whose login has an https address"
LOGIN = "docker login {host} as a user who may pull it; check the spelling too: what does not exist looks the same"
# Status -> kind of fault, fact, what to try; {host} is filled in.
REFUSALS: dict[int, tuple[type[Fault], str, str]] = {
    401: (UserFault, "the registry wants a login", LOGIN),
    403: (UserFault, "the registry does not let you have that", LOGIN),
    404: (UserFault, "the registry has no such image", "check name and tag; the registry's page lists them"),
    429: (WorldFault, "the registry has had too many requests", "wait, docker login {host}, or --registry-mirror HOST"),
}
OTHERWISE = (WorldFault, "the registry failed", "run it again later, or --registry-mirror HOST; downloads continue")


def refusal(answer: Answer, host: str, shown: str) -> Fault:
    """Say what a status of a registry means to the user, with the code of the specification if there is one."""
    kind, fact, remedy = REFUSALS.get(answer.status, OTHERWISE)
    codes = re.findall(rb'"code"\s*:\s*"([A-Z_]{3,40})"', answer.body)
    why = ", ".join([f"status {answer.status}", *(code.decode() for code in codes[:1])])
    return kind(fact, f"{shown} ({why})", remedy.format(host=host))
