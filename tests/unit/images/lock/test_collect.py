"""What a lock names is brought into the store, and looked at before it is used."""

from __future__ import annotations

import io
import tarfile
import threading
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from images.context import Context
from images.debian import packages as debian
from images.debian.archive import Unverified
from images.debian.deb import Deb
from images.host.errors import Fault, UserFault, WorldFault
from images.lock import collect, index_pages
from images.lock.collect import to_wheel
from images.lock.lock import Artifact
from images.pip_config import Sources
from images.plan.catalog import TORCH_INDEX
from images.plan.plan import SourceOnly
from images.plan.user_files import USER_FILE, UserFile
from images.platforms import AMD64, ARM64, Platform
from images.store import download
from images.store.blobs import sha256
from images.store.store import Store
from images.wheels.archive import Wheel
from tests.support import locks, packages, stores
from tests.support.web import Reply, Request, answered
from tests.support.wheels import pack

ROW = SourceOnly(name="rouge-score", version="0.1.2", requires=("numpy", "six>=1.14.0"))
FILES = {
    "PKG-INFO": b"Metadata-Version: 2.1\nName: rouge-score\nVersion: 0.1.2\nRequires-Dist: wrong\n\nAbout it.\n",
    "setup.py": b"raise SystemExit('nobody may run this')\n",
    "rouge_score/__init__.py": b"",
    "rouge_score/rouge.py": b"x = 1\n",
    "tests/test_rouge.py": b"",
}


def archive(directory: Path, files: dict[str, bytes]) -> Path:
    path = directory / "rouge_score-0.1.2.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"rouge_score-0.1.2/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_an_archive_without_the_package_is_refused(tmp_path: Path) -> None:
    source = archive(tmp_path, {"PKG-INFO": FILES["PKG-INFO"], "other/__init__.py": b""})

    with pytest.raises(WorldFault, match="no package of its name"):
        to_wheel(Store(tmp_path / "store"), source, sha256(source), ROW)


@pytest.mark.parametrize(
    ("files", "fact"),
    [
        ({"rouge_score/__init__.py": b""}, "no metadata"),
        ({"PKG-INFO": b"\xff", "rouge_score/__init__.py": b""}, "cannot read"),
        ({**FILES, "rouge_score/../../../etc/passwd": b""}, "cannot read .*leaves its directory"),
        ({**FILES, "rouge_score/.wh.a": b""}, "cannot read .*'rouge_score-0.1.2/rouge_score/.wh.a' would hide"),
    ],
)
def test_an_archive_that_is_not_in_order_is_refused(tmp_path: Path, files: dict[str, bytes], fact: str) -> None:
    source = archive(tmp_path, files)

    with pytest.raises(WorldFault, match=rf"{fact}.*") as caught:
        to_wheel(Store(tmp_path / "store"), source, sha256(source), ROW)

    assert source.name in caught.value.value


@pytest.mark.parametrize("data", [b"", b"no archive", b"\x1f\x8b damaged", b"BZh damaged", b"\xfd7zXZ\0 damaged"])
def test_bytes_that_are_no_archive_are_refused(tmp_path: Path, data: bytes) -> None:
    source = tmp_path / "rouge_score-0.1.2.tar.gz"
    source.write_bytes(data)

    with pytest.raises(WorldFault, match=r"a source archive.* rouge_score"):
        to_wheel(Store(tmp_path / "store"), source, sha256(source), ROW)


@pytest.mark.parametrize("kind", [WorldFault, Unverified])
def test_without_a_network_what_is_remembered_counts_but_a_bad_signature_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[WorldFault]
) -> None:
    def bring(*_: object) -> None:
        raise kind("a mirror", "of Debian", "nothing")

    monkeypatch.setattr(debian, "download_packages", bring)
    context = locks.context(Store(tmp_path), Sources(), {})

    if kind is Unverified:
        with pytest.raises(Unverified):
            debian.list_unsigned("bookworm", [locks.TINI], AMD64, context)
    else:
        assert debian.list_unsigned("bookworm", [locks.TINI], AMD64, context) == [locks.TINI]


