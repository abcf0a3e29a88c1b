"""Requests to a registry that skopeo does not make: what is attached to an image, with skopeo's login."""

from __future__ import annotations

import time
import zlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import requests
from requests.utils import parse_dict_header

from images import pip_config
from images.context import Access
from images.deliver import logins
from images.deliver.skopeo import OTHERWISE, SILENT, Server, explain_refusal, refusal_fault
from images.foreign import documents
from images.host import limits
from images.host.errors import Fault, WorldFault
from images.oci import indexes, reference
from images.oci.indexes import LAYOUT
from images.oci.manifest import (
    INDEXES,
    LIMIT,
    MANIFESTS,
    ON_THE_WAY,
    described,
    digest_of,
    encode,
    list_of,
    parse_descriptor,
    parse_document,
    require_digest,
)
from images.oci.reference import Remote
from images.pip_config import Sources
from images.store import download
from images.store.store import Store

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
        trusted = access.certificate or pip_config.usual(access.environ)
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


# What is attached to an image in a registry: documents that name it as their subject, and the list of them.
#
# A registry with the interface for it makes the list by itself. For others a tag, made of the image's digest, names it
# (OCI distribution specification 1.1, "Listing Referrers", "Referrers Tag Schema"). skopeo brings the documents; the
# list it neither asks for nor writes whole (1.9).

EMPTY = "application/vnd.oci.empty.v1+json"  # a configuration for who has none ("Guidance for an Empty Descriptor")
NOTHING = b"{}"
TITLE = "org.opencontainers.image.title"  # as which file `oras pull` writes it

# What is answered where something is not there, and by registries without the interface: every other refusal may hide
# something that others are shown.
GONE = (404,)
NO_INTERFACE = (400, 404, 405, 406, 501)
MOST, MOST_PAGES = 10_000, 100  # entries of a list, and pages that they come in
TOO_MANY = "ask whoever pushed them to remove them; or the image by the path of a layout: skopeo copy brings it alone"
MOST_PARTS = 20  # of a document that is attached: it has one, and what cosign collects under a tag some
COSIGN = ("sig", "att", "sbom")  # what its tags end with: `cosign triangulate` prints them

# Kinds of refusals of a registry that takes images and not what is attached to them; another attempt does not help.
NOT_TAKEN = ("plain", "certificate", "immutable", "denied", "absent", "form", "refused")


@dataclass(frozen=True)
class Attachment:
    """A document about the image with a manifest: what people call it, the name of a file, its type, its annotations.

    The media type is that of the content and of the manifest (`artifactType`), by which others look for it.
    """

    image: bytes
    name: str
    filename: str
    media_type: str
    data: bytes
    annotations: tuple[tuple[str, str], ...] = ()

    @property
    def manifest(self) -> bytes:
        """Return its manifest; equal documents about the same image have equal ones."""
        content = described(self.media_type, self.data)
        return encode(
            {
                "schemaVersion": 2,
                "mediaType": MANIFESTS[0],
                "artifactType": self.media_type,
                "config": described(EMPTY, NOTHING),
                "layers": [{**content, "annotations": {TITLE: self.filename}}],
                "subject": described(MANIFESTS[0], self.image),
                "annotations": dict(self.annotations),
            }
        )

    @property
    def digest(self) -> str:
        """Return the digest of its manifest, by which a registry has it."""
        return digest_of(self.manifest)

    @property
    def entry(self) -> dict[str, Any]:
        """Return how a list of what is attached to the image names it ("Listing Referrers")."""
        entry = described(MANIFESTS[0], self.manifest)
        return {**entry, "artifactType": self.media_type, "annotations": dict(self.annotations)}

    def write_layout(self, path: Path) -> None:
        """Write it as the one entry of a new OCI layout."""
        blobs = path / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        for data in (NOTHING, self.data, self.manifest):
            (blobs / digest_of(data).removeprefix("sha256:")).write_bytes(data)
        (path / "oci-layout").write_bytes(LAYOUT)
        (path / "index.json").write_bytes(indexes.write_list([self.entry]))


def attach(documents: Sequence[Attachment], remote: Remote, store: Store, access: Access) -> None:
    """Push documents about one image, which the registry has, and see to it that they are listed.

    Raises a Fault where that cannot be done; the next call goes on.
    """
    about = digest_of(documents[0].image)
    with store.temporary(directory=True) as aside:
        server = Server(remote, access, aside)
        for document in documents:
            document.write_layout(aside / document.name)
            _push_document(document, server, remote, access)
    with Registry(remote, access) as registry:
        if _read_referrers(registry, about) is None:
            _add_entries(registry, about, [document.entry for document in documents])


