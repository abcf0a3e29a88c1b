"""The parts of a transfer that need no registry: the address of a mirror, and how bytes are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.host.context import Access
from images.host.errors import UserFault
from images.host.store import Store
from images.oci import transfer
from images.oci.reference import Remote
from images.oci.skopeo import Place


@pytest.mark.parametrize(
    ("mirror", "expected"),
    [
        ("mirror.example", Place("mirror.example", "library/a", plain=False)),
        ("mirror.example/hub/", Place("mirror.example", "hub/library/a", plain=False)),
        ("http://mirror.example:5000", Place("mirror.example:5000", "library/a", plain=True)),
        ("https://localhost:5000", Place("localhost:5000", "library/a", plain=False)),
        ("127.0.0.1:5000", Place("127.0.0.1:5000", "library/a", plain=True)),
        ("[::1]:5000", Place("[::1]:5000", "library/a", plain=True)),
    ],
)
def test_the_address_of_a_mirror(mirror: str, expected: Place) -> None:
    assert transfer.mirror_place(mirror, "library/a") == expected


@pytest.mark.parametrize("mirror", ["ftp://host", "https://", "user:secret@host", "host/UPPER", "a b"])
def test_a_bad_mirror_is_refused(tmp_path: Path, mirror: str) -> None:
    access = Access(environ={}, mirror=mirror)

    with (
        pytest.raises(UserFault, match="mirror") as caught,
        transfer.repository(Remote("docker.io", "library/a", "1"), Store(tmp_path), access),
    ):
        pass

    assert "secret" not in str(caught.value)


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