@pytest.mark.parametrize("name", ["thing/a.py", "../evil.py"])
def test_a_wheel_is_looked_at_before_it_is_used(tmp_path: Path, name: str) -> None:
    store, path = Store(tmp_path / "store"), pack(tmp_path, {name: b"x"})
    digest, filename = sha256(path), path.name
    locked = locks.lock([locks.artifact("thing", "1.0", filename, digest)], debs=())
    kept = store.keep(path, digest, filename)

    if name.startswith(".."):
        with pytest.raises(WorldFault, match="cannot install a wheel"):
            collect.collect_packages(locked, locks.context(store, None, {}))
    else:
        assert collect.collect_packages(locked, locks.context(store, None, {})) == [Wheel("thing", "1.0", digest, kept)]


def test_a_damaged_file_is_missing(tmp_path: Path) -> None:
    store, path = Store(tmp_path / "store"), pack(tmp_path, {"thing/a.py": b"x"})
    digest = sha256(path)
    locked = locks.lock([locks.artifact("thing", "1.0", path.name, digest)], debs=())
    kept = store.keep(path, digest, path.name)

    assert collect.list_missing_files(locked, store) == []
    kept.write_bytes(b"damaged")
    assert collect.list_missing_files(locked, store) == [path.name]


@pytest.mark.parametrize(("jobs", "at_once"), [(1, 4), (6, 6)])
def test_four_files_are_downloaded_at_once_or_as_many_as_there_are_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, at_once: int
) -> None:
    """One processor waits for the network as long as four do."""
    meeting = threading.Barrier(at_once)
    running, most = [0], [0]

    def fetch(artifact: Artifact, *_: object) -> Wheel:
        running[0] += 1
        most[0] = max(most[0], running[0])
        meeting.wait(5)  # breaks where fewer run at once
        running[0] -= 1
        meeting.wait(5)
        return Wheel(artifact.name, "1", artifact.sha256, tmp_path)

    monkeypatch.setattr(collect, "_wheel", fetch)
    locked = locks.lock([locks.artifact(f"a{number}", "1.0") for number in range(2 * at_once)], debs=())
    context = locks.context(Store(tmp_path), Sources(), {})

    wheels = collect.collect_packages(locked, replace(context, settings=replace(context.settings, jobs=jobs)))

    assert [wheel.project for wheel in wheels] == [artifact.name for artifact in locked.added] and most[0] == at_once


@pytest.mark.parametrize("pip", [None, Sources()])
def test_a_file_of_the_users_own_that_is_missing_is_named_and_not_looked_for(
    tmp_path: Path, pip: Sources | None
) -> None:
    store = Store(tmp_path)
    files = (UserFile("a.deb", "7" * 64), UserFile("b", stores.keep(store, b"1", USER_FILE)))
    locked = locks.lock([], debs=(), user_files=files)

    with pytest.raises(WorldFault, match="files of the lock are missing") as caught:
        collect.collect_packages(locked, locks.context(store, pip, {}))

    assert "/workspace/a.deb (a file of your own)" in caught.value.value and "/workspace/b" not in caught.value.value
    assert "--script FILE or --workdir DIR" in caught.value.remedy


@pytest.mark.parametrize("pip", [None, Sources()])
def test_what_is_missing_is_taken_from_the_wheelhouse_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pip: Sources | None
) -> None:
    """Debian's mirror has dropped the .deb."""
    store, given = Store(tmp_path / "store"), tmp_path / "given"
    given.mkdir()
    wheel = pack(given, {"thing/a.py": b"x"})
    package = given / locks.TINI.filename
    package.write_bytes(b"a package")
    deb = replace(locks.TINI, sha256=sha256(package))
    locked = locks.lock([replace(locks.artifact("thing", "1.0", wheel.name, sha256(wheel)), url="")], debs=(deb,))
    monkeypatch.setattr(index_pages, "read_page", lambda *_, **__: pytest.fail("an index is asked"))
    monkeypatch.setattr(debian, "download_packages", lambda *_: pytest.fail("a mirror is asked"))

    collect.collect_packages(locked, locks.context(store, pip, {}, str(given)))

    assert collect.list_missing_files(locked, store) == []


