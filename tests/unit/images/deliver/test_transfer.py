"""The parts of a transfer that need no registry: how bytes are counted, and what is read back."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from images.deliver import refusals, transfer
from images.deliver.refusals import OTHERWISE, REFUSALS
from images.deliver.skopeo import Server
from images.host.context import Access
from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store
from images.model import Descriptor, Image, Layer, Manifest, Written
from images.oci.image import config, registry_manifest
from images.oci.manifest import LAYERS, digest_of
from images.oci.reference import Remote
from images.platforms import AMD64
from tests.support.stores import keep


def test_bytes_are_counted_once_while_they_come(tmp_path: Path) -> None:
    came = list[int]()
    counter = transfer.Counter([tmp_path / "one", tmp_path / "two"], tmp_path, came.append)

    (tmp_path / "oci-put-blob1").write_bytes(b"12345")
    counter.tick()
    (tmp_path / "oci-put-blob1").rename(tmp_path / "one")
    counter.tick()
    (tmp_path / "two").write_bytes(b"123")
    counter.tick()

    assert came == [5, 3]


def test_a_registry_that_sends_more_than_the_manifest_says_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(server: Server, _: str, tick: Callable[[], None]) -> None:
        part = server._aside / "layout/oci-put-blob1"
        part.parent.mkdir()
        for number in range(20):
            os.truncate(part, number << 20) if part.exists() else part.touch()
            tick()
        pytest.fail("it would go on")

    monkeypatch.setattr(Server, "pull", pull)
    layer = Descriptor(LAYERS[0], "sha256:" + "0" * 64, 1000)
    with (
        transfer.repository(TARGET, Store(tmp_path), Access(environ={})) as found,
        pytest.raises(WorldFault, match="sends more than the manifest says"),
    ):
        found.layers(Manifest("sha256:" + "1" * 64, layer, (layer,)), lambda _: None)


class Answering(Server):
    """A registry that is asked for what was pushed, and gives one answer."""

    def __init__(self, answer: bytes | Fault) -> None:
        self._answer = answer

    def inspect(self, tag_or_digest: str, *options: str) -> bytes:
        """Return the answer."""
        if isinstance(self._answer, Fault):
            raise self._answer
        return self._answer


TARGET = Remote("host", "a/b", "1")


def refused(kind: str) -> Fault:
    """Make the refusal of a kind."""
    row = next(row for row in (*REFUSALS, OTHERWISE) if row.kind == kind)
    return refusals.refused(row, "host/a/b:1", "host")


@pytest.mark.parametrize("answer", [b"<html>login</html>", b"", *(refused(kind) for kind in ("absent", "otherwise"))])
def test_what_the_registry_does_not_have_was_not_pushed(answer: bytes | Fault) -> None:
    with pytest.raises(WorldFault, match="the registry does not have what was pushed"):
        transfer.require_there(Answering(answer), digest_of(b"{}"), TARGET, pytest.fail)


@pytest.mark.parametrize("kind", ["denied", "busy"])
def test_who_may_push_and_not_pull_has_pushed(kind: str) -> None:
    said = list[str]()

    transfer.require_there(Answering(refused(kind)), digest_of(b"{}"), TARGET, said.append)

    assert "host/a/b:1 was pushed" in said[0] and refused(kind).fact in said[0]


def test_what_the_registry_has_was_pushed() -> None:
    transfer.require_there(Answering(b"{}"), digest_of(b"{}"), TARGET, pytest.fail)


def image_of(store: Store, layers: Sequence[Layer]) -> Image:
    """Make an image of layers."""
    settings = config(layers, AMD64, {}, "2026-01-01T00:00:00Z")
    return Image(("a:1",), settings, registry_manifest(settings, tuple(layers), store, "zstd"), tuple(layers))


def pushed(store: Store, monkeypatch: pytest.MonkeyPatch, kind: str, image: Image) -> None:
    """Push an image to a registry that refuses it."""

    def push(*_: object) -> None:
        raise refused(kind)

    monkeypatch.setattr(Server, "push", push)
    transfer.push([image], TARGET, store, Access(environ={}), "zstd")


@pytest.mark.parametrize(
    ("answer", "is_done"), [(None, True), (b"{}", False), (refused("denied"), False), (refused("otherwise"), False)]
)
def test_a_tag_that_cannot_be_replaced_is_done_where_it_names_this_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | Fault | None, is_done: bool
) -> None:
    store, asked = Store(tmp_path), list[str]()
    image = image_of(store, [kept(store, b"layer")])

    def inspect(_: Server, tag: str, **__: object) -> bytes:
        asked.append(tag)
        if isinstance(answer, Fault):
            raise answer
        return image.manifest if answer is None else answer

    monkeypatch.setattr(Server, "inspect", inspect)

    with nullcontext() if is_done else pytest.raises(UserFault, match="does not let a tag be replaced"):
        pushed(store, monkeypatch, "immutable", image)

    assert asked == ["1"]


def kept(store: Store, data: bytes) -> Layer:
    """Keep a layer that is not compressed."""
    digest = keep(store, data)
    return Layer("x", Written(digest, digest, len(data), len(data)), reused=True, packed="none")
