"""Images that are pushed to a registry: whole, with the digest that is printed, or refused."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import pytest

from images.check import provenance
from images.context import Access
from images.deliver import transfer
from images.deliver.registry import NOT_TAKEN, attach
from images.host.errors import Damaged, Fault, WorldFault
from images.oci import reference
from images.oci.compression import pack_layer
from images.oci.image import Image
from images.store.store import Store
from tests.support import locks
from tests.support.cut_connection import connection_to
from tests.support.finished_images import SMALL, finished
from tests.support.listing_registry import Listing
from tests.support.registry import manifest, needed
from tests.support.stand_in import Files, digest
from tests.support.web import Reply, Request, listening

pytestmark = needed

BIG: Files = {"big": random.Random(1).randbytes(3_000_000)}


def new_to_every_registry(seed: int) -> Files:
    """Return a layer that no other test pushes.

    skopeo remembers which repositories of a host and port have a layer, and takes it from there instead of sending it.
    """
    return {"big": random.Random(seed).randbytes(3_000_000)}


def push(image: Image, text: str, store: Store, compression: str = "zstd") -> None:
    environ = {"PATH": os.environ["PATH"], "DOCKER_CONFIG": str(store.root)}
    access = Access(environ=environ, wait=lambda _: None)
    transfer.push([image], reference.push_target(text), store, access, compression)


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_the_registry_has_the_digest_that_is_printed(open_registry: str, store: Store, compression: str) -> None:
    image = finished(store, BIG, SMALL, compression=compression)

    push(image, f"{open_registry}/a/{compression}:1", store, compression)

    pushed = manifest(f"{open_registry}/a/{compression}:1")
    assert pushed and digest(pushed) == image.digest
    assert {row["mediaType"].rpartition("+")[2] for row in json.loads(pushed)["layers"]} == {compression}
    assert list((store.root / "aside").iterdir()) == []


def test_only_what_is_missing_travels(open_registry: str, store: Store) -> None:
    big = new_to_every_registry(5)
    first, second = finished(store, big, SMALL), finished(store, big, SMALL, {"etc/group": b"root:x:0:\n"})
    with connection_to(open_registry) as way:
        push(first, f"{way.host}/b/c:1", store)
        whole, way.sent = way.sent, 0

        push(second, f"{way.host}/b/c:2", store)
        more, way.sent = way.sent, 0
        push(second, f"{way.host}/b/c:3", store)

    assert whole > 3_000_000
    assert more < 50_000 and way.sent < more
    assert digest(manifest(f"{open_registry}/b/c:3") or b"") == second.digest


def test_no_tag_is_on_half_an_image_and_the_next_push_goes_on(open_registry: str, store: Store) -> None:
    image = finished(store, new_to_every_registry(2), new_to_every_registry(3))
    with connection_to(open_registry) as way:
        way.limit = 4_000_000
        with pytest.raises(WorldFault, match="a transfer from or to a registry failed") as caught:
            push(image, f"{way.host}/d/e:1", store)
        assert manifest(f"{open_registry}/d/e:1") is None
        way.limit = way.sent = 0

        push(image, f"{way.host}/d/e:1", store)

    assert way.host in caught.value.value and caught.value.remedy
    assert digest(manifest(f"{open_registry}/d/e:1") or b"") == image.digest
    assert list((store.root / "aside").iterdir()) == []


def test_a_layer_that_is_damaged_in_place_is_removed(open_registry: str, store: Store) -> None:
    image = finished(store, new_to_every_registry(7))
    place = store.place(pack_layer(store, image.layers[0], "zstd")[0])
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)

    with pytest.raises(Damaged, match=str(place)):
        push(image, f"{open_registry}/h/damaged:1", store)
    assert not place.exists()


def test_plain_http_is_for_this_machine_only(open_registry: str, store: Store) -> None:
    image = finished(store, SMALL)

    with pytest.raises(WorldFault, match="plain HTTP"):
        push(image, f"{open_registry.replace('127.0.0.1', '0.0.0.0')}/a/b:1", store)


@dataclass
class Refusing(Listing):
    """A registry that refuses documents, or to replace a tag, by this status and error."""

    what: str = ""
    status: int = 0
    code: str = ""
    message: str = ""

    def answer(self, request: Request) -> Reply:
        """Answer one request."""
        is_put = request.method == "PUT" and "/manifests/" in request.path
        name = request.path.rpartition("/")[2]
        refused = b'"subject"' in request.body if self.what == "documents" else name in self.tags
        if is_put and refused:
            error = {"code": self.code, "message": self.message}
            return Reply(self.status, json.dumps({"errors": [error]}).encode(), {"Content-Type": "application/json"})
        return super().answer(request)


@contextmanager
def serving(*rule: object) -> Iterator[Refusing]:
    """Serve one on a free port, which `host` then names."""
    what, status, code, message = rule
    registry = Refusing(what=str(what), status=int(str(status)), code=str(code), message=str(message))
    with listening(registry.answer) as registry.host:
        yield registry


def access() -> Access:
    return Access(environ={"PATH": os.environ["PATH"]}, wait=lambda _: None)


@pytest.mark.parametrize(
    ("status", "code", "message", "is_note"),
    [
        (405, "UNSUPPORTED", "The operation is unsupported.", True),
        (400, "MANIFEST_INVALID", "manifest invalid", True),
        (422, "OF_ITS_OWN", "no subject here", True),
        (403, "DENIED", "requested access to the resource is denied", True),
        (503, "UNKNOWN", "in a moment", False),
    ],
)
def test_a_refusal_of_documents_is_told_from_a_failure(
    store: Store, status: int, code: str, message: str, *, is_note: bool
) -> None:
    image = finished(store, SMALL)
    documents = provenance.write_documents(locks.lock(), '{"components": []}\n', image.manifest)
    with serving("documents", status, code, message) as registry:
        target = reference.push_target(f"{registry.host}/a/b:1")
        transfer.push([image], target, store, access(), "zstd")
        with pytest.raises(Fault) as caught:
            attach(documents, target, store, access())

    assert (caught.value.kind in NOT_TAKEN) is is_note
    assert registry.tags == {"1": image.digest}


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (400, "BLOB_UPLOAD_INVALID", "Repository does not allow updating assets: docker-hosted"),
        (403, "MANIFEST_INVALID", "HTTP 403 Forbidden"),
        (409, "OF_ITS_OWN", "it is there"),
        (403, "DENIED", "Not enough permissions to delete/overwrite artifact"),
        (412, "TAG_INVALID", "The image tag already exists and cannot be overwritten because it is immutable"),
    ],
)
@pytest.mark.parametrize("is_same", [True, False])
def test_a_tag_that_is_this_image_is_as_good_whatever_is_said(
    store: Store, status: int, code: str, message: str, *, is_same: bool
) -> None:
    first = finished(store, SMALL)
    second = first if is_same else finished(store, SMALL, {"etc/other": b"1"})
    with serving("tags", status, code, message) as registry:
        target = reference.push_target(f"{registry.host}/a/b:1")
        transfer.push([first], target, store, access(), "zstd")
        with nullcontext() if is_same else pytest.raises(Fault):
            transfer.push([second], target, store, access(), "zstd")

    assert registry.tags == {"1": first.digest}
