"""The few requests to a registry that skopeo does not make, with the login and the certificates that it would take."""

from __future__ import annotations

from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth
from requests.utils import parse_dict_header

from images.deliver import logins
from images.deliver.logins import Login
from images.deliver.refusals import refusal
from images.host import certificates, download
from images.host.context import Access
from images.host.errors import Fault
from images.host.pip_config import Sources
from images.oci import reference
from images.oci.manifest import INDEXES
from images.oci.reference import Place

HUB = "registry-1.docker.io"  # where the registry of docker.io is
UNAUTHORIZED = 401


class _Nobody(AuthBase):
    """No login: requests would take one of ~/.netrc, which skopeo does not read."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class _Bearer(AuthBase):
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Registry:
    """One repository of a registry, whose indexes are read and written."""

    def __init__(self, place: Place, access: Access) -> None:
        self._place, self._access = place, access
        trusted = access.certificate or certificates.usual(access.environ)
        self._session = download.session(Sources(certificate=trusted))
        self._session.auth = _Nobody()
        host = HUB if place.host == reference.HUB else place.host
        self._scheme = "http" if place.plain else "https"
        self._url = f"{self._scheme}://{host}/v2/{place.name}"

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def ask(self, method: str, path: str, index: bytes | None = None) -> requests.Response:
        """Return the answer to a request below the repository; where a login is wanted it is asked once more with it.

        Raises a Fault where there is no answer.
        """
        try:
            answer = self._send(method, path, index)
            if answer.status_code == UNAUTHORIZED and (given := self._authorized(answer)):
                self._session.auth = given
                answer = self._send(method, path, index)
        except download.FAILED as error:
            raise self.refused(download.reason(error), path) from error
        return answer

    def refused(self, said: str, path: str) -> Fault:
        """Return the fault for what a registry, or the way to it, says."""
        shown = f"{self._place.host}/{self._place.name} ({path})"
        return refusal(said, shown, self._place.host)

    def _send(self, method: str, path: str, index: bytes | None) -> requests.Response:
        headers = {"Accept": INDEXES[0], **({"Content-Type": INDEXES[0]} if index else {})}
        url = f"{self._url}/{path}"
        return self._session.request(method, url, data=index, headers=headers, timeout=download.TIMEOUT)

    def _authorized(self, answer: requests.Response) -> AuthBase | None:
        """Return what answers a refusal, None where nothing does (RFC 7235)."""
        scheme, _, rest = answer.headers.get("WWW-Authenticate", "").partition(" ")
        login = logins.find(self._place, self._access.environ)
        if scheme.lower() == "basic" and login:
            return _basic(login)
        challenge = parse_dict_header(rest)  # type: ignore[no-untyped-call]  # a function without annotations
        token = self._token(challenge, login) if scheme.lower() == "bearer" else None
        return _Bearer(token) if token else None

    def _token(self, challenge: dict[str, str], login: Login | None) -> str | None:
        """Ask for a token as the challenge says (distribution, "Token Authentication"; by OAuth2 for one of ours).

        Without a login it is one for everybody. Where the registry is asked over TLS, so is who gives out its tokens.
        """
        realm = challenge.get("realm", "")
        if urlsplit(realm).scheme not in ("https", self._scheme):
            return None
        wanted: dict[str, str] = {name: challenge[name] for name in ("service", "scope") if name in challenge}
        if login and login.token:
            grant = {"grant_type": "refresh_token", "refresh_token": login.token, "client_id": "multinode", **wanted}
            answer = self._session.post(realm, data=grant, auth=_Nobody(), timeout=download.TIMEOUT)
        else:
            auth = _basic(login) if login else _Nobody()
            answer = self._session.get(realm, params=wanted, auth=auth, timeout=download.TIMEOUT)
        said = answer.json() if answer.ok else None
        found = said.get("token") or said.get("access_token") if isinstance(said, dict) else None
        return str(found) if found else None


def _basic(login: Login) -> AuthBase:
    return HTTPBasicAuth(login.user.encode(), login.secret.encode())
