"""Images travel to registries and back, and where the user wants one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from images.context import Access
from images.deliver import skopeo, transfer
from images.deliver.skopeo import OTHERWISE, REFUSALS, Server
from images.host.errors import Fault, UserFault, WorldFault
from images.oci.manifest import LAYERS, LIMIT, Descriptor, Manifest, digest_of
from images.oci.reference import Remote
from images.store.store import Store
from tests.support.finished_images import SMALL, finished, image_in
from tests.support.stores import keep


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
        transfer.repository(TARGET, Store(tmp_path), Access(environ={})) as repository,
        pytest.raises(WorldFault, match="sends more than the manifest says"),
    ):
        repository.layers(Manifest("sha256:" + "1" * 64, layer, (layer,)), lambda _: None)


TARGET = Remote("host", "a/b", "1")
MANIFEST, CONFIG = b'{"a": 1}', b'{"b": 2}'
PARTS = (b"a layer", b"another one", b"a third one")


def described_of(data: bytes, size: int = 0) -> Descriptor:
    return Descriptor(LAYERS[0], digest_of(data), size or len(data))


@pytest.mark.parametrize(
    ("remote", "digest", "asked", "is_it"),
    [
        (TARGET, None, "1", True),
        (Remote("host", "a/b"), None, "latest", True),
        (TARGET, digest_of(MANIFEST), digest_of(MANIFEST), True),
        (Remote("host", "a/b", "1", digest_of(MANIFEST)), None, digest_of(MANIFEST), True),
        (Remote("host", "a/b", "1", digest_of(CONFIG)), None, digest_of(CONFIG), False),
        (TARGET, digest_of(CONFIG), digest_of(CONFIG), False),
    ],
)
def test_a_manifest_by_its_digest_is_the_one_of_that_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: Remote, digest: str | None, asked: str, is_it: bool
) -> None:
    called = list[str]()

    def inspect(_: Server, tag: str) -> bytes:
        called.append(tag)
        return MANIFEST

    monkeypatch.setattr(Server, "inspect", inspect)
    with (
        transfer.repository(remote, Store(tmp_path), Access(environ={})) as repository,
        nullcontext() if is_it else pytest.raises(WorldFault),
    ):
        assert repository.manifest(digest) == MANIFEST
    assert called == [asked]


def test_parts_that_are_there_are_not_fetched_and_what_came_whole_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first layer is in the store; of the others one comes, and the line breaks."""
    store, asked, advanced, said = Store(tmp_path), list[object](), list[int](), list[bytes]()
    keep(store, PARTS[0])
    image = Manifest(digest_of(MANIFEST), described_of(CONFIG), (*map(described_of, PARTS),))

    def inspect(_: Server, *words: str) -> bytes:
        asked.append(words)
        return CONFIG

    def pull(server: Server, digest: str, size: int, tick: Callable[[], None]) -> None:
        shared = server._aside / "shared/sha256"
        asked.append((digest, size - LIMIT))
        said.extend(path.read_bytes() for path in shared.iterdir())
        (shared / image.layers[1].sha256).write_bytes(PARTS[1])
        tick()
        tick()  # nothing more has come
        raise refused("silent")

    monkeypatch.setattr(Server, "inspect", inspect)
    monkeypatch.setattr(Server, "pull", pull)
    with transfer.repository(TARGET, store, Access(environ={})) as repository:
        for _ in range(2):
            assert repository.config(image, advanced.append).read_bytes() == CONFIG
        with pytest.raises(Fault, match="does not answer"):
            repository.layers(image, advanced.append)

        assert [store.blob(layer.sha256) is not None for layer in image.layers] == [True, True, False]
        keep(store, PARTS[2])
        assert [path.read_bytes() for path in repository.layers(image, advanced.append)] == [*PARTS]
    assert asked == [(image.digest, "--config"), (image.digest, len(PARTS[1]) + len(PARTS[2]))]
    assert said == [PARTS[0]], "skopeo does not fetch what lies there"
    assert advanced == [len(CONFIG), len(PARTS[1])]


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


@pytest.mark.parametrize("kind", ["plain", "certificate", "silent"])
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


# Where an image can be written to, and what an interrupted build leaves there.


def put_pipe(path: Path) -> None:
    os.mkfifo(path)


def put_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/null")


def put_other_things(path: Path) -> None:
    path.mkdir()
    (path / "index.json").write_text("mine")


@pytest.mark.parametrize("put", [put_pipe, put_link_to_a_device, put_other_things])
def test_what_is_no_archive_and_no_layout_is_left_alone(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "there")

    for text in ("there", "there/"):
        with pytest.raises(UserFault):
            transfer.parse_target(f"{tmp_path}/{text}")


@pytest.mark.parametrize("text", ["nowhere/image.tar", "file/image.tar", "file/"])
def test_a_place_that_cannot_be(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text("a file")

    with pytest.raises(UserFault):
        transfer.parse_target(f"{tmp_path}/{text}")


@pytest.mark.parametrize(
    ("text", "is_layout"), [("new.tar", False), ("new/", True), ("empty", True), ("layout", True), ("old.tar", False)]
)
def test_a_place_that_can_be(tmp_path: Path, text: str, is_layout: bool) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout/oci-layout").write_text("{}")
    (tmp_path / "old.tar").write_text("an archive")

    assert transfer.parse_target(f"{tmp_path}/{text}") == transfer.Target(tmp_path / text.rstrip("/"), is_layout)


def test_a_link_to_an_archive_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "old.tar").write_text("an archive")
    (tmp_path / "link").symlink_to("old.tar")

    assert transfer.parse_target(str(tmp_path / "link")).path == tmp_path / "old.tar"


def test_a_pipe_is_no_place_for_an_image() -> None:
    ends = os.pipe()
    try:
        with pytest.raises(UserFault, match="what is there is not a file"):
            transfer.parse_target(f"/dev/fd/{ends[1]}")
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.parametrize("text", ["layout/", "image.tar"])
def test_an_interrupted_build_leaves_nothing_beside_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def interrupted(*given: object) -> None:
        next(place for place in given if isinstance(place, Path) and "store" not in place.parts).write_bytes(b"half")
        raise KeyboardInterrupt

    store = Store(tmp_path / "store")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(shutil, "copyfile", interrupted)
        patched.setattr(transfer, "write_archive", interrupted)
        transfer.save_images(transfer.parse_target(f"{tmp_path}/{text}"), [image_in(store)], store, "zstd")

    assert list(tmp_path.rglob(".*")) == []
    assert transfer.parse_target(f"{tmp_path}/{text}").is_layout == text.endswith("/")
