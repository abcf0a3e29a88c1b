"""A registry with the interface that Debian's has not: it lists what is attached to an image (OCI 1.1, "Referrers").

It does what the distribution specification asks of a registry for pushes in one piece and for reading, and no more.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from images.deliver.skopeo import Server
from tests.support.stand_in import digest as name_of
from tests.support.web import Reply, Request, answered, listening

INDEX = "application/vnd.oci.image.index.v1+json"
TOKEN = "a-token-that-only-the-login-gives"
DENIED = b'{"errors": [{"code": "UNAUTHORIZED"}]}'


@dataclass
class Listing:
    """What a registry has: blobs and manifests by digest, tags; with `login` it wants a token.

    login: USER:PASSWORD, an identity token, or a whole value of Authorization. `page` is how many entries come at once;
    without `lists` it has no such interface, as Debian's.
    """

    login: str | None = None
    host: str = ""
    page: int | None = None
    lists: bool = True
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def answer(self, request: Request) -> Reply:
        """Answer one request; every repository has the same content."""
        authorization = request.headers.get("Authorization", "")
        if request.path == "/token":
            return self._token(authorization, request.body.decode())
        if self.login and authorization != f"Bearer {TOKEN}":
            realm = f'Bearer realm="http://{self.host}/token",service="{self.host}",scope="repository:a/b:pull,push"'
            return Reply(401, DENIED, {"WWW-Authenticate": realm})
        if request.path == "/v2/":
            return Reply(200)
        kind, _, name = request.path.rpartition("/")
        actions = {"blobs": self._blob, "manifests": self._manifest, "referrers": self._referrers}
        if "/blobs/uploads" in request.path:
            return self._upload(request)
        return actions[kind.rpartition("/")[2]](request, name)

    def _token(self, authorization: str, form: str) -> Reply:
        known = f"Basic {base64.b64encode((self.login or '').encode()).decode()}"
        refresh = parse_qs(form).get("refresh_token", [""])[0]
        if self.login in (authorization, refresh) or authorization == known:
            return Reply(200, json.dumps({"access_token": TOKEN, "token": TOKEN}).encode())
        return Reply(401, DENIED)

    def _upload(self, request: Request) -> Reply:
        digest = parse_qs(urlsplit(request.target).query).get("digest", [""])[0]
        waiting = self.blobs.setdefault("upload", b"") + request.body
        self.blobs["upload"] = waiting
        if request.method != "PUT":
            place = "/v2/a/b/blobs/uploads/1"
            return Reply(202, headers={"Location": place, "Range": f"0-{max(len(waiting) - 1, 0)}"})
        assert name_of(self.blobs.pop("upload")) == digest
        self.blobs[digest] = waiting
        return Reply(201, headers={"Location": f"/v2/a/b/blobs/{digest}"})

    def _blob(self, _: Request, name: str) -> Reply:
        data = self.blobs.get(name)
        return Reply(404) if data is None else Reply(200, data, {"Docker-Content-Digest": name})

    def _manifest(self, request: Request, name: str) -> Reply:
        if request.method == "PUT":
            digest = name_of(request.body)
            self.manifests[digest] = request.body
            if ":" not in name:
                self.tags[name] = digest
            subject = json.loads(request.body).get("subject")
            return Reply(201, headers={"OCI-Subject": subject["digest"]} if subject else {})
        digest = self.tags.get(name, name)
        data = self.manifests.get(digest)
        if data is None:
            return Reply(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
        kind = json.loads(data).get("mediaType", "application/json")
        return Reply(200, data, {"Content-Type": kind, "Docker-Content-Digest": digest})

    def _referrers(self, request: Request, digest: str) -> Reply:
        if not self.lists:
            return Reply(404)
        rows, start = self.attached_to(digest), int(urlsplit(request.target).query.partition("=")[2] or 0)
        end = start + (self.page or len(rows))
        listed = {"schemaVersion": 2, "mediaType": INDEX, "manifests": rows[start:end]}
        more = {"Link": f'<{request.path}?last={end}>; rel="next"'} if end < len(rows) else {}
        return Reply(200, json.dumps(listed).encode(), {"Content-Type": INDEX, **more})

    def attached_to(self, digest: str) -> list[dict[str, Any]]:
        """Return the descriptors of what has an image as its subject."""
        rows = ((name, data, json.loads(data)) for name, data in self.manifests.items())
        return [
            {"mediaType": raw["mediaType"], "digest": name, "size": len(data), "artifactType": raw["artifactType"]}
            for name, data, raw in rows
            if raw.get("subject", {}).get("digest") == digest
        ]


@contextmanager
def in_memory(registry: Listing) -> Iterator[list[Request]]:
    """Let a registry answer this process, and take what it pushes, without a network; yield what is asked."""
    registry.host = registry.host or "localhost:5000"

    def push(server: Server, tag_or_digest: str, layout: str = "layout") -> None:
        place = server._aside / layout
        (entry,) = json.loads((place / "index.json").read_text())["manifests"]
        for path in (place / "blobs/sha256").iterdir():
            kept = registry.manifests if f"sha256:{path.name}" == entry["digest"] else registry.blobs
            kept[f"sha256:{path.name}"] = path.read_bytes()
        if ":" not in tag_or_digest:
            registry.tags[tag_or_digest] = entry["digest"]

    with answered(registry.answer) as asked, mock.patch.object(Server, "push", push):
        yield asked


@contextmanager
def running(login: str | None = None) -> Iterator[Listing]:
    """Run a registry; its address is `host`."""
    registry = Listing(login)
    with listening(registry.answer) as registry.host:
        yield registry
