"""The parts of a transfer that need no registry: a pull without an end, and a tag that cannot be replaced."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from images.context import Access
from images.deliver import skopeo, transfer
from images.deliver.skopeo import OTHERWISE, REFUSALS, Server
from images.host.errors import Fault, WorldFault
from images.oci.manifest import LAYERS, Descriptor, Manifest
from images.oci.reference import Remote
from images.store.store import Store
from tests.support.finished_images import SMALL, finished


def test_a_registry_that_sends_more_than_the_manifest_says_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(server: Server, _: str, size: int, tick: Callable[[], None]) -> None:
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


TARGET = Remote("host", "a/b", "1")


def refused(kind: str) -> Fault:
    """Make the refusal of a kind."""
    row = next(row for row in (*REFUSALS, OTHERWISE) if row.kind == kind)
    return skopeo.refusal_fault(row, "host/a/b:1", "host")


@pytest.mark.parametrize("kind", ["immutable", "denied", "form", "refused", "otherwise", "absent", "full"])
@pytest.mark.parametrize("answer", [None, b"{}", refused("denied")])
def test_a_tag_that_cannot_be_replaced_is_done_where_it_names_this_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, answer: bytes | Fault | None
) -> None:
    store, asked = Store(tmp_path), list[str]()
    image = finished(store, SMALL)

    def push(*_: object) -> None:
        raise refused(kind)

    def inspect(_: Server, tag: str, **__: object) -> bytes:
        asked.append(tag)
        if isinstance(answer, Fault):
            raise answer
        return image.manifest if answer is None else answer

    monkeypatch.setattr(Server, "push", push)
    monkeypatch.setattr(Server, "inspect", inspect)

    with pytest.raises(Fault, match=refused(kind).fact) if answer is not None else nullcontext():
        transfer.push([image], TARGET, store, Access(environ={}), "zstd")

    assert asked == ["1"]


@pytest.mark.parametrize("kind", transfer.UNHEARD)
def test_a_registry_that_has_said_nothing_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def push(*_: object) -> None:
        raise refused(kind)

    store = Store(tmp_path)
    monkeypatch.setattr(Server, "push", push)
    monkeypatch.setattr(Server, "inspect", lambda *_: pytest.fail("it is asked"))
    with pytest.raises(Fault, match=refused(kind).fact):
        transfer.push([finished(store, SMALL)], TARGET, store, Access(environ={}), "zstd")