def test_a_file_of_another_sha256_in_the_wheelhouse_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / locks.TINI.filename).touch()
    context = locks.context(Store(tmp_path / "store"), None, {}, str(tmp_path))

    with pytest.raises(WorldFault, match=r"files of the lock are missing: .*tini"):
        collect.collect_packages(locks.lock(), context)


def test_a_wheelhouse_that_is_not_there_is_said_offline_too(tmp_path: Path) -> None:
    context = locks.context(Store(tmp_path / "store"), None, {}, str(tmp_path / "none"))

    with pytest.raises(UserFault, match="no such directory"):
        collect.collect_packages(locks.lock(), context)


PACKAGES = "--wheelhouse DIR with those very files in it"
BUNDLE = "; or --offline BUNDLE with the bundle made from the lock"
ARCHIVE = "the archive of the transformers release on GitHub"
SCRIPTS = "--examples PATH with a copy of that archive"
BELOW = "--base oci:DIRECTORY or archive:FILE with that base"


@pytest.mark.parametrize(
    ("files", "remedy"),
    [
        ({"six-1.17.0-py3-none-any.whl": "PyPI", "torch-2.13.0%2Bcpu-py3-none-any.whl": TORCH_INDEX,
          "oneccl_bind_pt-2.4.0-py3-none-any.whl": "Intel's wheel index", "seqeval-1.2.2.tar.gz": "PyPI",
          "tini_0.19_amd64.deb": "Debian's mirror, or its snapshots"}, PACKAGES),
        ({"examples.tar": ARCHIVE}, SCRIPTS),
        ({f"sha256:{'0' * 64}": "the registry of the base"}, BELOW),
        ({"/workspace/a.deb": "a file of your own"}, "--script FILE or --workdir DIR with it"),
        ({f"sha256:{'0' * 64}": "the registry of the base", "examples.tar": ARCHIVE,
          "tini_0.19_amd64.deb": "Debian's mirror, or its snapshots"}, f"{BELOW} and {SCRIPTS} and {PACKAGES}"),
    ],
)  # fmt: skip
def test_a_file_of_a_lock_is_given_by_the_option_for_its_kind(files: dict[str, str], remedy: str) -> None:
    value = ", ".join(f"{name} ({place})" for name, place in files.items())
    unasked = WorldFault("no answer", "of https://a", "")

    for more, fault in (
        ("", collect.files_missing([*files])),
        (
            "; the lock was made with https://a, https://b",
            collect.files_missing([*files], None, ["https://a", "https://b"]),
        ),
        ("; no answer: of https://a", collect.files_missing([*files], unasked)),
    ):
        assert (fault.value, fault.remedy) == (value + more, remedy + BUNDLE)


MOVED = WorldFault("cannot download", "http://old (404)", "check the network", download.MOVED)
EXPIRED = UserFault("a server refuses the login", "http://old (403)", "another login", download.MOVED)


@pytest.mark.parametrize(
    ("first", "answer", "tried", "said"),
    [
        (None, "new", ["new"], None),
        (MOVED, "new", ["old", "new"], None),
        (EXPIRED, "new", ["old", "new"], None),
        (EXPIRED, "old", ["old", "old"], "403"),
        (WorldFault("cannot download", "http://old (502)", "check the network"), "new", ["old"], "502"),
        (EXPIRED, UserFault("no set of packages fits", "x", "y"), ["old"], "403"),
        (MOVED, WorldFault("files of the lock are missing", "thing", "y"), ["old"], "files of the lock are missing"),
    ],
)
def test_an_address_that_is_good_no_more_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: Fault | None, answer: str | Fault, tried: list[str],
    said: str | None,
) -> None:  # fmt: skip
    """A resolution is kept for months, and no file of it need be in the store; nor need it say where they are."""
    path = pack(tmp_path, {"thing/a.py": b"x"})
    digest, name = sha256(path), path.name
    file = replace(locks.artifact("thing", "1.0", name, digest), url="old" if first else "")
    context = locks.context(Store(tmp_path / "store"), Sources(), {})
    were: list[str] = []

    def fetch(store: Store, url: str, *_: object) -> str:
        were.append(url)
        if first and url == "old":
            raise first
        store.keep(path, digest, name)
        return digest

    def addresses(*_: object) -> dict[str, str]:
        if isinstance(answer, Fault):
            raise answer
        return {name: answer}

    monkeypatch.setattr(collect, "download_file", fetch)
    monkeypatch.setattr(collect, "find_addresses", addresses)
    with pytest.raises(Fault, match=said) if said else nullcontext():
        assert [wheel.sha256 for wheel in collect.collect_packages(locks.lock([file], debs=()), context)] == [digest]
    assert were == tried


