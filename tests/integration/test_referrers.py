"""Documents attached to images, in a registry with the interface for them and in Debian's, which has none."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from images.check import provenance
from images.context import Access
from images.deliver import transfer
from images.deliver.registry import NOT_TAKEN, Attachment, attach, is_attached, list_attached
from images.host import limits
from images.host.errors import Fault, WorldFault
from images.oci import indexes, reference
from images.oci.image import Image
from images.oci.manifest import MANIFESTS, described, digest_of
from images.oci.reference import Remote
from images.store.store import Store
from tests.support import listing_registry, locks
from tests.support.cut_connection import connection_to
from tests.support.fault_server import Reply, answering
from tests.support.finished_images import SMALL, finished
from tests.support.registry import PASSWORD, needed, running
from tests.support.registry import manifest as manifest_at
from tests.support.web import Request, listening

pytestmark = needed

INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a registry without the interface."""
    with running(tmp_path_factory.mktemp("registry") / "open") as host:
        yield host


def access(store: Store, login: str | None = None, host: str = "") -> Access:
    """Reach registries with this login, or without one."""
    if login and ":" not in login:
        entry = {"auth": base64.b64encode(b"user:").decode(), "identitytoken": login}
    else:
        entry = {"auth": base64.b64encode((login or "").encode()).decode()}
    known = {"auths": {host: entry}} if login else {}
    store.root.mkdir(parents=True, exist_ok=True)
    (store.root / "config.json").write_text(json.dumps(known))
    environ = {"PATH": os.environ["PATH"], "DOCKER_CONFIG": str(store.root), "XDG_RUNTIME_DIR": str(store.root)}
    return Access(environ=environ, wait=lambda _: None)


def documents(image: Image) -> tuple[Attachment, ...]:
    return provenance.write_documents(locks.lock(), '{"components": []}\n', image.manifest)


def place_of(name: str) -> Remote:
    return reference.push_target(name)


def push(image: Image, name: str, store: Store, known: Access) -> None:
    transfer.push([image], reference.push_target(name), store, known, "zstd")
    attach(documents(image), place_of(name), store, known)


def tag_of(digest: str) -> str:
    return digest.replace(":", "-")


def listed_by_tag(name: str, image: Image) -> list[dict[str, Any]]:
    """Return what the tag lists, as any client reads it."""
    host, _, path = name.partition("/")
    answer = requests.get(f"http://{host}/v2/{path}/manifests/{tag_of(image.digest)}", headers={"Accept": INDEX})
    return list(answer.json()["manifests"]) if answer.ok else []


def content(host: str, path: str, digest: str) -> bytes:
    """Return the document of a manifest, as `oras pull` finds it."""
    accept = {"Accept": MANIFESTS[0]}
    written = requests.get(f"http://{host}/v2/{path}/manifests/{digest}", headers=accept).json()
    return requests.get(f"http://{host}/v2/{path}/blobs/{written['layers'][0]['digest']}").content


@pytest.mark.parametrize("login", [None, "user:secret:word", "an-identity-token"])
def test_a_registry_with_the_interface_lists_both_and_gets_no_tag(store: Store, login: str | None) -> None:
    image = finished(store, SMALL)
    with listing_registry.running(login) as registry:
        known = access(store, login, registry.host)
        push(image, f"{registry.host}/a/b:1", store, known)
        attachments = registry.attached_to(image.digest)
        read = list_attached(image.digest, place_of(f"{registry.host}/a/b:1"), known)

    assert [row["artifactType"] for row in attachments] == [provenance.CYCLONEDX, provenance.IN_TOTO]
    assert [row["digest"] for row in read] == [one.digest for one in documents(image)]
    assert list(registry.tags) == ["1"]


def test_a_registry_without_the_interface_gets_a_tag_that_lists_both(plain: str, store: Store) -> None:
    image = finished(store, SMALL)

    push(image, f"{plain}/tag/b:1", store, access(store))
    push(image, f"{plain}/tag/b:1", store, access(store))

    rows = listed_by_tag(f"{plain}/tag/b", image)
    assert [row["artifactType"] for row in rows] == [provenance.CYCLONEDX, provenance.IN_TOTO]
    assert rows[1]["annotations"] == {provenance.PREDICATE_KEY: "https://slsa.dev/provenance/v1"}
    assert [content(plain, "tag/b", row["digest"]) for row in rows] == [one.data for one in documents(image)]
    assert digest_of(manifest_at(f"{plain}/tag/b:1") or b"") == image.digest


