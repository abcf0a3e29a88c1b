"""Whatever an image holds, it is read or refused by a Fault: nothing else changes, memory and time have bounds."""

from __future__ import annotations

import dataclasses
import datetime
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.base import additions, inspect, pulled
from images.base.base import Facts
from images.base.pulled import PulledImage, pull_image
from images.check import components, verify
from images.check.sbom import _distro
from images.check.verify import LOCK, Inside, read_images
from images.context import Access
from images.debian.control import parse_paragraphs
from images.host import limits
from images.host.errors import Fault, WorldFault
from images.host.limits import Bound
from images.layers import on_base
from images.oci import compression, image, reference
from images.oci.image import Image
from images.oci.layer import Layer, Written
from images.oci.layer_writer import LayerWriter
from images.platforms import AMD64
from images.store import fingerprint
from images.store.store import Store
from tests.support import hostile, stand_in
from tests.support.hostile import named, watched
from tests.support.stand_in import SETTINGS, SYSTEM, digest

ACCESS = Access(environ={})
PYTHON = "3.10"
MEMORY = 100 << 20  # bytes: room for the largest library that is read, which is set aside before it is read
SYSTEM_TAR = stand_in.layer(SYSTEM)
PACKED = st.sampled_from(["none", "gzip", "zstd"])


def packed(tar: bytes, kind: str) -> bytes:
    return stand_in.packed(tar, kind)