def test_an_index_of_a_lock_that_is_no_address_is_named(tmp_path: Path) -> None:
    context = locks.context(Store(tmp_path), Sources(), {})
    locked = locks.lock(bindings_index="https://[::1")  # as a lock may have it that somebody else wrote
    with pytest.raises(UserFault, match="not an address"):
        collect.find_addresses(locked, [], context)


(USUAL,), MIRROR = index_pages.list_addresses(Sources()), "https://host/simple"


@pytest.mark.parametrize(
    ("indexes", "sources", "url", "is_at_hand"),
    [
        ((USUAL,), Sources(), "https://files/a.whl", True),
        ((USUAL,), Sources(index=f"{USUAL}/"), "https://files/a.whl", True),
        ((USUAL, TORCH_INDEX), Sources(extra=(MIRROR,)), "https://files/a.whl", True),
        ((USUAL,), Sources(index=MIRROR), "https://files/a.whl", False),
        ((MIRROR,), Sources(), "https://files/a.whl", False),
        ((MIRROR,), Sources(index="https://me:secret@host/simple/"), "https://files/a.whl", True),
        ((USUAL,), Sources(no_index=True), "https://files/a.whl", False),
        ((TORCH_INDEX,), Sources(no_index=True), "https://files/a.whl", False),
        ((USUAL,), Sources(), "http://files/a.whl", False),
        ((USUAL,), Sources(trusted=("files",)), "http://files/a.whl", True),
        ((), Sources(), "file:///wheels/a.whl", True),
        ((USUAL,), Sources(), "", False),
    ],
)
def test_an_address_of_a_lock_is_asked_where_its_indexes_are(
    indexes: tuple[str, ...], sources: Sources, url: str, *, is_at_hand: bool
) -> None:
    file = replace(locks.artifact("a", "1"), url=url)

    assert collect.is_at_hand(file, locks.lock([file], indexes=indexes), sources) is is_at_hand


def index_page(name: str, digest: str) -> bytes:
    return f'<a href="{name}#sha256={digest}">{name}</a>'.encode()


