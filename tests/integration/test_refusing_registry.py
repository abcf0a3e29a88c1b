"""Registries that take an image and not its documents, and those that replace no tag, each in words of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import pytest

from images.check import attached
from images.context import Access
from images.deliver import referrers, transfer
from images.host.errors import Fault
from images.oci import reference
from images.store.store import Store
from tests.support import locks
from tests.support.finished_images import SMALL, finished
from tests.support.listing_registry import Listing
from tests.support.registry import needed
from tests.support.web import Reply, Request, listening

pytestmark = needed


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
    documents = attached.write_documents(locks.lock(), '{"components": []}\n', image.manifest)
    with serving("documents", status, code, message) as registry:
        target = reference.push_target(f"{registry.host}/a/b:1")
        transfer.push([image], target, store, access(), "zstd")
        with pytest.raises(Fault) as caught:
            referrers.attach(documents, target, store, access())

    assert (caught.value.kind in referrers.NOT_TAKEN) is is_note
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