def _push_document(document: Attachment, server: Server, remote: Remote, access: Access) -> None:
    """Push a document; where skopeo's words do not tell a refusal from a failure, the registry's status does.

    Raises a Fault, of one of NOT_TAKEN where the registry refuses the document.
    """
    try:
        server.push(document.digest, document.name)
    except Fault as fault:
        if fault.kind != OTHERWISE.kind:
            raise
        with Registry(remote, access) as registry:
            answer = registry.ask("HEAD", f"blobs/{digest_of(document.data)}", refusals=GONE)
            if not answer.ok:  # it has failed before the document came
                raise
            registry.ask("PUT", f"manifests/{document.digest}", Body(MANIFESTS[0], document.manifest))


def list_attached(digest: str, remote: Remote, access: Access) -> list[dict[str, Any]]:
    """Return the descriptors of what is attached to an image or an index, wherever clients look for it.

    That is what the registry lists, what the tag lists, and what cosign keeps under tags of its own. Raises a Fault
    where a list cannot be read to its end.
    """
    with Registry(remote, access) as registry:
        return [*(_read_referrers(registry, digest) or ()), *_tagged(registry, digest), *_of_cosign(registry, digest)]


def is_attached(document: Attachment, remote: Remote, access: Access) -> bool:
    """Return whether a registry has a document that it lists, whole and unchanged."""
    parts = {f"manifests/{document.digest}": document.manifest}
    parts[f"blobs/{digest_of(document.data)}"] = document.data
    with Registry(remote, access) as registry:
        return all(
            registry.ask("GET", path, refusals=GONE, most=len(data)).data == data for path, data in parts.items()
        )


def read_documents(digest: str, remote: Remote, access: Access) -> list[bytes]:
    """Return what a listed manifest holds, each part whole and unchanged.

    Raises a Fault where it cannot be read, or has more than MOST_PARTS.
    """
    with Registry(remote, access) as registry:
        data = registry.ask("GET", f"manifests/{digest}").data
        require_digest(data, digest, remote.called(digest))
        parts = [parse_descriptor(entry, digest) for entry in list_of(parse_document(data, digest), "layers", digest)]
        if len(parts) > MOST_PARTS or any(part.size > limits.INSIDE.most for part in parts):
            value = f"{remote.called(digest)} (more than {MOST_PARTS} parts or {limits.INSIDE.most} bytes)"
            raise WorldFault("a document is attached that is too large to be read", value, TOO_MANY)
        contents = {part.digest: registry.ask("GET", f"blobs/{part.digest}", most=part.size).data for part in parts}
    for named, content in contents.items():
        require_digest(content, named, remote.called(named))
    return [*contents.values()]


def _read_referrers(registry: Registry, digest: str) -> list[dict[str, Any]] | None:
    """Return what a registry lists by itself, None where it has no interface for that.

    Raises WorldFault for a list without an end, UserFault or WorldFault where whoever asks may not read it.
    """
    entries: list[dict[str, Any]] = []
    path = f"referrers/{digest}"
    for _ in range(MOST_PAGES):
        answer = registry.ask("GET", path, refusals=() if entries else NO_INTERFACE)
        if not answer.ok or answer.media_type != INDEXES[0]:
            return None
        entries += indexes.read_list(answer.data, path)
        if len(entries) > MOST:
            break
        if not answer.following:
            return entries
        path = registry.path(answer.following)
    value = f"{digest} (more than {MOST} documents or {MOST_PAGES} pages)"
    raise WorldFault("a registry lists too many documents of an image", value, TOO_MANY)


def _tagged(registry: Registry, digest: str) -> list[dict[str, Any]]:
    """Return what the tag lists."""
    answer = registry.ask("GET", _referrers_path(digest), refusals=GONE)
    return indexes.read_list(answer.data, _referrers_path(digest)) if answer.ok else []


def _of_cosign(registry: Registry, digest: str) -> list[dict[str, Any]]:
    """Return the descriptors of what cosign has put under tags, which no list names."""
    answers = {end: registry.ask("GET", f"{_referrers_path(digest)}.{end}", refusals=GONE) for end in COSIGN}
    return [
        {**described(answer.media_type, answer.data), "artifactType": f"cosign's .{end}"}
        for end, answer in answers.items()
        if answer.ok
    ]


def _add_entries(registry: Registry, digest: str, entries: Sequence[Mapping[str, Any]]) -> None:
    """Add entries to what the tag lists; what is there, others' too, stays."""
    before = _tagged(registry, digest)
    known = {entry["digest"] for entry in before}
    if new := [entry for entry in entries if entry["digest"] not in known]:
        registry.ask("PUT", _referrers_path(digest), Body(INDEXES[0], indexes.write_list([*before, *new])))


def _referrers_path(digest: str) -> str:
    return f"manifests/{digest.replace(':', '-')}"
