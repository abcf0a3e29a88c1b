"""The few requests to a registry that skopeo does not make, with the login and the certificates that it would take."""

from __future__ import annotations

from collections.abc import Container
from urllib.parse import urlsplit

import requests
from requests.utils import parse_dict_header

from images.deliver import logins
from images.deliver.refusals import refusal
from images.host import certificates, download
from images.host.context import Access
from images.host.pip_config import Sources
from images.oci import reference
from images.oci.manifest import INDEXES
from images.oci.reference import Remote

HUB = "registry-1.docker.io"  # where the registry of docker.io is
UNAUTHORIZED = 401


class Registry:
    """One repository of a registry, whose indexes are read and written."""

    def __init__(self, remote: Remote, access: Access) -> None:
        self._remote, self._access = remote, access
        self._given: str | None = None  # what answered the last refusal
        trusted = access.certificate or certificates.usual(access.environ)
        self._session = download.Session(Sources(certificate=trusted))
        self._session.auth = _as_it_is
        host = HUB if remote.host == reference.HUB else remote.host
        self._scheme = "http" if remote.is_plain else "https"
        self._url = f"{self._scheme}://{host}/v2/{remote.name}"

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def ask(
        self, method: str, path: str, index: bytes | None = None, *, refusals: Container[int] = ()
    ) -> requests.Response:
        """Return the answer to a request below the repository; where a login is wanted it is asked once more with it.

        Raises a Fault where there is none, or it is a refusal whose status code is not among `refusals`.
        """
        shown = f"{self._remote.host}/{self._remote.name} ({path})"
        try:
            answer = self._send(method, path, index)
            if answer.status_code == UNAUTHORIZED and (given := self._authorization(answer)):
                self._given = given
                answer = self._send(method, path, index)
        except download.FAILED as error:
            raise refusal(download.reason(error), shown, self._remote.host) from error
        if not answer.ok and answer.status_code not in refusals:
            raise refusal(f"status code {answer.status_code}: {answer.text[:200]}", shown, self._remote.host)
        return answer

    def _send(self, method: str, path: str, index: bytes | None) -> requests.Response:
        headers = {"Accept": INDEXES[0], "Content-Type": INDEXES[0] if index else None, "Authorization": self._given}
        url = f"{self._url}/{path}"
        return self._session.request(method, url, data=index, headers=headers, timeout=download.TIMEOUT)

    def _authorization(self, answer: requests.Response) -> str | None:
        """Return what answers a refusal (RFC 7235), None where nothing does.

        A token is asked for as the refusal says (distribution, "Token Authentication"; by OAuth2 for one of ours);
        without a login it is one for everybody. Where the registry is asked over TLS, so is who gives out its tokens.
        """
        scheme, _, rest = answer.headers.get("WWW-Authenticate", "").partition(" ")
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
            given = self._session.post(realm, data=grant, timeout=download.TIMEOUT)
        else:
            headers = {"Authorization": basic}
            given = self._session.get(realm, params=wanted, headers=headers, timeout=download.TIMEOUT)
        said = given.json() if given.ok else None
        found = said.get("token") or said.get("access_token") if isinstance(said, dict) else None
        return f"Bearer {found}" if found else None


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Add no login: requests would take one of ~/.netrc, which skopeo does not read."""
    return request
