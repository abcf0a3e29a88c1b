"""A registry that fails as told: one image over HTTP, with answers that are put before the right ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from tests.support.stand_in import Image
from tests.support.web import Reply, Request, listening

__all__ = ["Faulty", "Reply", "answering", "serving"]

TOKEN = "a-token-that-only-the-login-gives"
DENIED = b'{"errors": [{"code": "UNAUTHORIZED"}]}'


@dataclass
class Faulty:
    """What is served: `instead` has answers by the end of the path, each given once; `asked` is what came.

    With `login`, everything wants a token, which is given to that value of Authorization, or to that refresh token.
    """

    image: Image
    instead: dict[str, list[Reply]] = field(default_factory=dict)
    login: str | None = None
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    host: str = ""

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        self.asked.append((request.target, request.headers))
        place, authorization = request.path, request.headers.get("Authorization", "")
        for end, replies in self.instead.items():
            if place.endswith(end) and replies:
                return replies.pop(0)
        if place == "/token":
            return self._token(authorization, request.body.decode())
        if self.login and authorization != f"Bearer {TOKEN}":
            realm = f'Bearer realm="http://{self.host}/token",service="{self.host}",scope="repository:a/b:pull"'
            return Reply(401, DENIED, {"WWW-Authenticate": realm})
        if place == "/v2/":
            return Reply(200, b"{}")
        return self._manifest(place) if "/manifests/" in place else self._blob(place.rpartition("/")[2])

    def _token(self, authorization: str, form: str) -> Reply:
        refresh = parse_qs(form).get("refresh_token", [""])[0]
        known = self.login in (authorization, refresh)
        return Reply(200, json.dumps({"token": TOKEN}).encode()) if known else Reply(401, DENIED)

    def _manifest(self, place: str) -> Reply:
        found = self._blob(self.image.digest if place.endswith("/1") else place.rpartition("/")[2])
        kind = json.loads(found.body).get("mediaType", "application/json")
        return Reply(found.status, found.body, {"Content-Type": kind})

    def _blob(self, name: str) -> Reply:
        data = self.image.blobs.get(name)
        return Reply(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}') if data is None else Reply(200, data)


@contextmanager
def serving(faulty: Faulty) -> Iterator[Faulty]:
    """Serve on a free port, which `host` then names."""
    with listening(faulty.answer) as faulty.host:
        yield faulty


def answering(reply: Reply) -> AbstractContextManager[str]:
    """Give one answer to every request, whatever it asks; yield host:port."""
    return listening(lambda _: reply)
