"""What is attached to an image: how it is read, listed, and compared; the registry answers in memory."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from images.check import provenance
from images.context import Access
from images.deliver import registry as registry_of
from images.deliver import skopeo
from images.deliver.registry import (
    Attachment,
    Registry,
    attach,
    is_attached,
    list_attached,
    read_documents,
)
from images.deliver.skopeo import OTHERWISE, REFUSALS, Server
from images.host import limits
from images.host.errors import Fault, WorldFault
from images.oci import indexes
from images.oci.manifest import LAYERS, MANIFESTS, described, digest_of, encode
from images.oci.reference import Remote
from images.store.store import Store
from tests.support import locks
from tests.support.finished_images import SMALL, finished
from tests.support.listing_registry import INDEX, TOKEN, Listing, in_memory
from tests.support.web import Reply, Request, answered

HOST = "localhost:5000"
PLACE = Remote(HOST, "a/b", "1")
SIGNATURE = "application/vnd.example.signature"


def access(store: Store, login: str | None = None, host: str = HOST) -> Access:
    """Reach the registry with this login: USER:PASSWORD, or an identity token."""
    auth = base64.b64encode((login if login and ":" in login else "user:").encode()).decode()
    entry = {"auth": auth, **({"identitytoken": login} if login and ":" not in login else {})}
    store.root.mkdir(parents=True, exist_ok=True)
    (store.root / "config.json").write_text(json.dumps({"auths": {host: entry}} if login else {}))
    environ = {"DOCKER_CONFIG": str(store.root), "XDG_RUNTIME_DIR": str(store.root), "HOME": str(store.root)}
    return Access(environ=environ, wait=lambda _: None)


@pytest.fixture
def image(store: Store) -> bytes:
    """Return the manifest of a small image."""
    return finished(store, SMALL).manifest


def documents(image: bytes) -> tuple[Attachment, Attachment]:
    sbom, statement = provenance.write_documents(locks.lock(), '{"components": []}\n', image)
    return sbom, statement


def signature(image: bytes, number: int = 0) -> Attachment:
    return Attachment(image, f"{number}", "signature", SIGNATURE, b"%d" % number)


def tag_of(digest: str) -> str:
    return digest.replace(":", "-")


@pytest.mark.parametrize("login", [None, "user:secret:word", "an-identity-token"])
def test_a_registry_that_lists_gets_no_tag(store: Store, image: bytes, login: str | None) -> None:
    known, registry = access(store, login), Listing(login)
    with in_memory(registry):
        attach(documents(image), PLACE, store, known)
        read = list_attached(digest_of(image), PLACE, known)

    assert [row["digest"] for row in read] == [one.digest for one in documents(image)]
    assert registry.tags == {}


def test_one_that_does_not_gets_a_tag_that_keeps_what_others_have_attached(store: Store, image: bytes) -> None:
    registry, other = Listing(lists=False), signature(image)
    with in_memory(registry) as asked:
        for some in ([other], documents(image), documents(image)[1:], documents(image)):
            attach(some, PLACE, store, access(store))
        read = list_attached(digest_of(image), PLACE, access(store))

    assert read == [one.entry for one in (other, *documents(image))]
    assert json.loads(registry.manifests[registry.tags[tag_of(digest_of(image))]])["manifests"] == read
    assert [request.method for request in asked].count("PUT") == 2, "what is listed is not written again"


STATUSES = (400, 404, 405, 406, 501)  # of registries without the interface


@pytest.mark.parametrize("status", [200, *STATUSES])
def test_an_answer_that_is_no_list_is_one_of_a_registry_that_has_none(store: Store, image: bytes, status: int) -> None:
    registry, answers = Listing(), list[int]()

    def answer(request: Request) -> Reply:
        if "/referrers/" in request.target:
            answers.append(status)
            return Reply(status, b"<html>")
        return Listing.answer(registry, request)

    registry.answer = answer  # type: ignore[method-assign]
    with in_memory(registry):
        attach(documents(image), PLACE, store, access(store))

    assert answers == [status] and [*registry.tags] == [tag_of(digest_of(image))]


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_list_that_may_not_be_read_is_not_taken_for_none(store: Store, image: bytes, status: int) -> None:
    with answered(lambda _: Reply(status)), pytest.raises(Fault):
        list_attached(digest_of(image), PLACE, access(store))


@pytest.mark.parametrize("status", STATUSES)
def test_a_page_that_is_refused_leaves_no_list(store: Store, image: bytes, status: int) -> None:
    """What is on it may be what others are shown."""
    pages = iter([listing_of(1, "/v2/a/b/referrers/x"), Reply(status)])
    with answered(lambda _: next(pages)), pytest.raises(Fault):
        list_attached(digest_of(image), PLACE, access(store))


def test_a_list_is_read_to_its_last_page(store: Store, image: bytes) -> None:
    every = [*(signature(image, number) for number in range(5)), *documents(image)]
    registry = Listing(page=2)
    with in_memory(registry):
        attach(every, PLACE, store, access(store))
        read = list_attached(digest_of(image), PLACE, access(store))
        comparison = provenance.compare_attached(documents(image), (), PLACE, access(store))

    assert [row["digest"] for row in read] == [one.digest for one in every]
    assert comparison.documents == {one.name: one.digest for one in documents(image)}
    assert [other.partition(" ")[0] for other in comparison.others] == [one.digest for one in every[:5]]


def listing_of(count: int, link: str = "") -> Reply:
    rows: list[dict[str, Any]] = [described(MANIFESTS[0], b"%d" % number) for number in range(count)]
    head = {"Link": f'<{link}>; rel="next"'} if link else {}
    return Reply(200, indexes.write_list(rows), {"Content-Type": INDEX, **head})


@pytest.mark.parametrize(
    ("reply", "fact", "requests"),
    [
        (listing_of(1, "/v2/a/b/referrers/x"), "lists too many documents", 100),
        (listing_of(5001, "/v2/a/b/referrers/x"), "lists too many documents", 2),
        (listing_of(10_001), "lists too many documents", 1),
        (listing_of(1, "/v2/another/referrers/x"), "leads to another place", 1),
        (listing_of(1, "http://elsewhere.example/v2/a/b/referrers/x"), "leads to another place", 1),
        (listing_of(1, "//elsewhere.example/v2/a/b/x"), "leads to another place", 1),
    ],
    ids=["pages", "entries", "entries at once", "another repository", "another host", "another host, in short"],
)
def test_a_list_without_an_end_or_to_elsewhere_is_refused(
    store: Store, image: bytes, reply: Reply, fact: str, requests: int
) -> None:
    with answered(lambda _: reply) as asked, pytest.raises(WorldFault, match=fact):
        list_attached(digest_of(image), PLACE, access(store))

    assert len(asked) == requests


@pytest.mark.parametrize("spoiled", ["nothing", "the manifest", "the content", "the manifest is another", "all"])
def test_a_document_is_attached_where_all_of_it_is_there(store: Store, image: bytes, spoiled: str) -> None:
    registry, (sbom, _) = Listing(), documents(image)
    with in_memory(registry):
        attach(documents(image), PLACE, store, access(store))
        if spoiled in ("the manifest", "all"):
            del registry.manifests[sbom.digest]
        if spoiled in ("the content", "all"):
            registry.blobs[digest_of(sbom.data)] = b"{}"
        if spoiled == "the manifest is another":
            registry.manifests[sbom.digest] = sbom.manifest.replace(b"sbom.cdx", b"mine.cdx")

        assert is_attached(sbom, PLACE, access(store)) is (spoiled == "nothing")


@pytest.mark.parametrize("part", ["manifest", "content"])
def test_a_document_that_is_listed_and_not_whole_is_no_document(store: Store, image: bytes, part: str) -> None:
    registry, (sbom, _) = Listing(), documents(image)
    with in_memory(registry):
        attach(documents(image), PLACE, store, access(store))
        rows = registry.attached_to(digest_of(image))
        registry.attached_to = lambda _: rows  # type: ignore[method-assign, assignment]
        if part == "manifest":
            del registry.manifests[sbom.digest]
        else:
            registry.blobs[digest_of(sbom.data)] = b"{}"

        with pytest.raises(WorldFault, match="that the registry does not have") as caught:
            provenance.compare_attached(documents(image), (), PLACE, access(store))

    assert sbom.digest in caught.value.value


def test_what_is_not_attached_is_said_to_be_none(store: Store, image: bytes) -> None:
    _, statement = documents(image)
    with in_memory(Listing()):
        attach([statement], PLACE, store, access(store))
        attached = provenance.compare_attached(documents(image), (), PLACE, access(store))

    assert attached == provenance.Attached({"sbom": None, "provenance": statement.digest}, [])


BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"


def sealed(image: bytes, about: str, predicate: object = (), kind: str = BUNDLE) -> Attachment:
    """Return a statement that somebody has signed."""
    payload = base64.b64encode(json.dumps({"predicateType": about, "predicate": predicate}).encode()).decode()
    data = json.dumps({"dsseEnvelope": {"payload": payload, "signatures": [{"sig": "AA=="}]}}).encode()
    return Attachment(image, "bundle", "bundle.json", kind, data)


SEALED: dict[str, Callable[[bytes], Attachment]] = {
    "who built it": lambda image: sealed(image, "https://slsa.dev/provenance/v1"),
    "our SBOM": lambda image: sealed(image, "https://cyclonedx.org/bom", {"components": []}),
    "a signature": signature,
    "another SBOM, signed": lambda image: sealed(image, "https://cyclonedx.org/bom", {"components": [1]}),
    "a bundle of nothing": lambda image: dataclasses.replace(sealed(image, ""), data=b"{}"),
    "another SBOM": lambda image: dataclasses.replace(documents(image)[0], data=b"{}"),
    "another provenance": lambda image: dataclasses.replace(documents(image)[1], data=b"{}"),
}


@pytest.mark.parametrize("kind", SEALED)
@pytest.mark.parametrize("is_above", [False, True], ids=["of the image", "of an index above"])
def test_what_is_taken_for_a_document_of_the_build_is_refused(
    store: Store, image: bytes, kind: str, is_above: bool
) -> None:
    index = indexes.write_list([described(MANIFESTS[0], image)])
    more = SEALED[kind](index if is_above else image)
    above = (digest_of(index),)
    with in_memory(Listing()):
        attach(documents(image), PLACE, store, access(store))
        attach([more], PLACE, store, access(store))
        if [*SEALED].index(kind) > 2:
            with pytest.raises(WorldFault, match="not the one of this build") as caught:
                provenance.compare_attached(documents(image), above, PLACE, access(store))
            assert more.digest in caught.value.value
            return
        attached = provenance.compare_attached(documents(image), above, PLACE, access(store))

    assert [other.partition(" ")[0] for other in attached.others] == [more.digest]


@pytest.mark.parametrize("end", ["sig", "att", "sbom"])
def test_what_cosign_has_put_beside_an_image_is_found(store: Store, image: bytes, end: str) -> None:
    registry = Listing()
    with in_memory(registry):
        registry.manifests[digest_of(image)] = image
        registry.tags[f"{tag_of(digest_of(image))}.{end}"] = digest_of(image)
        read = list_attached(digest_of(image), PLACE, access(store))

    assert read == [{**described(MANIFESTS[0], image), "artifactType": f"cosign's .{end}"}]


def manifest_of(*parts: bytes) -> bytes:
    layers = [described(LAYERS[0], data) for data in parts]
    return encode({"schemaVersion": 2, "mediaType": MANIFESTS[0], "layers": layers})


@pytest.mark.parametrize(
    ("count", "size", "fits"),
    [(2, 2, True), (20, 2, True), (21, 2, False), (2, limits.INSIDE.most + 1, False)],
)
def test_what_is_attached_is_read_within_limits(store: Store, count: int, size: int, fits: bool) -> None:
    long = bytes(5 << 20)  # more than a manifest may have
    registry, parts = Listing(), [long, *(b"%02d" % number for number in range(1, count))]
    registry.blobs = {digest_of(part): part for part in parts}
    layers = [described(LAYERS[0], part) for part in parts]
    layers[-1]["size"] = size
    manifest = encode({"schemaVersion": 2, "mediaType": MANIFESTS[0], "layers": layers})
    registry.manifests[digest_of(manifest)] = manifest
    with in_memory(registry):
        if fits:
            assert read_documents(digest_of(manifest), PLACE, access(store)) == parts
            return
        with pytest.raises(WorldFault, match="too large to be read"):
            read_documents(digest_of(manifest), PLACE, access(store))


@pytest.mark.parametrize("is_manifest", [True, False])
def test_what_is_attached_is_what_its_digest_says(store: Store, is_manifest: bool) -> None:
    manifest, registry = manifest_of(b"a", b"b"), Listing()
    registry.blobs = {digest_of(b"a"): b"a", digest_of(b"b"): b"b" if is_manifest else b"c"}
    registry.manifests = {digest_of(manifest): manifest_of(b"a") if is_manifest else manifest}

    with in_memory(registry), pytest.raises(WorldFault):
        read_documents(digest_of(manifest), PLACE, access(store))


# How a document gets there: by skopeo, and where its words do not tell why not, the registry is asked.


@pytest.mark.parametrize(
    ("kind", "has_content", "is_put"),
    [("otherwise", True, True), ("otherwise", False, False), ("denied", True, False), ("silent", True, False)],
)
def test_a_document_that_skopeo_did_not_bring_is_put_where_its_content_has_come(
    store: Store, image: bytes, kind: str, has_content: bool, is_put: bool
) -> None:
    registry, (sbom, _) = Listing(), documents(image)
    row = next(row for row in (*REFUSALS, OTHERWISE) if row.kind == kind)

    def push(*_: object) -> None:
        raise skopeo.refusal_fault(row, "it", HOST)

    with in_memory(registry), mock.patch.object(Server, "push", push):
        if has_content:
            registry.blobs[digest_of(sbom.data)] = sbom.data
        if is_put:
            attach([sbom], PLACE, store, access(store))
        else:
            with pytest.raises(Fault, match=row.fact):
                attach([sbom], PLACE, store, access(store))

    assert registry.manifests == ({sbom.digest: sbom.manifest} if is_put else {})


# Logins and answers.


@pytest.mark.parametrize("host", [HOST, "registry.example"])
@pytest.mark.parametrize(
    ("challenge", "login", "sent"),
    [
        ("Basic realm=x", "user:secret", "Basic dXNlcjpzZWNyZXQ="),
        ("basic", "user:secret", "Basic dXNlcjpzZWNyZXQ="),
        ("Basic realm=x", None, None),
        ('Bearer realm="https://auth.example/token",service="s",scope="r:pull"', None, f"Bearer {TOKEN}"),
        ('bearer realm="https://auth.example/token"', "user:secret", f"Bearer {TOKEN}"),
        ('Bearer realm="http://auth.example/token"', "user:secret", "plain"),
        ('Bearer realm="ftp://auth.example/token"', "user:secret", None),
        ('Bearer realm="/token"', "user:secret", None),
        ("Bearer", "user:secret", None),
        ('Digest realm="https://auth.example/token"', "user:secret", None),
        ("", "user:secret", None),
    ],
)
def test_a_login_is_sent_as_the_registry_asks_and_never_from_tls_to_none(
    store: Store, host: str, challenge: str, login: str | None, sent: str | None
) -> None:
    def answer(request: Request) -> Reply:
        if request.path.startswith("/token"):
            return Reply(200, json.dumps({"token": TOKEN}).encode())
        return Reply(200 if "Authorization" in request.headers else 401, b"{}", {"Www-Authenticate": challenge})

    expected = (f"Bearer {TOKEN}" if host == HOST else None) if sent == "plain" else sent
    remote, known = Remote(host, "a/b", "1"), access(store, login, host)
    with answered(answer) as asked, Registry(remote, known) as registry:
        registry.ask("GET", "manifests/1", refusals=(401,))

    assert asked[-1].headers.get("Authorization") == expected
    assert "Authorization" not in asked[0].headers
    tokens = [request for request in asked if request.path == "/token"]
    assert len(tokens) == (expected == f"Bearer {TOKEN}")
    for request in tokens:
        assert request.headers.get("Authorization") == ("Basic dXNlcjpzZWNyZXQ=" if login else None)
        assert ("service=s&scope=r%3Apull" in request.target) == ("scope" in challenge)


@pytest.mark.parametrize(
    ("certificate", "variables", "trusted"),
    [
        (None, {}, True),
        (None, {"SSL_CERT_FILE": "/last", "REQUESTS_CA_BUNDLE": "/first"}, "/first"),
        ("/pips", {}, "/pips"),
        ("/pips", {"REQUESTS_CA_BUNDLE": "/first"}, "/pips"),
    ],
)
def test_a_registry_is_trusted_by_pips_certificate_else_by_that_of_a_variable(
    store: Store, monkeypatch: pytest.MonkeyPatch, certificate: str | None, variables: dict[str, str], trusted: object
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)  # requests reads them as well
    known = access(store)
    known = dataclasses.replace(known, certificate=certificate, environ={**known.environ, **variables})
    with answered(lambda _: Reply(200)) as asked, Registry(PLACE, known) as registry:
        registry.ask("GET", "manifests/1")

    assert [request.verify for request in asked] == [trusted]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"["), (200, b"[]"), (200, b"{}"), (200, b'{"token": ""}'), (200, b"[" * 100_000),
        (200, b'"' * (limits.TOKEN.most + 1)), (403, b'{"token": "a"}'), (403, b"<html>"),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_token_that_is_none_is_not_sent(store: Store, body: bytes, status: int) -> None:
    def answer(request: Request) -> Reply:
        if request.path == "/token":
            return Reply(status, body)
        return Reply(401, b"", {"Www-Authenticate": f'Bearer realm="http://{HOST}/token"'})

    with answered(answer) as asked, pytest.raises(Fault), Registry(PLACE, access(store)) as registry:
        registry.ask("GET", "manifests/1")
    assert [request for request in asked if "Authorization" in request.headers] == []


@pytest.mark.parametrize("status", [401, 404])
def test_a_refusal_may_be_longer_than_what_was_asked_for(store: Store, image: bytes, status: int) -> None:
    """A proxy answers with a whole page, which is no document that is too long."""
    document = documents(image)[0]
    with answered(lambda _: Reply(status, b"<html>" * 10_000)):
        if status == 404:
            assert not is_attached(document, PLACE, access(store))
            return
        with pytest.raises(Fault, match="the registry wants a login"):
            is_attached(document, PLACE, access(store))


@pytest.mark.parametrize(
    ("data", "most", "said"),
    [
        (gzip.compress(b"x" * 100), 100, None),
        (gzip.compress(b"x" * 100), 99, "a download is too long"),
        (gzip.compress(bytes(1 << 24)), 1 << 16, "a download is too long"),
        (b"x" * 100, 1000, "a transfer from or to a registry failed"),
    ],
    ids=["as many", "one more", "some megabytes", "no gzip"],
)
def test_an_answer_in_gzip_is_unpacked_within_limits(store: Store, data: bytes, most: int, said: str | None) -> None:
    packed = Reply(200, data, {"Content-Encoding": "GZip"})
    with answered(lambda _: packed) as asked, Registry(PLACE, access(store)) as registry:
        if said is None:
            assert registry.ask("GET", "blobs/1", most=most).data == b"x" * 100
        else:
            with pytest.raises(Fault, match=said):
                registry.ask("GET", "blobs/1", most=most)
    assert asked[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("size", [99, 100, 101])
def test_an_answer_has_as_many_bytes_as_were_asked_for(store: Store, size: int) -> None:
    with answered(lambda _: Reply(200, bytes(size))), Registry(PLACE, access(store)) as registry:
        if size <= 100:
            assert registry.ask("GET", "blobs/1", most=100).data == bytes(size)
        else:
            with pytest.raises(WorldFault, match="too long"):
                registry.ask("GET", "blobs/1", most=100)


def test_a_registry_that_takes_too_long_for_all_is_silent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE", -1.0)
    with (
        answered(lambda _: Reply(200, b"{}")),
        Registry(PLACE, access(store)) as registry,
        pytest.raises(Fault, match="does not answer") as caught,
    ):
        registry.ask("GET", "manifests/1")
    assert caught.value.kind == "silent"


def test_a_line_that_breaks_is_a_failure_of_the_transfer(store: Store) -> None:
    with (
        answered(lambda _: None),
        Registry(PLACE, access(store)) as registry,
        pytest.raises(WorldFault, match="a transfer from or to a registry failed") as caught,
    ):
        registry.ask("GET", f"manifests/{'x' * 300}")
    assert "hung up" in caught.value.value and "x" * 201 not in caught.value.value


def test_a_netrc_is_not_read(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine localhost login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with answered(lambda _: Reply(200, b"{}")) as asked, Registry(PLACE, access(store)) as registry:
        registry.ask("GET", "manifests/1")
    assert "Authorization" not in asked[0].headers


@pytest.mark.parametrize(
    ("host", "address"),
    [("docker.io", "https://registry-1.docker.io"), ("host", "https://host"), (HOST, f"http://{HOST}")],
)
def test_a_registry_is_asked_at_its_address_for_what_is_read_and_written(store: Store, host: str, address: str) -> None:
    with answered(lambda _: Reply(200)) as asked, Registry(Remote(host, "a/b", "1"), access(store)) as registry:
        registry.ask("GET", "manifests/1")
        registry.ask("PUT", "manifests/1", registry_of.Body("text/x", b"text"))

    assert [(one.method, one.target, one.body) for one in asked] == [
        ("GET", f"{address}/v2/a/b/manifests/1", b""), ("PUT", f"{address}/v2/a/b/manifests/1", b"text"),
    ]  # fmt: skip
    assert {one.headers["Accept"] for one in asked} == {f"{INDEX}, {MANIFESTS[0]}"}
    assert [one.headers.get("Content-Type") for one in asked] == [None, "text/x"]


def test_a_document_is_a_layout_of_its_own(tmp_path: Path, image: bytes) -> None:
    document = dataclasses.replace(documents(image)[0], annotations=(("a", "1"),))
    document.write_layout(tmp_path / "layout")

    parts = {digest_of(data).removeprefix("sha256:"): data for data in (b"{}", document.data, document.manifest)}
    assert {path.name: path.read_bytes() for path in (tmp_path / "layout").rglob("*") if path.is_file()} == {
        **parts, "oci-layout": indexes.LAYOUT, "index.json": indexes.write_list([document.entry]),
    }  # fmt: skip
    manifest = json.loads(document.manifest)
    assert manifest["annotations"] == document.entry["annotations"] == {"a": "1"}
    assert manifest["layers"][0]["annotations"] == {"org.opencontainers.image.title": document.filename}
    assert manifest["subject"]["digest"] == digest_of(image)
