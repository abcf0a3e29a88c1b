"""Two images compared: the first thing that differs is named."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from images.base import overlay
from images.check import verify
from images.check.verify import Inside
from images.context import Access
from images.deliver import engine
from images.host import limits
from images.host.errors import UserFault, WorldFault
from images.host.limits import Limit
from images.oci.image import Image
from images.oci.layer import Layer, Written
from images.oci.manifest import digest_of
from images.store.blobs import sha256
from images.store.store import Store
from tests.support.hostile import END, entry

HAS = "host:5000/a/b:1"  # what the engine has


class Docker:
    """An engine with one image."""

    def __init__(self, name: str = "docker") -> None:
        self.name = name

    def save(self, name: str, _: Path) -> bool:
        """Have the one image."""
        return name == HAS


@pytest.fixture(autouse=True)
def one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an engine with one image, and open whatever is asked for."""
    monkeypatch.setattr(engine, "connect_all", lambda _: [Docker()])
    monkeypatch.setattr(verify, "read_images", lambda named, *_: [Inside(str(named), b"", b"{}", ())])


@pytest.mark.parametrize(
    "name", ["docker://oci:x", "docker:///a.tar", "docker://./a.tar", "docker://", "docker://A B", "A B"]
)
def test_what_is_no_name_is_not_asked_of_a_registry(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserFault), verify.open_image(name, None, Store(tmp_path), Access(environ={})):
        pass


DENIED = WorldFault("Docker cannot be used", "permission denied on /x", "join the group")


def test_another_image_of_that_name_is_not_taken_where_an_engine_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "connect_all", lambda _: [DENIED])

    with pytest.raises(WorldFault) as caught, verify.open_image("a:1", None, Store(tmp_path), Access(environ={})):
        pass

    assert caught.value.value == "a:1 (Docker cannot be used: permission denied on /x)"
    assert caught.value.remedy == "join the group; docker://a:1 is the one in the registry"


class Empty(Docker):
    """An engine without an image."""

    def save(self, *_: object) -> bool:
        """Have none."""
        return False


def test_every_engine_is_asked_for_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "connect_all", lambda _: [Empty(), DENIED, Docker("podman")])

    with verify.open_image(HAS, None, Store(tmp_path), Access(environ={})) as [image]:
        assert image.where == "in podman"


@pytest.mark.parametrize("engines", [[], [DENIED, Docker()]])
def test_a_registry_is_asked_where_every_engine_that_this_user_has_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines: Sequence[object]
) -> None:
    monkeypatch.setattr(engine, "connect_all", lambda _: engines)

    with verify.open_image("a:1", None, Store(tmp_path), Access(environ={})) as [image]:
        assert image.where == "in the registry docker.io"


LOCK = verify.LOCK
OURS = entry(LOCK.encode(), b"ours")
NEW = entry(LOCK.encode(), b"new")


@pytest.mark.parametrize(
    ("layers", "text"),
    [
        ([OURS], b"ours"),
        ([OURS, entry(b"a")], b"ours"),
        ([OURS, NEW], b"new"),
        ([OURS + NEW], b"new"),  # of two the later one
        ([entry(b"./" + LOCK.encode(), b"ours")], b"ours"),
        ([OURS, entry(b"opt/multinode/", kind=b"5")], b"ours"),
        ([entry(b"a"), entry(LOCK.encode(), kind=b"2", link=b"/srv")], None),
        ([entry(LOCK.encode(), kind=b"5")], None),
    ],
)
def test_a_file_is_that_of_the_highest_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: list[bytes], text: bytes | None
) -> None:
    paths = []
    for number, data in enumerate(layers):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(data + END)
    inside = Inside("a:1", b"", b"", tuple(paths))

    if text is None:
        with pytest.raises(UserFault, match=f"not made here: a:1 .no /{LOCK}"):
            inside.file(LOCK)
    else:
        assert inside.file(LOCK) == text
        monkeypatch.setattr(limits, "INSIDE", Limit("", len(text)))
        assert inside.file(LOCK) == text
        monkeypatch.setattr(limits, "INSIDE", Limit("", len(text) - 1))
        with pytest.raises(WorldFault, match=rf"too long: a:1: /{LOCK} \(more than {len(text) - 1} bytes\)"):
            inside.file(LOCK)


Files = dict[str, str]
KNOWN = {"known": "a"}  # annotations of the rebuilt image
MANIFEST = (
    b'{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {}, "layers": []}'
)


