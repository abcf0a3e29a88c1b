"""Which of several images that a name may mean is opened, and what is said of where it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from images.check import verify
from images.check.verify import Inside
from images.context import Access
from images.deliver import engine
from images.host.errors import UserFault, WorldFault
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


@pytest.mark.parametrize("found", [[], [DENIED, Docker()]])
def test_a_registry_is_asked_where_every_engine_that_this_user_has_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Sequence[object]
) -> None:
    monkeypatch.setattr(engine, "connect_all", lambda _: found)

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
def test_a_file_is_that_of_the_highest_layer(tmp_path: Path, layers: list[bytes], text: bytes | None) -> None:
    paths = []
    for number, data in enumerate(layers):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(data + END)
    inside = verify.Inside("a:1", b"", b"", tuple(paths))

    if text is None:
        with pytest.raises(UserFault, match=f"not made here: a:1 .no /{LOCK}"):
            inside.file(LOCK)
    else:
        assert inside.file(LOCK) == text