def test_what_others_have_attached_stays_in_the_list(plain: str, store: Store) -> None:
    image, known = finished(store, SMALL), access(store)
    name = f"{plain}/others/b"
    other = Attachment(image.manifest, "signature", "signature", "application/vnd.example.signature", b"signed")
    transfer.push([image], reference.push_target(f"{name}:1"), store, known, "zstd")
    attach([other], place_of(name), store, known)

    push(image, f"{name}:1", store, known)

    kinds = [row["artifactType"] for row in listed_by_tag(name, image)]
    assert kinds == [other.media_type, provenance.CYCLONEDX, provenance.IN_TOTO]


def test_a_login_opens_the_list_of_a_registry_without_the_interface(store: Store, tmp_path: Path) -> None:
    image = finished(store, SMALL)
    with running(tmp_path / "locked", locked=True) as host:
        known = access(store, f"user:{PASSWORD}", host)
        push(image, f"{host}/a/b:1", store, known)

        assert len(list_attached(image.digest, place_of(f"{host}/a/b"), known)) == 2
        with pytest.raises(Exception, match="wants a login"):
            list_attached(image.digest, place_of(f"{host}/a/b"), access(store))


def test_a_push_that_is_cut_before_its_documents_is_completed_by_the_next(plain: str, store: Store) -> None:
    image, known = finished(store, SMALL), access(store)
    transfer.push([image], reference.push_target(f"{plain}/cut/b:1"), store, known, "zstd")
    with connection_to(plain) as way:
        way.limit = 1
        with pytest.raises(WorldFault) as caught:
            attach(documents(image), place_of(f"{way.host}/cut/b"), store, known)
    assert listed_by_tag(f"{plain}/cut/b", image) == []
    assert caught.value.kind not in NOT_TAKEN

    push(image, f"{plain}/cut/b:1", store, known)

    assert len(listed_by_tag(f"{plain}/cut/b", image)) == 2


def test_attached_documents_are_those_of_a_build(plain: str, store: Store) -> None:
    image, known, name = finished(store, SMALL), access(store), f"{plain}/compared/b"
    transfer.push([image], reference.push_target(f"{name}:1"), store, known, "zstd")
    _, statement = documents(image)
    attach([statement], place_of(name), store, known)

    comparison = provenance.compare_attached(documents(image), (), place_of(name), known)

    assert comparison == provenance.Attached({"sbom": None, "provenance": statement.digest}, [])


@pytest.mark.parametrize("number", [0, 1], ids=["sbom", "provenance"])
@pytest.mark.parametrize("is_about_it", [True, False])
def test_a_document_of_another_build_is_refused(plain: str, store: Store, number: int, is_about_it: bool) -> None:
    """One that is about another image gets into the list by the tag, which anybody may write who may push."""
    image, other = finished(store, SMALL), finished(store, {"etc/group": b"root:x:0:\n"})
    known, name, about = access(store), f"{plain}/forged/b{number}{is_about_it:d}", image if is_about_it else other
    forged = dataclasses.replace(documents(about)[number], data=b"{}")
    transfer.push([image], reference.push_target(f"{name}:1"), store, known, "zstd")
    attach([forged], place_of(name), store, known)
    place = f"http://{name.replace('/', '/v2/', 1)}/manifests/{tag_of(image.digest)}"
    rows = indexes.write_list(listed_by_tag(name, about))
    assert requests.put(place, rows, headers={"Content-Type": INDEX}).ok

    with pytest.raises(WorldFault, match="not the one of this build") as caught:
        provenance.compare_attached(documents(image), (), place_of(name), known)

    assert forged.digest in caught.value.value


def test_a_list_is_read_to_its_last_page(store: Store) -> None:
    image = finished(store, SMALL)
    signatures = [
        Attachment(image.manifest, f"{n}", "signature", "application/vnd.example.signature", b"%d" % n)
        for n in range(5)
    ]
    with listing_registry.running() as registry:
        registry.page = 2
        known, name = access(store), f"{registry.host}/a/b:1"
        transfer.push([image], reference.push_target(name), store, known, "zstd")
        attach(signatures, place_of(name), store, known)
        push(image, name, store, known)

        comparison = provenance.compare_attached(documents(image), (), place_of(name), known)

    assert comparison.documents == {one.name: one.digest for one in documents(image)}
    assert [other.partition(" ")[0] for other in comparison.others] == [one.digest for one in signatures]


BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"


def test_what_others_have_signed_is_named(store: Store) -> None:
    """As GitHub attests who built it, and signs the SBOM of the build."""
    image = finished(store, SMALL)
    statements: list[dict[str, object]] = [
        {"predicateType": "https://slsa.dev/provenance/v1", "predicate": {}},
        {"predicateType": "https://cyclonedx.org/bom", "predicate": {"components": []}},
    ]
    with listing_registry.running() as registry:
        known, name = access(store), f"{registry.host}/a/b:1"
        push(image, name, store, known)
        for number, statement in enumerate(statements):
            payload = base64.b64encode(json.dumps(statement).encode()).decode()
            bundle = json.dumps({"dsseEnvelope": {"payload": payload, "signatures": [{"sig": "AA=="}]}}).encode()
            said = (("dev.sigstore.bundle.predicateType", str(statement["predicateType"])),)
            signed = Attachment(image.manifest, f"{number}", "bundle.json", BUNDLE, bundle, said)
            attach([signed], place_of(name), store, known)

        comparison = provenance.compare_attached(documents(image), (), place_of(name), known)

    assert [BUNDLE in other for other in comparison.others] == [True, True]


def second_of(about: Image) -> dict[str, Attachment]:
    """Return documents that are not those of a build, and that others take for them."""
    sbom, statement = documents(about)
    return {
        "an SBOM": dataclasses.replace(sbom, data=b"{}"),
        "an SBOM in other letters": dataclasses.replace(sbom, media_type="application/vnd.CycloneDX+JSON; version=1.5"),
        "an SBOM of another kind": dataclasses.replace(sbom, media_type="application/spdx+json"),
        "an SBOM in an envelope": dataclasses.replace(sbom, media_type="application/vnd.dsse.envelope.v1+json"),
        "a bundle of nothing": dataclasses.replace(sbom, media_type=BUNDLE, data=b"{}"),
        "a provenance": dataclasses.replace(statement, data=b"{}"),
        "a provenance without a word on it": dataclasses.replace(statement, annotations=()),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "an SBOM", "an SBOM in other letters", "an SBOM of another kind", "an SBOM in an envelope",
        "a bundle of nothing", "a provenance", "a provenance without a word on it",
    ],
)  # fmt: skip
def test_a_second_document_beside_the_one_of_the_build_is_refused(store: Store, kind: str) -> None:
    image = finished(store, SMALL)
    false = second_of(image)[kind]
    with listing_registry.running() as registry:
        known, name = access(store), f"{registry.host}/a/b:1"
        push(image, name, store, known)
        attach([false], place_of(name), store, known)

        with pytest.raises(WorldFault, match="not the one of this build") as caught:
            provenance.compare_attached(documents(image), (), place_of(name), known)

    assert false.digest in caught.value.value


def test_a_false_document_of_the_index_above_is_refused(plain: str, store: Store) -> None:
    image, known, name = finished(store, SMALL), access(store), f"{plain}/above/b"
    push(image, f"{name}:1", store, known)
    place = f"http://{name.replace('/', '/v2/', 1)}/manifests/"
    index = indexes.write_list([described(MANIFESTS[0], image.manifest)])
    about = digest_of(index)
    false = dataclasses.replace(documents(image)[0], data=b"{}")
    attach([false], place_of(name), store, known)
    rows = [row for row in listed_by_tag(name, image) if row["digest"] != false.digest]
    for tag, entries in ((tag_of(image.digest), rows), (tag_of(about), [false.entry])):
        assert requests.put(place + tag, indexes.write_list(entries), headers={"Content-Type": INDEX}).ok

    assert provenance.compare_attached(documents(image), (), place_of(name), known).others == []
    with pytest.raises(WorldFault, match="not the one of this build") as caught:
        provenance.compare_attached(documents(image), (about,), place_of(name), known)

    assert false.digest in caught.value.value


@pytest.mark.parametrize("status", [401, 404])
def test_a_refusal_may_be_longer_than_what_was_asked_for(store: Store, status: int) -> None:
    """A proxy answers with a whole page, which is no document that is too long."""
    document = documents(finished(store, SMALL))[0]
    with answering(Reply(status, b"<html>" * 1000)) as host:
        if status == 404:
            assert not is_attached(document, place_of(f"{host}/a/b"), access(store))
            return
        with pytest.raises(Fault, match="the registry wants a login"):
            is_attached(document, place_of(f"{host}/a/b"), access(store))