def layer(path: Path, files: Files, mode: int = 0o644) -> str:
    with tarfile.open(path, "w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode, len(text)
            if text.startswith("->"):
                info.type, info.linkname, info.size = tarfile.SYMTYPE, text[2:], 0
            tar.addfile(info, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compared(tmp_path: Path, theirs: list[Files], ours: list[Files], mode: int = 0o644) -> verify.Difference | None:
    left = [tmp_path / f"theirs{n}" for n in range(len(theirs))]
    right = [tmp_path / f"ours{n}" for n in range(len(ours))]
    ids = [f"sha256:{layer(path, files, mode)}" for path, files in zip(left, theirs, strict=True)]
    mine = [layer(path, files) for path, files in zip(right, ours, strict=True)]
    parts = tuple(Layer(f"part {n}", Written(digest, digest, 1, 1), reused=True) for n, digest in enumerate(mine))
    config = json.dumps({"rootfs": {"diff_ids": ids}}).encode()
    inside = Inside("x", MANIFEST, config, tuple(left))
    return verify.compare_images(inside, Image(("x",), config, b"", parts), right)


SAME: Files = {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("theirs", "ours", "place"),
    [
        ([SAME, {"a": "1", "b": "3"}], [SAME, SAME], ("layer part 1", "/b")),
        ([{"a": "1"}], [SAME], ("layer part 0", "/b")),
        ([{**SAME, "c": "more"}], [SAME], ("layer part 0", "/c")),
        ([{"a": "->x", "b": "2"}], [SAME], ("layer part 0", "/a")),
        ([{"b": "2", "a": "1"}], [SAME], ("layer part 0", "")),
        ([SAME, SAME], [SAME], ("the layers above", "")),
        ([SAME], [SAME, SAME], ("layer part 1", "")),
    ],
)
def test_the_first_difference_is_named(
    tmp_path: Path, theirs: list[Files], ours: list[Files], place: tuple[str, str]
) -> None:
    difference = compared(tmp_path, theirs, ours)

    assert difference is not None
    assert (difference.part, difference.path) == place


def test_a_mode_is_a_difference(tmp_path: Path) -> None:
    difference = compared(tmp_path, [SAME], [SAME], mode=0o755)

    assert difference is not None
    assert "mode 755" in difference.image


def test_equal_images_are_equal(tmp_path: Path) -> None:
    assert compared(tmp_path, [SAME, SAME], [SAME, SAME]) is None


CONFIG = {
    "created": "2026-01-01T00:00:00Z",
    "config": {
        "User": "1000:0",
        "Env": ["A=1", "B=2"],
        "Labels": {"multinode.torch": "2.13.0"},
        "Entrypoint": ["tini"],
    },
    "rootfs": {"type": "layers", "diff_ids": []},
    "history": [{"created_by": "multinode: torch"}],
}


def with_config(changed: bytes, manifest: bytes = MANIFEST) -> verify.Difference | None:
    """Compare images without layers."""
    ours = Image(("x",), json.dumps(CONFIG).encode(), b"", (), KNOWN)
    return verify.compare_images(Inside("x", manifest, changed, ()), ours, [])


def settings(**changes: object) -> dict[str, object]:
    return {"config": {**CONFIG["config"], **changes}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        (settings(User="0:0"), "config.User"),
        (settings(Entrypoint=["sh", "-c", "x"]), "config.Entrypoint.[0]"),
        (settings(Entrypoint=[]), "config.Entrypoint.[0]"),
        (settings(Env=["A=1", "B=2", "LD_PRELOAD=/x"]), "config.Env.[2]"),
        (settings(Env=["A=1"]), "config.Env.[1]"),
        (settings(Labels={"multinode.torch": "2.14.0"}), "config.Labels.multinode.torch"),
        (settings(OnBuild=["RUN x"]), "config.OnBuild.[0]"),
        (settings(user="0:0"), "config.user"),  # engines read keys without regard to their case
        (settings(Volumes={}), "config.Volumes"),
        ({"history": []}, "history.[0].created_by"),
        ({"created": "2026-01-02T00:00:00Z"}, "created"),
        ({"variant": "v3"}, "variant"),
        ({"config.User": "1000:0", **settings(User="0:0")}, "config.User"),
    ],
)
def test_a_change_of_the_configuration_is_named(changes: dict[str, object], path: str) -> None:
    difference = with_config(json.dumps({**CONFIG, **changes}).encode())

    assert difference is not None
    assert (difference.part, difference.path) == ("configuration", path)


def test_the_same_values_in_another_order_are_the_same() -> None:
    assert with_config(json.dumps(dict(reversed(CONFIG.items())), indent=3).encode()) is None


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"annotations": {"a": "b"}}, "annotations"),
        ({"annotations": {"known": "b"}}, "annotations"),
        ({"annotations": {**KNOWN, "a": "b"}}, "annotations"),
        ({"annotations": {}}, "annotations"),
        ({"annotations": []}, "annotations"),
        ({"subject": {}}, "subject"),
        ({"layers": [{"mediaType": "x", "digest": "x", "size": 1, "urls": ["http://x"]}]}, "layers[0].urls"),
    ],
)
def test_what_a_manifest_says_more_is_named(more: dict[str, object], path: str) -> None:
    data = json.dumps({**json.loads(MANIFEST), **more}).encode()

    difference = with_config(json.dumps(CONFIG).encode(), data)

    assert difference is not None
    assert (difference.part, difference.path) == ("manifest", path)