@pytest.mark.parametrize(
    ("at", "elsewhere", "expected"),
    [
        ("https://one/simple/thing/", 404, "https://one/simple/thing/{}"),
        ("https://two/simple/thing/", 404, "https://two/simple/thing/{}"),
        ("https://two/simple/thing/", 500, "https://two/simple/thing/{}"),  # another one is out of order
        ("https://two/simple/thing/", 200, "https://two/simple/thing/{}"),  # another one has another file of that name
        (f"{TORCH_INDEX}/thing/", 404, f"{TORCH_INDEX}/thing/{{}}"),
        ("https://intel/simple/thing/", 404, "https://intel/simple/thing/{}"),
        ("https://page/links", 404, "https://page/{}"),
        ("https://theirs/links", 404, "https://theirs/{}"),
        ("directory", 500, "{}"),
        ("nowhere", 404, "files of the lock are missing"),
        ("nowhere", 500, "does not answer as a package index"),
    ],
)
def test_a_file_of_a_lock_is_looked_for_in_all_places(tmp_path: Path, at: str, elsewhere: int, expected: str) -> None:
    path = pack(tmp_path, {"thing/a.py": b"x"})
    name, digest = path.name, sha256(path)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / name).write_bytes(path.read_bytes() if at == "directory" else b"another")
    links = (str(tmp_path / "wheels"), "https://page/links")
    sources = Sources(index="https://one/simple", extra=("https://two/simple",), links=links)
    file = locks.artifact("thing", "1.0", name, digest)
    locked = locks.lock(
        [file], bindings_index="https://intel/simple", find_links="https://theirs/links", indexes=("i",)
    )

    def answer(request: Request) -> Reply:
        head = {"Content-Type": "text/html"}
        if request.target == at:
            return Reply(200, index_page(name, digest), head)
        return Reply(elsewhere, index_page(name, "0" * 64), head)

    context = locks.context(Store(tmp_path / "store"), sources, {})
    with answered(answer) as asked:
        if at != "nowhere":
            place = expected.format(tmp_path / "wheels" / name if at == "directory" else name)
            assert collect.find_addresses(locked, [file, file], context) == {name: place}
        else:
            with pytest.raises(WorldFault, match="files of the lock are missing") as caught:
                collect.find_addresses(locked, [file], context)
            assert expected in f"{caught.value.fact} {caught.value.value}"
            assert f"{name} (PyPI); the lock was made with i" in caught.value.value
    assert at != "directory" or not asked


def test_no_index_is_asked_over_a_line_that_anybody_may_write_into(tmp_path: Path) -> None:
    context = locks.context(Store(tmp_path), Sources(index="http://one/simple"), {})

    with answered(lambda _: None) as asked, pytest.raises(UserFault, match="http://one/simple"):
        collect.find_addresses(locks.lock(), [locks.artifact("thing", "1.0")], context)
    assert asked == []


def test_no_index_is_asked_where_pip_asks_none(tmp_path: Path) -> None:
    file = locks.artifact("thing", "1.0")
    locked = locks.lock([file], bindings_index="https://intel/simple", find_links="https://theirs/links")
    context = locks.context(Store(tmp_path), Sources(index="https://one/simple", no_index=True), {})

    with answered(lambda _: None) as asked, pytest.raises(WorldFault, match="files of the lock are missing"):
        collect.find_addresses(locked, [file], context)
    assert asked == []


@pytest.mark.parametrize("come", ["all", "none", "some"])
def test_packages_of_debian_are_brought_for_each_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, come: str
) -> None:
    store, asked = Store(tmp_path / "store"), list[tuple[str, list[str], str]]()
    here, there = (packages.make(store, tmp_path / "made", name, {"a": b""}) for name in ("here", "there"))
    for deb in (here, there):
        if deb is there or come != "some":
            store.drop(store.place(deb.sha256, deb.filename))

    def bring(suite: str, debs: list[Deb], platform: Platform, context: Context) -> None:
        asked.append((suite, [deb.package for deb in debs], str(platform)))
        for deb in debs if come != "none" else ():
            packages.make(store, tmp_path / "made", deb.package, {"a": b""})

    monkeypatch.setattr(debian, "download_packages", bring)
    file = locks.artifact("torch", "2.13.0+cpu")
    wheel = Wheel("torch", "2.13.0+cpu", file.sha256, tmp_path)
    monkeypatch.setattr(collect, "_fetch_wheels", lambda *_: [wheel])
    locked = locks.lock([file], debs=[here], platform=ARM64, bytecode=True, twin=(there,))
    context = locks.context(store, Sources(), {})
    monkeypatch.setattr(collect, "find_addresses", lambda *_: {})

    if come == "none":
        with pytest.raises(WorldFault, match="files of the lock are missing") as caught:
            collect.collect_packages(locked, context)
        assert "here.deb" in caught.value.value and len(asked) == 1
        return
    assert collect.collect_packages(locked, context) == [wheel]
    rows = [("bookworm", ["here"], "linux/arm64"), ("bookworm", ["there"], "linux/amd64")]
    assert asked == rows[come == "some" :]
