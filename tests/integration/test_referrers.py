"""Documents attached to images, in a registry with the interface for them and in Debian's, which has none."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import requests

from images.check import provenance
from images.context import Access
from images.deliver import transfer
from images.deliver.registry import NOT_TAKEN, Attachment, attach, list_attached
from images.host import limits
from images.host.errors import Fault, WorldFault
from images.oci import indexes, reference
from images.oci.image import Image
from images.oci.manifest import MANIFESTS, digest_of
from images.oci.reference import Remote
from images.store.store import Store
from tests.support import listing_registry, locks
from tests.support.cut_connection import connection_to
from tests.support.fault_server import Reply, answering
from tests.support.finished_images import SMALL, finished
from tests.support.registry import PASSWORD, needed, running
from tests.support.registry import manifest as manifest_at

pytestmark = needed

INDEX = "application/vnd.oci.image.index.v1+json"


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


def test_a_registry_without_the_interface_gets_a_tag_that_lists_both(open_registry: str, store: Store) -> None:
    image = finished(store, SMALL)

    push(image, f"{open_registry}/tag/b:1", store, access(store))
    push(image, f"{open_registry}/tag/b:1", store, access(store))

    rows = listed_by_tag(f"{open_registry}/tag/b", image)
    assert [row["artifactType"] for row in rows] == [provenance.CYCLONEDX, provenance.IN_TOTO]
    assert rows[1]["annotations"] == {provenance.PREDICATE_KEY: "https://slsa.dev/provenance/v1"}
    assert [content(open_registry, "tag/b", row["digest"]) for row in rows] == [one.data for one in documents(image)]
    assert digest_of(manifest_at(f"{open_registry}/tag/b:1") or b"") == image.digest


def test_a_login_opens_the_list_of_a_registry_without_the_interface(store: Store, tmp_path: Path) -> None:
    image = finished(store, SMALL)
    with running(tmp_path / "locked", locked=True) as host:
        known = access(store, f"user:{PASSWORD}", host)
        push(image, f"{host}/a/b:1", store, known)

        assert len(list_attached(image.digest, place_of(f"{host}/a/b"), known)) == 2
        with pytest.raises(Exception, match="wants a login"):
            list_attached(image.digest, place_of(f"{host}/a/b"), access(store))


def test_a_push_that_is_cut_before_its_documents_is_completed_by_the_next(open_registry: str, store: Store) -> None:
    image, known = finished(store, SMALL), access(store)
    transfer.push([image], reference.push_target(f"{open_registry}/cut/b:1"), store, known, "zstd")
    with connection_to(open_registry) as way:
        way.limit = 1
        with pytest.raises(WorldFault) as caught:
            attach(documents(image), place_of(f"{way.host}/cut/b"), store, known)
    assert listed_by_tag(f"{open_registry}/cut/b", image) == []
    assert caught.value.kind not in NOT_TAKEN

    push(image, f"{open_registry}/cut/b:1", store, known)

    assert len(listed_by_tag(f"{open_registry}/cut/b", image)) == 2


@pytest.mark.parametrize("number", [0, 1], ids=["sbom", "provenance"])
def test_a_document_about_another_image_is_refused(open_registry: str, store: Store, number: int) -> None:
    """It gets into the list by the tag, which anybody may write who may push."""
    image, other = finished(store, SMALL), finished(store, {"etc/group": b"root:x:0:\n"})
    known, name = access(store), f"{open_registry}/forged/b{number}"
    forged = dataclasses.replace(documents(other)[number], data=b"{}")
    transfer.push([image], reference.push_target(f"{name}:1"), store, known, "zstd")
    attach([forged], place_of(name), store, known)
    place = f"http://{name.replace('/', '/v2/', 1)}/manifests/{tag_of(image.digest)}"
    rows = indexes.write_list(listed_by_tag(name, other))
    assert requests.put(place, rows, headers={"Content-Type": INDEX}).ok

    with pytest.raises(WorldFault, match="not the one of this build") as caught:
        provenance.compare_attached(documents(image), (), place_of(name), known)

    assert forged.digest in caught.value.value


MOVED = Reply(302, gzip.compress(bytes(64 << 20)), {"Location": "/elsewhere", "Content-Encoding": "gzip"})
DRIP = Reply(200, b"{" * 600, {"Content-Type": INDEX}, pause=0.1)


def test_a_list_that_comes_a_byte_now_and_then_is_no_empty_list(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE", 2.0)
    with answering(DRIP) as host, pytest.raises(WorldFault) as caught:
        list_attached("sha256:" + "0" * 64, place_of(f"{host}/a/b"), access(store))

    assert caught.value.kind == "silent"


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
