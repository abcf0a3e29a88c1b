"""Images in a directory or a tar: which one is meant, and what is refused; archives are as hostile as they like."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from images.foreign import files as files_of
from images.foreign.files import Files
from images.host.errors import Fault, UserFault, WorldFault
from images.oci import indexes, reading, reference
from images.oci.indexes import find_manifest
from images.oci.manifest import Manifest
from images.oci.reading import OnDisk
from images.platforms import AMD64
from images.store.store import Store
from tests.support.hostile import END, entry, pax
from tests.support.stand_in import SYSTEM, Image, digest, saved, write, write_tar
from tests.support.stand_in import layer as layer_of
from tests.support.stand_in import layout as laid_out

IMAGE = Image([SYSTEM], compression="none")
OTHER = Image([{"etc/hostname": b"other\n"}])
LAYER = "blobs/" + IMAGE.layers[0].replace(":", "/")
ARM, AMD = ({"os": "linux", "architecture": name} for name in ("arm64", "amd64"))
CONTAINERD = "io.containerd.image.name"
ONE = laid_out({"1": IMAGE})


def opened(name: str, store: Path) -> OnDisk:
    """Open an image as it is named on a command line."""
    named = reference.parse_reference(name)
    if isinstance(named, reference.LayoutReference):
        return reading.open_layout(named, Store(store))
    assert isinstance(named, reference.ArchiveReference)
    return reading.open_archive(named, Store(store))


def copied(name: str, store: Path) -> tuple[Manifest, bytes, list[bytes]]:
    """Copy an image into a store, and return its manifest, its configuration and its layers."""
    image = opened(name, store)
    manifest = find_manifest(image.manifest, name, AMD64)
    config = image.config(manifest, lambda _: None).read_bytes()
    return manifest, config, [path.read_bytes() for path in image.layers(manifest, lambda _: None)]


def index(*entries: Mapping[str, Any] | int) -> dict[str, bytes]:
    """Write a layout of two images with another index."""
    files = laid_out({"1": IMAGE, "2": OTHER})
    return {**files, "index.json": json.dumps({"schemaVersion": 2, "manifests": [*entries]}).encode()}


def named(image: Image, **annotations: str) -> dict[str, Any]:
    """Name an image in an index: by its tag, and as containerd does with its whole name."""
    keys = {"tag": "org.opencontainers.image.ref.name", "name": CONTAINERD, "of": "io.containerd.manifest.subject"}
    return {**image.entry, "annotations": {keys[key]: value for key, value in annotations.items()}}


BOTH = index(named(IMAGE, tag="1", name="docker.io/library/a:1"), named(OTHER, tag="2", name="docker.io/library/a:2"))

TWINS = index(
    named(IMAGE, tag="1", name="docker.io/library/a:1"),
    named(OTHER, tag="1", name="docker.io/library/b:1"),
)


@pytest.mark.parametrize(
    ("files", "tag", "meant"),
    [
        (laid_out({"1": IMAGE}), "", IMAGE),
        (index(named(OTHER, tag="1", name="b:1"), named(OTHER, tag="1", name="c:1")), ":1", OTHER),
        (laid_out({"": IMAGE}), "", IMAGE),
        (BOTH, ":1", IMAGE),
        (BOTH, ":2", OTHER),
        (index(named(IMAGE, tag="1"), named(IMAGE, tag="2")), "", IMAGE),  # one image of two names
        (index(OTHER.entry), "", OTHER),
        (index(5, {**OTHER.entry, "platform": ARM}, {**IMAGE.entry, "platform": AMD}), "", IMAGE),  # for two machines
        (index(named(OTHER, of=IMAGE.digest), named(IMAGE, tag="1")), "", IMAGE),  # a signature is no second image
    ],
)
def test_the_image_of_this_platform_and_tag_is_taken(
    tmp_path: Path, files: Mapping[str, bytes], tag: str, meant: Image
) -> None:
    write(tmp_path / "layout", files)

    image = opened(f"oci:{tmp_path}/layout{tag}", tmp_path / "store")

    assert find_manifest(image.manifest, "it", AMD64).digest == meant.digest


def test_archives_of_both_kinds_hold_the_same_image(tmp_path: Path) -> None:
    write_tar(tmp_path / "saved.tar", saved(IMAGE))
    write_tar(tmp_path / "oci.tar", laid_out({"1": IMAGE}))

    by_docker = copied(f"archive:{tmp_path}/saved.tar", tmp_path / "store")
    by_others = copied(f"archive:{tmp_path}/oci.tar", tmp_path / "other")

    assert by_docker[1:] == by_others[1:] == (json.dumps(IMAGE.config).encode(), IMAGE.tars)
    assert by_docker[0].layers == by_others[0].layers


def both(image: Image, **changes: Any) -> dict[str, bytes]:
    """Write an archive as Docker does since 25: a layout, and manifest.json that leads to the same blobs."""
    entry = {"Config": _blob(digest(json.dumps(image.config).encode())), "Layers": [*map(_blob, image.layers)]}
    return {**laid_out({"1": IMAGE}), "manifest.json": json.dumps([{**entry, **changes}]).encode()}


def _blob(name: str) -> str:
    return "blobs/" + name.replace(":", "/")


def test_an_archive_of_both_kinds_is_read(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", both(IMAGE))

    assert copied(f"archive:{tmp_path}/a.tar", tmp_path / "store")[0].digest == IMAGE.digest


@pytest.mark.parametrize(
    "files",
    [
        {**saved(OTHER), **laid_out({"1": IMAGE})},
        {**saved(IMAGE), **laid_out({"1": IMAGE})},  # other files, which nobody compares
        both(OTHER),
        both(IMAGE, Layers=[]),
        both(IMAGE, layers=["x"]),
        {**both(IMAGE), "manifest.json": b"[]"},
        {**laid_out({"1": IMAGE}), "repositories": b'{"a": {"1": "x"}}'},  # as Docker before 1.10
    ],
)
def test_two_lists_that_name_different_images_are_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    write_tar(tmp_path / "a.tar", files)

    with pytest.raises(Fault, match=r"two lists of images, which differ|list of images|no archive of an image"):
        copied(f"archive:{tmp_path}/a.tar", tmp_path / "store")


GOOD, EVIL = ONE["index.json"], laid_out({"1": OTHER})["index.json"]
V7 = {"magic": bytes(8)}
AMBIGUOUS = {
    "a path twice": entry(b"index.json", GOOD) + entry(b"index.json", EVIL),
    "a path twice, in two ways": entry(b"index.json", GOOD) + entry(b"/./index.json", EVIL),
    "a directory at the path of a file": entry(b"index.json", GOOD) + entry(b"index.json", b"", b"5"),
    "a file at the path of a directory": entry(b"index.json", b"", b"5") + entry(b"index.json", GOOD),
    "after the end": entry(b"index.json", GOOD) + END + entry(b"index.json", EVIL),
    "after a header that tarfile ends at": entry(b"index.json", GOOD)
    + entry(b"x", device=b"zzzzzzzz" * 2, **V7)
    + entry(b"index.json", EVIL),
    "a prefix that is none": entry(b"index.json", GOOD, **V7, prefix=b"x".ljust(155, b"\0")),
    "records for a name": entry(b"x", pax(b"path", b"index.json"), b"x") + entry(b"a", GOOD),
    "a long name": entry(b"././@LongLink", b"index.json\0", b"L") + entry(b"a", GOOD),
    "below a link": entry(b"index.json", GOOD) + entry(b"a", b"", b"2", b"blobs") + entry(b"a/b", EVIL),
    "junk at the end": entry(b"index.json", GOOD) + END + b"x",
}


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_an_archive_that_readers_of_tars_read_in_several_ways_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.tar").write_bytes(data + END)

    with pytest.raises(Fault, match=r"cannot read the archive|cut short"):
        copied(f"archive:{tmp_path}/a.tar", tmp_path / "store")


@pytest.mark.parametrize("start", ["./", ".//x/../"])
def test_the_names_of_an_archive_are_written_in_many_ways(tmp_path: Path, start: str) -> None:
    write_tar(tmp_path / "a.tar", {f"{start}{name}": data for name, data in ONE.items()})

    assert copied(f"archive:{tmp_path}/a.tar", tmp_path / "store")[0].digest == IMAGE.digest


def test_the_list_of_images_writes_names_in_many_ways(tmp_path: Path) -> None:
    files = saved(IMAGE)
    files["manifest.json"] = files["manifest.json"].replace(b'"config.json"', b'".//config.json"')
    write_tar(tmp_path / "a.tar", files)

    assert copied(f"archive:{tmp_path}/a.tar", tmp_path / "store")[1] == json.dumps(IMAGE.config).encode()


REFUSED: Mapping[str, tuple[Mapping[str, bytes], type[Fault], str, str, str]] = {
    "nothing": ({}, UserFault, "that is not an OCI layout", "(no index.json)", "oci:DIRECTORY with index.json in it"),
    "no JSON": ({**ONE, "index.json": b"<html>"}, WorldFault, "a manifest is not JSON", "begins '<html>'", "check the"),
    "a long index": ({**ONE, "index.json": bytes((4 << 20) + 1)}, WorldFault, "too long", "4194304 bytes", "copy or"),
    "no list": ({**ONE, "index.json": b'{"manifests": 1}'}, UserFault, "no such image", "(it has none)", "oci:DIR"),
    "two images": (BOTH, UserFault, "several images", "(docker.io/library/a:1, docker.io/library/a:2)", "oci:DIR"),
    "one without a tag": (
        index(IMAGE.entry, named(OTHER, tag="2")), UserFault, "several images", "(without a tag, 2)", "oci:DIRECTORY:"
    ),
    "digests that are none": (
        index({"digest": [], "annotations": {CONTAINERD: "a"}}, {"digest": {}, "annotations": {CONTAINERD: 5}}),
        UserFault, "several images", "(a, 5)", "oci:DIRECTORY:TAG",
    ),
    "another layer": ({**ONE, LAYER: b"other"}, WorldFault, "another sha256", "d9298a10", "copy or save"),
    "a longer layer": ({**ONE, LAYER: IMAGE.tars[0] + b"x"}, WorldFault, "too long", f"{len(IMAGE.tars[0])}", "copy"),
    "no layer": (
        {path: data for path, data in ONE.items() if path != LAYER}, WorldFault, "a file is missing", LAYER, "copy or"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "kind", "fact", "value", "remedy"), REFUSED.values(), ids=REFUSED)
def test_a_layout_is_refused_and_leaves_nothing(
    tmp_path: Path, files: Mapping[str, bytes], kind: type[Fault], fact: str, value: str, remedy: str
) -> None:
    (tmp_path / "layout").mkdir()
    write(tmp_path / "layout", files)

    with pytest.raises(kind) as caught:
        copied(f"oci:{tmp_path}/layout", tmp_path / "store")

    assert fact in caught.value.fact and value in caught.value.value and remedy in caught.value.remedy
    assert f"oci:{tmp_path}/layout" in caught.value.value
    assert list(tmp_path.glob("store/aside/*")) == []


def test_a_tag_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    write(tmp_path / "layout", BOTH)

    with pytest.raises(UserFault, match=r"no such image: oci:.*:3 \(it has docker.io/library/a:1, docker.io/librar"):
        copied(f"oci:{tmp_path}/layout:3", tmp_path / "store")


def test_a_tag_of_two_images_is_refused_with_their_names(tmp_path: Path) -> None:
    write(tmp_path / "layout", TWINS)

    with pytest.raises(UserFault, match="there are several images") as caught:
        copied(f"oci:{tmp_path}/layout:1", tmp_path / "store")

    assert caught.value.value == f"oci:{tmp_path}/layout:1 (docker.io/library/a:1, docker.io/library/b:1)"


@pytest.mark.parametrize(
    ("data", "said"), [(b"", "(not a whole tar, or compressed)"), (b"no tar", "(not a wh"), (None, "No such")]
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes | None, said: str) -> None:
    path = tmp_path / "a.tar"
    if data is not None:
        path.write_bytes(data)

    with pytest.raises(UserFault, match="cannot read the archive") as caught:
        copied(str(path), tmp_path / "store")

    assert str(path) in caught.value.value and said in caught.value.value
    assert caught.value.remedy == "oci:DIRECTORY with index.json in it, or archive:FILE from docker save"


def test_an_archive_may_have_its_directories(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(layer_of({"a": None, "a/b": b"1", "c": "a/b"}))

    found = files_of.open_tar(tmp_path / "a.tar", "a.tar", "another", plain=True)

    assert [found.has(path) for path in ("a/b", "a/c")] == [True, False]
    assert (found.read("a/b", 1), found.read("c", 1)) == (b"1", b"1")
    with pytest.raises(WorldFault, match="a file is too long"):
        found.read("a/b", 0)


def test_an_archive_that_is_cut_is_refused(tmp_path: Path) -> None:
    whole = write_tar(tmp_path / "a.tar", saved(Image())).read_bytes()
    (tmp_path / "a.tar").write_bytes(whole[: len(whole) * 2 // 3])

    with pytest.raises(WorldFault) as caught:
        copied(str(tmp_path / "a.tar"), tmp_path / "store")

    assert str(caught.value).startswith(f"error: the archive is cut short: archive:{tmp_path / 'a.tar'}\n  try: copy")


@pytest.mark.parametrize(
    ("name", "fact"), [("index.json", "a file is missing"), ("manifest.json", "that is no archive of an image")]
)
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_what_is_no_file_is_not_there(tmp_path: Path, name: str, fact: str, kind: bytes) -> None:
    """A link in this place leads to itself."""
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, name
        tar.addfile(info)

    with pytest.raises(Fault, match=fact):
        copied(str(tmp_path / "a.tar"), tmp_path / "store")


def test_a_compressed_archive_is_not_unpacked(tmp_path: Path) -> None:
    whole = write_tar(tmp_path / "a.tar", ONE).read_bytes()
    (tmp_path / "a.tar").write_bytes(gzip.compress(whole))

    with pytest.raises(UserFault, match=r"cannot read the archive: .* or compressed"):
        copied(str(tmp_path / "a.tar"), tmp_path / "store")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tar")

    with pytest.raises(UserFault, match="what is there is not a file") as caught:
        copied(f"archive:{tmp_path / 'a.tar'}", tmp_path / "store")

    assert caught.value.value == str(tmp_path / "a.tar")


# What `docker save` writes: the manifest that it would have in a registry, and every way it can be damaged.

GOOD_ARCHIVE: dict[str, Any] = {"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["1/layer.tar", "2/layer.tar"]}
NO_STORE = cast("Store", None)  # nothing is copied here
PARTS = {"c.json": b"{}", "1/layer.tar": b"lowest", "2/layer.tar": b"above it"}


def read(images: object, parts: Mapping[str, bytes] = PARTS, read_paths: list[str] | None = None) -> OnDisk:
    """Read an archive of these images, whose list is JSON unless it is bytes."""
    listed = images if isinstance(images, bytes) else json.dumps(images).encode()
    files = {**parts, "manifest.json": listed}

    def pieces(path: str) -> Iterator[bytes]:
        if read_paths is not None:
            read_paths.append(path)
        if path not in files:
            raise FileNotFoundError(path)
        yield files[path]

    return reading.open_saved(Files("it", files.__contains__, pieces), NO_STORE)


def test_layers_get_the_digests_of_their_tars() -> None:
    image = read([GOOD_ARCHIVE])

    manifest = indexes.find_manifest(image.manifest, "it", AMD64)

    assert [(layer.digest, layer.size) for layer in manifest.layers] == [
        (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)) for data in (b"lowest", b"above it")
    ]
    assert {layer.media_type for layer in manifest.layers} == {"application/vnd.oci.image.layer.v1.tar"}
    assert [image.place(part.digest) for part in (manifest.config, *manifest.layers)] == [*PARTS]


def test_a_layer_that_is_there_twice_is_read_once() -> None:
    paths: list[str] = []

    manifest = indexes.find_manifest(
        read([{**GOOD_ARCHIVE, "Layers": ["1/layer.tar"] * 300}], read_paths=paths).manifest, "it", AMD64
    )

    assert len(manifest.layers) == 300
    assert paths.count("1/layer.tar") == 1


def test_no_layer_is_read_of_an_image_of_too_many() -> None:
    paths: list[str] = []

    with pytest.raises(WorldFault, match=r"more than 500 layers: it \(501\)"):
        read([{**GOOD_ARCHIVE, "Layers": ["1/layer.tar"] * 501}], read_paths=paths)

    assert "1/layer.tar" not in paths


OLD = "oci:DIRECTORY with index.json in it, or archive:FILE from docker save; what Docker before 1.10 saved must be"
AGAIN = "docker save it again"


@pytest.mark.parametrize(
    ("images", "fact", "value", "remedy"),
    [
        (b"<html>", "that is no archive of an image", "it", OLD),
        (b"[" * 100_000, "that is no archive of an image", "it", OLD),
        (5, "the list of images in the archive is damaged", "it", AGAIN),
        ([], "the list of images in the archive is damaged", "it", AGAIN),
        ([5], "the list of images in the archive is damaged", "it", AGAIN),
        ([{**GOOD_ARCHIVE, "Config": None}], "the list of images in the archive is damaged", "it", AGAIN),
        *(([{**GOOD_ARCHIVE, key.swapcase(): []}], "the list of images in the archive is damaged", "it", AGAIN)
          for key in ("Config", "RepoTags", "Layers", "Parent", "LayerSources")),
        ([{**GOOD_ARCHIVE, "Layers": "1/layer.tar"}], "the list of images in the archive is damaged", "it", AGAIN),
        ([{**GOOD_ARCHIVE, "Layers": [1]}], "the list of images in the archive is damaged", "it", AGAIN),
        ([{**GOOD_ARCHIVE, "RepoTags": 5}] * 2, "the list of images in the archive is damaged", "it", AGAIN),
        ([{**GOOD_ARCHIVE, "RepoTags": [5]}] * 2, "the list of images in the archive is damaged", "it", AGAIN),
        (
            [GOOD_ARCHIVE, {**GOOD_ARCHIVE, "RepoTags": None}],
            "there are several images",
            "it (a:1, without a tag)",
            "docker save one",
        ),
        ([{**GOOD_ARCHIVE, "Config": "x.json"}], "a file is missing", "it: x.json", "copy or save"),
        ([{**GOOD_ARCHIVE, "Layers": ["x.tar"]}], "a file is missing", "it: x.tar", "copy or save"),
    ],
)  # fmt: skip
def test_what_is_no_whole_image_is_refused(images: object, fact: str, value: str, remedy: str) -> None:
    with pytest.raises(Fault) as caught:
        read(images)

    assert (caught.value.fact, caught.value.value) == (fact, value)
    assert caught.value.remedy.startswith(remedy)