def layout(layers: Sequence[bytes], diff_ids: Sequence[str], config: Mapping[str, Any] = {}) -> dict[str, bytes]:
    """Write a layout of layers as they are packed; everything in it is true, but for the layers themselves."""
    kind = "application/vnd.oci.image"
    text = json.dumps({
        "architecture": "amd64", "os": "linux", "config": SETTINGS,
        "rootfs": {"type": "layers", "diff_ids": [*diff_ids]}, **config,
    }).encode()  # fmt: skip
    parts = [(f"{kind}.layer.v1.tar", data) for data in layers]
    rows = [{"mediaType": name, "digest": digest(data), "size": len(data)} for name, data in parts]
    described = {"mediaType": f"{kind}.config.v1+json", "digest": digest(text), "size": len(text)}
    whole = json.dumps({"schemaVersion": 2, "config": described, "layers": rows}).encode()
    entry = {"mediaType": f"{kind}.manifest.v1+json", "digest": digest(whole), "size": len(whole)}
    files = {"blobs/" + digest(data).replace(":", "/"): data for data in (*layers, text, whole)}
    return {**files, "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()}


def take(path: Path, scratch: Path, *, built: bool = False) -> None:
    """Read an image as `--base` and `verify` do."""
    named = reference.LayoutReference(str(path)) if path.is_dir() else reference.ArchiveReference(str(path))
    store = Store(scratch / "store")
    parts = pull_image(named, AMD64, store, ACCESS, lambda _: None)
    [inside] = read_images(named, AMD64, store, ACCESS)
    facts, _ = inspect.read_facts([*zip(parts.layers, parts.diff_ids, strict=True)], parts.environment, AMD64)
    steps: list[Callable[[], object]] = [
        lambda: inside.file(LOCK),
        lambda: pulled.read_base(parts, PYTHON, "2.28", store),
        lambda: compare(inside, parts),
    ]
    if built:
        steps.append(lambda: build_on(facts, scratch))
    for step in steps:
        try:
            step()
        except Fault as fault:
            assert fault.value and fault.remedy


def compare(inside: Inside, parts: PulledImage) -> None:
    """Compare an image with one that differs from it in every layer."""
    written = [Layer("x", Written("0" * 64, "0" * 64, 1, 1), reused=False) for _ in parts.layers]
    settings: Mapping[str, Any] = {}
    ours = Image(("x:y",), image.write_config(written, AMD64, settings, "x"), b"", tuple(written))
    verify.compare_images(inside, ours, inside.layers)
    alike = [Layer("x", Written(name.removeprefix("sha256:"), "0" * 64, 1, 1), reused=False) for name in parts.diff_ids]
    theirs = Image(("x:y",), image.write_config(alike, AMD64, settings, "x"), b"", tuple(alike))
    verify.compare_images(inside, theirs, inside.layers)


def build_on(facts: Facts, scratch: Path) -> None:
    """Do with the facts of a base what a build does, whether or not it would be refused."""
    facts = inspect.from_plain(json.loads(json.dumps(dataclasses.asdict(facts))))
    site = facts.sites.get(PYTHON, ("usr/local/lib/python3.10/dist-packages",))[0]
    path = facts.pythons.get(PYTHON, "usr/bin/python3.10")
    facts = dataclasses.replace(facts, pythons={PYTHON: path}, sites={PYTHON: facts.sites.get(PYTHON, (site,))})
    additions.list_missing_pieces(facts), additions.choose_links(facts, path)
    listed = components.of_debian(parse_paragraphs(facts.status), _distro(facts))
    listed += [components.of_installed(distribution.name, distribution.version) for distribution in facts.distributions]
    components.document("a", "1", datetime.date(2026, 1, 1), listed).encode()
    try:
        hide(facts, scratch / "layer")
    except Fault as fault:
        assert fault.value and fault.remedy


def hide(facts: Facts, path: Path) -> None:
    decided = on_base.compare_packages(facts, PYTHON, [("thing", "2.0"), ("six", "1.0")])
    with LayerWriter(path, facts.directories) as layer:
        for hidden in on_base.list_hidden(facts, decided.replaced):
            layer.whiteout(hidden)
        layer.finish()


def use(files: Mapping[str, bytes], scratch: Path, *, as_tar: bool = False, built: bool = False) -> None:
    """Write an image to disk and read it; a Fault is an answer like any other."""
    path = stand_in.write_tar(scratch / "image.tar", files) if as_tar else stand_in.write(scratch / "layout", files)
    answer(path, scratch, built=built)


def answer(path: Path, scratch: Path, *, built: bool = False) -> None:
    try:
        take(path, scratch, built=built)
    except Fault as fault:
        assert fault.value and fault.remedy


@pytest.fixture(scope="module", autouse=True)
def soon() -> Iterator[None]:
    """Leave out what takes time and is the same for every example: a disk that is waited for, releases of packages."""
    releases = fingerprint.releases()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "releases", lambda: releases)
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a directory; what is imported and read once, such as the list of licences, is not counted as memory."""
    directory = tmp_path_factory.mktemp("any")
    with watched(directory, memory=1 << 30) as scratch:
        use(stand_in.layout({"a": stand_in.Image([SYSTEM])}), scratch, built=True)
    return directory


@given(above=st.lists(hostile.tars, min_size=1, max_size=2), kind=PACKED, at=st.just([]) | hostile.changes)
def test_any_layer_is_read_or_refused(place: Path, above: list[bytes], kind: str, at: list[hostile.Change]) -> None:
    every = [SYSTEM_TAR, *above]
    layers = [packed(tar, kind) for tar in every]
    layers[-1] = hostile.changed(layers[-1], at) if layers[-1] else b""
    with watched(place, MEMORY) as scratch:
        use(layout(layers, [digest(tar) for tar in every]), scratch, built=True)


@given(data=st.binary(max_size=200), start=st.sampled_from([b"", compression.GZIP, compression.ZSTD, b"PK\3\4"]))
def test_any_bytes_are_read_or_refused(place: Path, data: bytes, start: bytes) -> None:
    with watched(place, MEMORY) as scratch:
        use(layout([start + data], [digest(start + data)]), scratch)
        path = scratch / "image.tar"
        path.write_bytes(start + data)
        answer(path, scratch)


@given(tar=hostile.tars, kind=st.sampled_from(["none", "gzip"]))
def test_any_archive_is_read_or_refused(place: Path, tar: bytes, kind: str) -> None:
    """The members of an archive of an image are hostile too."""
    whole = io.BytesIO()
    image_files = stand_in.saved(stand_in.Image([SYSTEM]))
    with tarfile.open(fileobj=whole, mode="w") as out:
        for name, data in image_files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    valid = whole.getvalue()[: whole.tell()].rstrip(b"\0")
    valid += bytes(-len(valid) % hostile.BLOCK)
    with watched(place, MEMORY) as scratch:
        path = scratch / "image.tar"
        path.write_bytes(packed(tar[: len(tar) - len(hostile.END)] + valid + tar, kind))
        answer(path, scratch)


@given(where=st.sampled_from(["config", "manifest", "index"]), edits=hostile.edits, as_tar=st.booleans())
def test_any_documents_are_read_or_refused(
    place: Path, where: str, edits: list[tuple[list[int], object]], as_tar: bool
) -> None:
    """A document is changed, and what names it changed with it."""
    original = stand_in.Image([SYSTEM])
    documents: dict[str, Any] = {
        "config": dict(original.config),
        "manifest": json.loads(original.blobs[original.digest]),
    }
    documents["index"] = {"schemaVersion": 2, "manifests": [original.entry]}
    for path, new in edits if where == "config" else ():
        documents["config"] = hostile.replaced(documents["config"], path, new)
    config = json.dumps(documents["config"]).encode()
    documents["manifest"]["config"] |= {"digest": digest(config), "size": len(config)}
    for path, new in edits if where == "manifest" else ():
        documents["manifest"] = hostile.replaced(documents["manifest"], path, new)
    manifest = json.dumps(documents["manifest"]).encode()
    documents["index"]["manifests"][0] |= {"digest": digest(manifest), "size": len(manifest)}
    for path, new in edits if where == "index" else ():
        documents["index"] = hostile.replaced(documents["index"], path, new)
    blobs = {**original.blobs, digest(config): config, digest(manifest): manifest}
    files = {"blobs/" + name.replace(":", "/"): data for name, data in blobs.items()}
    with watched(place, MEMORY) as scratch:
        use({**files, "index.json": json.dumps(documents["index"]).encode()}, scratch, as_tar=as_tar)


@given(where=st.sampled_from(["manifest.json", "config.json"]), edits=hostile.edits)
def test_any_documents_of_a_saved_image_are_read_or_refused(
    place: Path, where: str, edits: list[tuple[list[int], object]]
) -> None:
    files = stand_in.saved(stand_in.Image([SYSTEM]))
    value = json.loads(files[where])
    for path, new in edits:
        value = hostile.replaced(value, path, new)
    with watched(place, MEMORY) as scratch:
        use({**files, where: json.dumps(value).encode()}, scratch, as_tar=True)


DEEP = b"d/" * 190
HOSTILE = {
    "1500 directories": named(b"d/" * 1500 + b"x") + named(b".wh.d"),
    "as many directories as a path may have": named(DEEP + b"x") + named(b".wh.d"),
    "a path as long as may be": named(b"usr/lib/python3.10/" + (b"x" * 255 + b"/") * 11 + b"x" * 165, b"1"),
    "1500 directories through links": named(DEEP + b"x") + b"".join(
        named(b"up%d" % number, kind=b"2", link=DEEP if number == 0 else b"up%d/" % (number - 1) + DEEP)
        + named(b"up%d/" % number + DEEP + b"x") for number in range(8)
    ),
    "a file of 2^95 bytes": hostile.header(b"a", size=b"\x80" + b"\xff" * 11),
    "a file of 2^33 bytes": hostile.header(b"a", size=b"7" * 11),
    "links in a circle": named(b"a", kind=b"2", link=b"b") + named(b"b", kind=b"2", link=b"a") + named(b"a/x"),
    "a hard link to itself": named(b"usr/lib/python3.10/a", kind=b"1", link=b"usr/lib/python3.10/a")
    + named(b"usr/bin/python3.10", kind=b"1", link=b"usr/bin/python3.10"),
    "a hard link to a directory above it": named(b"usr/x", kind=b"1", link=b"usr") + named(b"usr/x/y"),
    "a hard link in place of its directory": named(b"usr/lib/x/a.so", b"1")
    + named(b"usr/lib/x", kind=b"1", link=b"usr/lib/x/a.so"),
    "a file in place of the root": named(b"./", b"1") + named(b"/", b"1") + named(b"usr/lib/x"),
    "a whiteout of the directory above": named(b".wh..."),
    "a whiteout of the directory itself": named(b"usr/.wh.."),
    "a whiteout of nothing": named(b"usr/.wh."),
    "a whiteout below the root": named(b"../../.wh.beside"),
    "a link out of the root": named(b"usr/lib/out", kind=b"2", link=b"../../../../../beside")
    + named(b"usr/lib/out/precious", b"1") + named(b"usr/lib/out/.wh..wh..opq"),
    "a release of 5000 digits": named(
        b"lib/x86_64-linux-gnu/libc.so.6", b"GNU C Library stable release version " + b"9" * 5000 + b".1"
    ),
    "a package's release of 5000 digits": named(b"lib/x86_64-linux-gnu/libc.so.6", b"")
    + named(b"var/lib/dpkg/status", b"Package: libc6\nVersion: " + b"9" * 5000 + b".1\n"),
    "a name that is no text": named(b"usr/local/lib/python3.10/dist-packages/a-1\xff.dist-info/RECORD", b"a,,\n"),
}  # fmt: skip


@pytest.mark.parametrize("tar", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_layer_is_read_or_refused(place: Path, tar: bytes) -> None:
    with watched(place, MEMORY) as scratch:
        use(
            layout([SYSTEM_TAR, tar + hostile.END], [digest(SYSTEM_TAR), digest(tar + hostile.END)]),
            scratch,
            built=True,
        )


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_layer_that_unpacks_to_too_much_is_refused(place: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LAYER", Bound(100, 1 << 20))
    tar = named(b"a", bytes(4 << 20)) + hostile.END
    with watched(place, MEMORY) as scratch, pytest.raises(WorldFault, match="unpacks to too much"):
        take(stand_in.write(scratch / "layout", layout([packed(tar, kind)], [digest(tar)])), scratch)


def test_a_blob_that_is_no_file_is_not_waited_for(place: Path) -> None:
    files = layout([SYSTEM_TAR], [digest(SYSTEM_TAR)])
    with watched(place, MEMORY) as scratch:
        path = stand_in.write(scratch / "layout", files) / "blobs" / digest(SYSTEM_TAR).replace(":", "/")
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(WorldFault, match="a file is missing"):
            take(scratch / "layout", scratch)