def test_a_token_that_is_nested_too_deep_is_none(store: Store) -> None:
    def answer(request: Request) -> Reply:
        if request.path == "/token":
            return Reply(200, b"[" * 500_000)
        return Reply(401, b"", {"WWW-Authenticate": f'Bearer realm="http://{request.headers["Host"]}/token"'})

    with listening(answer) as host, pytest.raises(Fault, match="a transfer from or to a registry failed"):
        list_attached("sha256:" + "0" * 64, place_of(f"{host}/a/b"), access(store))


@pytest.mark.parametrize("number", [0, 1], ids=["manifest", "content"])
def test_a_document_that_is_listed_and_not_there_is_refused(store: Store, number: int) -> None:
    image = finished(store, SMALL)
    sbom, _ = documents(image)
    with listing_registry.running() as registry:
        known, name = access(store), f"{registry.host}/a/b:1"
        push(image, name, store, known)
        rows = registry.attached_to(image.digest)
        if number:
            registry.blobs[digest_of(sbom.data)] = b"{}"
        else:
            registry.attached_to = lambda _: rows  # type: ignore[method-assign, assignment]
            del registry.manifests[sbom.digest]

        with pytest.raises(WorldFault, match="that the registry does not have") as caught:
            provenance.compare_attached(documents(image), (), place_of(name), known)

    assert sbom.digest in caught.value.value


def test_what_cosign_has_put_beside_an_image_is_named(plain: str, store: Store) -> None:
    image, known, name = finished(store, SMALL), access(store), f"{plain}/cosign/b"
    push(image, f"{name}:1", store, known)
    place = f"http://{name.replace('/', '/v2/', 1)}/manifests/{tag_of(image.digest)}.sig"
    assert requests.put(place, image.manifest, headers={"Content-Type": MANIFESTS[0]}).ok

    comparison = provenance.compare_attached(documents(image), (), place_of(name), known)

    assert comparison.others == [f"{image.digest} (cosign's .sig)"]


ENDLESS = Reply(200, indexes.write_list([]), {"Content-Type": INDEX, "Link": '</v2/a/b/referrers/x>; rel="next"'})
ELSEWHERE = Reply(200, indexes.write_list([]), {"Content-Type": INDEX, "Link": '<http://localhost:1/>; rel="next"'})
BOMB = Reply(200, gzip.compress(bytes(64 << 20)), {"Content-Type": INDEX, "Content-Encoding": "gzip"})
MOVED = Reply(302, gzip.compress(bytes(64 << 20)), {"Location": "/elsewhere", "Content-Encoding": "gzip"})
DRIP = Reply(200, b"{" * 600, {"Content-Type": INDEX}, pause=0.1)


@pytest.mark.parametrize(
    ("reply", "fact"),
    [
        pytest.param(ENDLESS, "a registry lists too many documents of an image", id="pages in a circle"),
        pytest.param(ELSEWHERE, "a registry leads to another place", id="a page of another host"),
        pytest.param(BOMB, "a download is too long", id="a bomb in gzip"),
        pytest.param(Reply(200, bytes(5 << 20)), "a download is too long", id="megabytes"),
        pytest.param(DRIP, "the registry does not answer", id="a byte now and then"),
        pytest.param(Reply(403), "the registry wants a login, or another one", id="not for everybody"),
        pytest.param(Reply(500), "a transfer from or to a registry failed", id="an error of the server"),
    ],
)
def test_a_list_that_cannot_be_read_to_its_end_is_no_empty_list(
    store: Store, reply: Reply, fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PATIENCE", 8.0)
    with answering(reply) as host, pytest.raises(Fault) as caught:
        list_attached("sha256:" + "0" * 64, place_of(f"{host}/a/b"), access(store))

    assert caught.value.fact == fact


def test_the_body_of_a_redirect_is_not_read(store: Store) -> None:
    tracemalloc.start()
    with answering(MOVED) as host, pytest.raises(Fault):
        list_attached("sha256:" + "0" * 64, place_of(f"{host}/a/b"), access(store))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 16 << 20


def test_a_page_in_place_of_a_registry_is_no_push(store: Store) -> None:
    with (
        answering(Reply(200, b"<html>login</html>")) as host,
        pytest.raises(WorldFault, match="a manifest is not JSON") as caught,
    ):
        push(finished(store, SMALL), f"{host}/a/b:1", store, access(store))

    assert "<html>login" in caught.value.value
