"""The few requests to a registry that skopeo does not make, with the login and the certificates that it would take."""

from __future__ import annotations

import time
import zlib
from collections.abc import Container
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import requests
from requests.utils import parse_dict_header

from images.context import Access
from images.deliver import logins
from images.deliver.refusals import SILENT, explain_refusal, refusal_fault
from images.foreign import documents
from images.host import limits
from images.host.errors import WorldFault
from images.oci import reference
from images.oci.manifest import LIMIT, ON_THE_WAY
from images.oci.media_types import INDEXES, MANIFESTS
from images.oci.reference import Remote
from images.servers import certificates, download
from images.servers.pip_config import Sources

HUB = "registry-1.docker.io"  # where the registry of docker.io is
UNAUTHORIZED = 401
ACCEPT = f"{INDEXES[0]}, {MANIFESTS[0]}"
UNZIP = zlib.MAX_WBITS | 16  # with the header of gzip (zlib manual, inflateInit2)


class Body(NamedTuple):
    """What is written: its media type, and its bytes."""

    media_type: str
    data: bytes


class Answer(NamedTuple):
    """An answer that has been read: its status code, the type of its content, that, and the address of its next page.

    `following` is empty where there is none (RFC 8288, `rel="next"`).
    """

    status: int
    media_type: str
    data: bytes
    following: str

    @property
    def ok(self) -> bool:
        """Return whether it is no refusal."""
        return self.status < 400


class Registry:
    """One repository of a registry, whose manifests are read and written; all its answers come in time."""

    def __init__(self, remote: Remote, access: Access) -> None:
        self._remote, self._access = remote, access
        self._end = time.monotonic() + limits.PATIENCE
        self._given: str | None = None  # what answered the last refusal
        trusted = access.certificate or certificates.usual(access.environ)
        self._session = download.Session(Sources(certificate=trusted))
        self._session.auth = _without_login
        host = HUB if remote.host == reference.HUB else remote.host
        self._scheme = "http" if remote.is_plain else "https"
        self._url = f"{self._scheme}://{host}/v2/{remote.name}"

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def ask(
        self, method: str, path: str, body: Body | None = None, *, refusals: Container[int] = (), most: int = LIMIT
    ) -> Answer:
        """Send a request below the repository, if needed once more with the login, and return the answer.

        Raises a Fault where there is none, it has more than `most` bytes, or it is a refusal whose status code is not
        among `refusals`.
        """
        shown = f"{self._remote.host}/{self._remote.name} ({path[:200]})"
        try:
            answer, challenge = self._send(method, path, body, most)
            if answer.status == UNAUTHORIZED and (given := self._authorization(challenge)):
                self._given = given
                answer, _ = self._send(method, path, body, most)
        except download.FAILED as error:
            raise explain_refusal(download.reason(error), shown, self._remote.host) from error
        if not answer.ok and answer.status not in refusals:
            text = answer.data[:200].decode(errors="replace")
            raise explain_refusal(f"status code {answer.status}: {text}", shown, self._remote.host)
        return answer

    def path(self, address: str) -> str:
        """Return the path below the repository of an address that the registry has named.

        Raises WorldFault for one elsewhere, to which no login is sent.
        """
        if not address.startswith(f"{self._url}/"):
            raise WorldFault("a registry leads to another place", f"{self._remote} ({address})", ON_THE_WAY)
        return address.removeprefix(f"{self._url}/")

    def _send(self, method: str, path: str, body: Body | None, most: int) -> tuple[Answer, str]:
        """Return an answer, and what it asks for where it is one that wants a login."""
        headers = {"Accept": ACCEPT, "Content-Type": body and body.media_type, "Authorization": self._given}
        url = f"{self._url}/{path}"
        with self._request(method, url, data=body and body.data, headers=headers) as answer:
            media_type, link = answer.headers.get("Content-Type", "").partition(";")[0], answer.links.get("next")
            following = urljoin(url, link["url"]) if link else ""
            data = self._read(answer, most if answer.ok else LIMIT)  # a refusal is not what was asked for
            read = Answer(answer.status_code, media_type, data, following)
            return read, answer.headers.get("WWW-Authenticate", "")

    def _request(self, method: str, url: str, **options: Any) -> requests.Response:
        """Ask for something, which `_read` then reads."""
        headers = {**options.pop("headers", {}), "Accept-Encoding": "identity"}
        return self._session.request(method, url, headers=headers, stream=True, timeout=download.TIMEOUT, **options)

    def _read(self, answer: requests.Response, most: int) -> bytes:
        """Return the content of an answer, unpacked if the registry sent it in gzip without a request for that.

        Raises WorldFault for more than `most` bytes, and where they are not there in time.
        """
        data = b"".join(download.pieces(answer, most, self._refuse_slowness, unpack=False))
        return _unzipped(data, most) if answer.headers.get("Content-Encoding", "").lower() == "gzip" else data

    def _refuse_slowness(self, _: int) -> None:
        if time.monotonic() > self._end:
            value = f"{self._remote} (not all has come in {limits.PATIENCE:.0f} s)"
            raise refusal_fault(SILENT, value, self._remote.host)

    def _authorization(self, header: str) -> str | None:
        """Return the header that a refusal demands (RFC 7235); None if we cannot produce it.

        A token is requested as the refusal says (distribution, "Token Authentication"; with an identity token by
        OAuth2), without a login an anonymous one. If the registry uses TLS, its token server has to use it, too.
        """
        scheme, _, rest = header.partition(" ")
        login = logins.find(self._remote, self._access.environ) or {}
        basic = f"Basic {login['auth']}" if login else None
        if scheme.lower() == "basic":
            return basic
        challenge = parse_dict_header(rest)  # type: ignore[no-untyped-call]  # a function without annotations
        realm = challenge.get("realm", "")
        if scheme.lower() != "bearer" or urlsplit(realm).scheme not in ("https", self._scheme):
            return None
        wanted: dict[str, str] = {name: challenge[name] for name in ("service", "scope") if name in challenge}
        if token := login.get("identitytoken"):
            grant = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "multinode", **wanted}
            given = self._request("POST", realm, data=grant)
        else:
            given = self._request("GET", realm, params=wanted, headers={"Authorization": basic})
        with given:
            document = documents.parse_json(self._read(given, limits.TOKEN.most)) if given.ok else None
        issued = document.get("token") or document.get("access_token") if isinstance(document, dict) else None
        return f"Bearer {issued}" if issued else None


def _without_login(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Add no login: requests would take one of ~/.netrc, which skopeo does not read."""
    return request


def _unzipped(data: bytes, most: int) -> bytes:
    """Unpack gzip, by a reader that stops: some megabytes may have been gigabytes."""
    try:
        unpacked = zlib.decompressobj(UNZIP).decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(f"it is no gzip: {error}") from error
    if len(unpacked) > most:
        raise WorldFault("a download is too long", f"more than {most} bytes, unpacked", ON_THE_WAY)
    return unpacked
