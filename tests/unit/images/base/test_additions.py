"""What a base lacks, out of packages made here; and the user that is added only where nobody is."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import zstandard

from images.base import additions
from images.base.base import Facts
from images.debian.deb import Deb
from images.host.errors import UserFault, WorldFault
from images.layers.entrypoint_layer import UID, USER, with_user
from images.oci.layer import Directories
from images.oci.layer_writer import LayerWriter
from images.store.store import Store
from tests.support.base_facts import facts_of
from tests.support.elf import library
from tests.support.packages import make, package
from tests.support.stand_in import LIBRARY, PACKAGES, SYSTEM, Files
from tests.support.stores import keep

# What Debian's packages have for a base that has nothing, in the order in which it is asked for.
OF_DEBIAN = {
    "tini": "tini", "libtcmalloc.so.4": "libgoogle-perftools4", "libnss_wrapper.so": "libnss-wrapper",
    "libunwind.so.8": "libunwind8", "libstdc++.so.6": "libstdc++6", "liblzma.so.5": "liblzma5",
    "libgcc_s.so.1": "libgcc-s1",
}  # fmt: skip


def test_all_that_a_bare_base_lacks_is_read_out_of_packages(tmp_path: Path) -> None:
    bare, store = additions.list_missing_pieces(facts_of(SYSTEM, PACKAGES)), Store(tmp_path / "store")
    places = {name: "usr/bin/tini" if name == "tini" else f"{LIBRARY}/{name}" for name in OF_DEBIAN}
    debs = [make(store, tmp_path, OF_DEBIAN[name], {place: library()}) for name, place in places.items()]

    assert bare == (*OF_DEBIAN,)
    assert additions.packages_of(bare) == additions.packages_of([*bare, *bare][::-1]) == (*sorted(OF_DEBIAN.values()),)
    assert [*additions.read_pieces(store, debs, bare, facts_of(SYSTEM))] == [*places.values()]


def test_what_the_base_lacks_comes_with_what_it_needs() -> None:
    some = additions.list_missing_pieces(facts_of(SYSTEM, {f"{LIBRARY}/libunwind.so.8": b"", "usr/bin/tini": b""}))

    assert "liblzma.so.5" not in some and "tini" not in some and "libunwind.so.8" not in some
    assert "libgoogle-perftools4" in additions.packages_of(some)


FILES: Files = {
    "./usr/lib/circle.so": "circle.so",
    "./usr/lib/outside.so": "/etc/passwd",
    "./usr/lib/directory": None,
}


@pytest.mark.parametrize("name", ["circle.so", "outside.so", "directory", "nothing"])
def test_what_is_no_file_of_the_package_is_not_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.deb").write_bytes(package("tool", FILES))

    with pytest.raises(WorldFault, match=f"usr/lib/{name}"):
        additions.file_of(tmp_path / "a.deb", f"usr/lib/{name}")


TCMALLOC = library(needs=["GLIBC_2.2.5", "GLIBC_2.29", "GLIBCXX_3.4.99"])
NEWER = library(needs=["GLIBC_2.36", "GLIBC_2.4"])
STATIC = library()
BASE = facts_of(SYSTEM, PACKAGES)  # its glibc is 2.35


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, tuple[Deb, ...]]:
    place = tmp_path_factory.mktemp("packages")
    store = Store(place / "store")
    tcmalloc: dict[str, bytes | str] = {
        f"{LIBRARY}/libtcmalloc.so.4": "libtcmalloc.so.4.5.10",
        f"{LIBRARY}/libtcmalloc.so.4.5.10": TCMALLOC,
    }
    return store, (
        make(store, place, "libgoogle-perftools4", tcmalloc),
        make(store, place, "tini", {"usr/bin/tini": NEWER, "usr/bin/tini-static": STATIC}),
        make(store, place, "libnss-wrapper", {f"{LIBRARY}/libnss_wrapper.so": NEWER}),
    )


def read(packages: tuple[Store, tuple[Deb, ...]], names: list[str], facts: Facts = BASE) -> dict[str, bytes]:
    return additions.read_pieces(*packages, names, facts)


def test_files_are_read_through_links_and_a_static_program_needs_no_glibc(
    packages: tuple[Store, tuple[Deb, ...]],
) -> None:
    pieces = read(packages, ["tini", "libtcmalloc.so.4"])

    assert pieces == {"usr/bin/tini": STATIC, f"{LIBRARY}/libtcmalloc.so.4": TCMALLOC}


def test_a_library_is_read_out_of_the_package_that_has_it_in_another_suite(tmp_path: Path) -> None:
    """Debian 13 has it as libgoogle-perftools4t64."""
    content = package(
        "perftools-t64", {f"./{LIBRARY}/libtcmalloc.so.4": TCMALLOC}, Provides="a, libgoogle-perftools4 (= 1)"
    )
    store = Store(tmp_path)
    deb = Deb("perftools-t64", "1", "amd64", "one.deb", keep(store, content, "one.deb"))

    assert additions.read_pieces(store, [deb], ["libtcmalloc.so.4"], BASE) == {f"{LIBRARY}/libtcmalloc.so.4": TCMALLOC}


@pytest.mark.parametrize("needs", ["GLIBC_2.34", "GLIBC_2.36"])
def test_of_a_suite_without_the_static_tini_the_other_is_taken_where_it_runs(needs: str, tmp_path: Path) -> None:
    store, program = Store(tmp_path / "store"), library(needs=[needs])
    debs = (make(store, tmp_path, "tini", {"usr/bin/tini": program}),)

    if needs == "GLIBC_2.34":
        assert additions.read_pieces(store, debs, ["tini"], BASE) == {"usr/bin/tini": program}
    else:
        with pytest.raises(UserFault, match=r"2\.35") as caught:
            additions.read_pieces(store, debs, ["tini"], BASE)
        assert "tini needs glibc 2.36" in caught.value.value


def test_a_newer_glibc_is_refused(packages: tuple[Store, tuple[Deb, ...]]) -> None:
    with pytest.raises(UserFault) as caught:
        read(packages, ["libtcmalloc.so.4", "libnss_wrapper.so"])

    assert "2.35" in caught.value.fact
    assert "libnss-wrapper needs glibc 2.36" in caught.value.value
    assert "tcmalloc" not in caught.value.value and "--base debian" in caught.value.remedy


def test_a_package_that_the_store_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match="libunwind8"):
        additions.read_pieces(Store(tmp_path), (), ["libunwind.so.8"], facts_of(SYSTEM))


def test_links_lead_to_what_the_base_has_elsewhere_and_replace_nothing() -> None:
    libraries = {f"usr/lib/{name}": b"" for name in ("libtcmalloc.so.4", "libnss_wrapper.so")}
    elsewhere = facts_of(SYSTEM, {**libraries, f"{LIBRARY}/libtcmalloc.so.4.5.9": b""})

    assert additions.choose_links(elsewhere, "usr/bin/python3.10") == {
        **{f"{LIBRARY}/{name.rpartition('/')[2]}": f"/{name}" for name in libraries},
        "usr/local/bin/python": "/usr/bin/python3.10",
    }
    without = facts_of({path: content for path, content in SYSTEM.items() if path != "usr/bin/python3"})
    links = additions.choose_links(without, "usr/bin/python3.10")
    assert {links[f"usr/local/bin/{name}"] for name in ("python", "python3")} == {"/usr/bin/python3.10"}


@pytest.mark.parametrize(
    ("passwd", "added"),
    [
        ("root:x:0:0::/root:/bin/sh\n", True),
        ("", True),
        (f"ubuntu:x:{UID}:{UID}::/home/ubuntu:/bin/sh\n", False),
        ("multinode:x:7:7::/:/bin/sh\n", False),
        ("odd\n", True),
    ],
)
def test_a_user_is_added_only_where_uid_and_name_are_free(passwd: str, added: bool) -> None:
    assert with_user(passwd) == (f"{passwd}{USER}\n" if added else None)


@pytest.mark.parametrize("has_directory", [True, False])
def test_pieces_are_written_in_one_order_with_links_where_the_base_looks_elsewhere(
    store: Store, has_directory: bool
) -> None:
    facts = facts_of(SYSTEM if has_directory else {"usr/bin/python3.10": b"", "usr/bin/python3": "python3.10"})
    files = {f"{LIBRARY}/libb.so": b"b", "usr/bin/tini": b"tini", f"{LIBRARY}/liba.so": b"a"}

    def write(given: dict[str, bytes]) -> tuple[bytes, dict[str, tuple[int, str]]]:
        with store.temporary() as place:
            with LayerWriter(place, Directories()) as layer:
                additions.write_pieces(layer, given, facts)
                layer.finish()
            packed = place.read_bytes()
        with tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().stream_reader(packed).read())) as tar:
            return packed, {info.name: (info.mode, info.linkname) for info in tar if not info.isdir()}

    packed, entries = write(files)
    assert packed == write(dict(sorted(files.items())))[0]
    links = {f"usr/lib64/{name}": (0o777, f"/{LIBRARY}/{name}") for name in ("liba.so", "libb.so")}
    assert entries == {
        f"{LIBRARY}/liba.so": (0o644, ""), f"{LIBRARY}/libb.so": (0o644, ""), "usr/bin/tini": (0o755, ""),
        **({} if has_directory else links),
    }  # fmt: skip
