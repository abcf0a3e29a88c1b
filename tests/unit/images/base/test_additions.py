"""What a base lacks, out of packages made here; and the user that is added only where nobody is."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.base import additions
from images.base.additions import LIBRARY, PIECES
from images.host.errors import WorldFault
from images.host.store import Store
from images.layers.entrypoint_layer import USER, with_user
from tests.support.base_facts import facts_of
from tests.support.packages import package
from tests.support.stand_in import PACKAGES, SYSTEM, Files


def test_what_the_base_lacks_comes_with_what_it_needs() -> None:
    bare = additions.lacking(facts_of(SYSTEM, PACKAGES))
    some = additions.lacking(facts_of(SYSTEM, {f"{LIBRARY}/libunwind.so.8": b"", "usr/bin/tini": b""}))

    assert set(bare) == set(PIECES)
    assert "liblzma.so.5" not in some and "tini" not in some and "libunwind.so.8" not in some
    assert "libgoogle-perftools4" in additions.packages(some)


FILES: Files = {
    f"./{LIBRARY}/liba.so.4": "liba.so.4.5",
    f"./{LIBRARY}/liba.so.4.5": "../liba.so",
    "./usr/lib/liba.so": b"a library",
    "./usr/lib/circle.so": "circle.so",
    "./usr/lib/outside.so": "/etc/passwd",
    "./usr/lib/directory": None,
}


@pytest.mark.parametrize("path", [f"{LIBRARY}/liba.so.4", "usr/lib/liba.so"])
def test_a_file_of_a_package_is_read_through_links(path: str, tmp_path: Path) -> None:
    (tmp_path / "a.deb").write_bytes(package("tool", FILES))

    assert additions.file_of(tmp_path / "a.deb", path) == b"a library"


@pytest.mark.parametrize("name", ["circle.so", "outside.so", "directory", "nothing"])
def test_what_is_no_file_of_the_package_is_not_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.deb").write_bytes(package("tool", FILES))

    with pytest.raises(WorldFault, match=f"usr/lib/{name}"):
        additions.file_of(tmp_path / "a.deb", f"usr/lib/{name}")


def test_a_package_that_the_store_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match="libunwind8"):
        additions.read_files(Store(tmp_path), (), ["libunwind.so.8"], facts_of(SYSTEM))


def test_links_lead_to_what_the_base_has_elsewhere_and_replace_nothing() -> None:
    elsewhere = facts_of(SYSTEM, {"usr/lib/libtcmalloc.so.4": b"", f"{LIBRARY}/libtcmalloc.so.4.5.9": b""})

    assert additions.links(elsewhere, "usr/bin/python3.10") == {
        f"{LIBRARY}/libtcmalloc.so.4": "/usr/lib/libtcmalloc.so.4",
        "usr/local/bin/python": "/usr/bin/python3.10",
    }


@pytest.mark.parametrize(
    ("passwd", "added"),
    [
        ("root:x:0:0::/root:/bin/sh\n", True),
        ("", True),
        ("ubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n", False),
        ("multinode:x:7:7::/:/bin/sh\n", False),
        ("odd\n", True),
    ],
)
def test_a_user_is_added_only_where_uid_and_name_are_free(passwd: str, added: bool) -> None:
    assert with_user(passwd) == (f"{passwd}{USER}\n" if added else None)