def test_annotations_of_the_lock_may_be_there_or_not() -> None:
    """An engine that saves an image has none of them."""
    config = json.dumps(CONFIG).encode()

    assert with_config(config, json.dumps({**json.loads(MANIFEST), "annotations": KNOWN}).encode()) is None
    assert with_config(config) is None


def with_layer(theirs: Path, mine: Path) -> verify.Difference | None:
    """Compare images of one layer, of which the configuration of both says that it is ours."""
    digest = sha256(mine)
    config = json.dumps({"rootfs": {"diff_ids": [f"sha256:{digest}"]}}).encode()
    ours = Image(("x",), config, b"", (Layer("part", Written(digest, digest, 1, 1), reused=True),))
    return verify.compare_images(Inside("x", MANIFEST, config, (theirs,)), ours, [mine])


def test_a_layer_is_compared_by_its_content_and_not_by_what_the_configuration_says(tmp_path: Path) -> None:
    layer(tmp_path / "mine", SAME)
    layer(tmp_path / "theirs", {**SAME, "backdoor": "x"})

    difference = with_layer(tmp_path / "theirs", tmp_path / "mine")

    assert difference is not None
    assert (difference.part, difference.path) == ("layer part", "/backdoor")


@pytest.mark.parametrize("is_capable", [True, False])
def test_what_a_listing_could_hide_is_a_difference(tmp_path: Path, is_capable: bool) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path, changed in ((one, False), (other, True)):
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
            first, link = tarfile.TarInfo("a"), tarfile.TarInfo("b")
            first.size, link.type, link.linkname = 4, tarfile.LNKTYPE, "a"
            if changed and is_capable:
                first.pax_headers = {"SCHILY.xattr.security.capability": "x"}
            elif changed:
                tar.addfile(first, io.BytesIO(b"evil"))
                tar.addfile(link)
            tar.addfile(first, io.BytesIO(b"good"))
            tar.addfile(link)

    difference = with_layer(other, one)

    assert difference is not None
    assert (difference.part, difference.path) == ("layer part", "/a")


def test_a_layer_of_too_many_files_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer(tmp_path / "few", {"a": "1"})
    layer(tmp_path / "many", {"a": "1", "b": "2", "c": "3"})
    monkeypatch.setattr(verify, "LARGEST", 2 * (overlay.PER_ENTRY + 200))

    assert list(verify._listing(tmp_path / "few")) == ["a"]
    with pytest.raises(WorldFault, match="the image has too many files"):
        verify._listing(tmp_path / "many")


@pytest.mark.parametrize(
    "more",
    [
        entry(b"x", magic=bytes(8), device=b"zzzzzzzz" * 2) + entry(b"evil", b"x", mode=b"4755") + END,
        END + entry(b"evil", b"x", mode=b"4755") + END,  # after the end for tarfile, an entry for others
        bytes(10240),
    ],
)
def test_a_layer_that_other_readers_read_in_another_way_differs(tmp_path: Path, more: bytes) -> None:
    left, right = tmp_path / "left", tmp_path / "right"
    layer(right, SAME)
    layer(left, SAME)
    left.write_bytes(left.read_bytes().rstrip(b"\0").ljust(4 * 512, b"\0") + more)

    try:
        difference = with_layer(left, right)
    except WorldFault as fault:
        assert fault.fact == "a layer is not a tar"
    else:
        assert difference is not None and (difference.part, difference.path) == ("layer part", "")


def test_the_indexes_of_an_image_are_those_that_lead_to_it() -> None:
    inside = verify.Inside("a:1", b"{}", b"{}", (), digests=("sha256:0", digest_of(b"{}"), "sha256:1"))

    assert inside.indexes == ["sha256:0", "sha256:1"]
