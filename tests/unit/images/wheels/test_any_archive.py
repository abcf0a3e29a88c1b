"""Whatever an archive holds, it is taken or refused by a Fault: nothing else changes, memory and time have bounds."""

from __future__ import annotations

import datetime
import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from images.base.inspect import debian_site
from images.check import components
from images.foreign.paths import find_flaw
from images.host.errors import Fault
from images.layers import examples, wheel
from images.lock.collect import to_wheel
from images.oci.layer import Directories
from images.oci.layer_writer import LayerWriter
from images.plan.plan import SourceOnly
from images.store.blobs import sha256
from images.store.store import Store
from images.wheels.archive import Wheel
from images.wheels.content import read_content
from tests.support.hostile import changed, changes, watched
from tests.support.wheels import pack

BELOW = ("usr/local/", "workspace/transformers/")
INFO, DATA = "thing-1.0.dist-info", "thing-1.0.data"
DAY = datetime.date(2026, 1, 1)
ROW = SourceOnly(name="thing", version="1.0", requires=())
Built = Callable[[Path], None]

parts = st.sampled_from([
    "..", ".", "", "a", "a.py", "ü", "\n", "\\", "x" * 256, ".wh.a", ".wh..wh..opq", "thing", "__init__.py", INFO, DATA,
    "purelib", "platlib", "scripts", "headers", "data", "METADATA", "WHEEL", "RECORD", "INSTALLER", "entry_points.txt",
    "PKG-INFO", "examples", "__pycache__", "thing-1.0.data/data/lib/liba.so", "METADATA",
])  # fmt: skip
names = st.lists(parts | st.text(max_size=5), min_size=1, max_size=5).map("/".join)
lines = st.sampled_from([
    "[console_scripts]", "[gui_scripts]", "a = b:c", "a = ", "a", "../a = b:c", ".. = b:c", "%(a)s = %(b", "a/b,,",
    "Name: x", "Name: thing", f"Version: {'9' * 5000}", "Version: 1.0", "License: \u2028", "Home-page: https://x/",
    "Classifier: License :: x", "License-Expression: MIT AND (", "License-Expression: " + "(" * 3000,
    "Project-URL: Homepage, http://a/%", "Wheel-Version: 1.0", "Root-Is-Purelib: true", '"', "a,sha256=x,1",
    ",,,", "\0",
])  # fmt: skip
contents = st.binary(max_size=40) | st.lists(lines, max_size=4).map(lambda rows: "\n".join(rows).encode())
files = st.dictionaries(names, contents, max_size=5)


def assert_in_place(layer: Path) -> None:
    """Assert that what was written is below the directories meant for it."""
    data = zstandard.ZstdDecompressor().stream_reader(layer.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for info in tar:
            assert find_flaw(info.name) is None
            assert info.isdir() or info.name.startswith(BELOW)


def install(path: Path) -> None:
    read_content(Store(path.parent / "store"), sha256(path), path)
    with LayerWriter(path.parent / "layer", Directories()) as layer:
        wheel.write_wheel(layer, path, debian_site("3.11"), wheel.Parts({}, {}, re.compile("(?!)")))
        layer.finish()
    assert_in_place(path.parent / "layer")


def describe(path: Path) -> None:
    """Read a wheel as an SBOM does."""
    thing = Wheel("thing", "1.0", sha256(path), path)
    said = read_content(Store(path.parent / "store"), thing.sha256, path)
    components.document("a", "1", DAY, [components.of_wheel(thing, said.metadata)]).encode()


def take_examples(path: Path) -> None:
    with LayerWriter(path.parent / "layer", Directories()) as layer:
        examples.write_examples(layer, path)
        layer.finish()
    assert_in_place(path.parent / "layer")


def make_wheel(path: Path) -> None:
    store = Store(path.parent / "store")
    digest, name = to_wheel(store, path, sha256(path), ROW)
    read_content(store, digest, store.place(digest, name))


def use(path: Path, data: bytes, built: Built) -> None:
    """Write bytes to a file and use it; a Fault is an answer like any other."""
    path.write_bytes(data)
    try:
        built(path)
    except Fault as fault:
        assert path.name.removesuffix(".tar.gz") in fault.value and fault.remedy


def as_tar(members: Mapping[str, bytes], kinds: list[bytes], head: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number, (name, data) in enumerate(members.items()):
            info = tarfile.TarInfo(f"{head}{name}")
            info.type = kinds[number % len(kinds)]
            info.linkname = name
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any")


@given(data=st.binary(max_size=200))
@pytest.mark.parametrize("built", [install, describe, take_examples, make_wheel])
def test_any_bytes_are_taken_or_refused(place: Path, built: Built, data: bytes) -> None:
    with watched(place) as scratch:
        use(scratch / "thing-1.0-py3-none-any.whl", data, built)


@given(members=files, recorded=files, at=st.just([]) | changes)
@pytest.mark.parametrize("built", [install, describe])
def test_any_wheel_is_taken_or_refused(
    place: Path, built: Built, members: dict[str, bytes], recorded: dict[str, bytes], at: list[tuple[int, int]]
) -> None:
    with watched(place) as scratch:
        try:
            path = pack(scratch, members, recorded=recorded if len(recorded) > 3 else {})
        except (UnicodeEncodeError, UserWarning):
            return  # no zip has that name
        use(path, changed(path.read_bytes(), at), built)


@given(
    members=files, at=changes, head=st.sampled_from(["thing-1.0/", "./thing-1.0/", "/", "../", ""]),
    kinds=st.lists(st.sampled_from([b"0", b"1", b"2", b"3", b"5", b"6", b"S", b"L", b"x"]), min_size=1, max_size=3),
)  # fmt: skip
@pytest.mark.parametrize("built", [take_examples, make_wheel])
def test_any_source_archive_is_taken_or_refused(
    place: Path, built: Built, members: dict[str, bytes], at: list[tuple[int, int]], head: str, kinds: list[bytes]
) -> None:
    package = {"PKG-INFO": b"Name: thing\nVersion: 1.0\n", "thing/__init__.py": b"", "examples/pytorch/run.py": b""}
    with watched(place) as scratch:
        data = as_tar({**package, **members}, [b"0", *kinds], head)
        use(scratch / "thing-1.0.tar.gz", changed(data, at), built)


def test_a_wheel_of_nothing_but_directories_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("/", "../", f"{INFO}/", f"{DATA}/"):
            file.writestr(name, b"")

    with pytest.raises(Fault, match="cannot install a wheel"):
        install(path)
