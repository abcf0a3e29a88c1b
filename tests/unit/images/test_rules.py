"""Rules by a list or by one condition: each has an example, and a neighbour that is none.

A wrong change of any of them opens a door that no other test looks at.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import secrets
import stat
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard

from images import pip_config
from images.base import additions
from images.check import provenance, verify
from images.compiling import compiler
from images.context import Access
from images.debian import archive
from images.debian.archive import Unverified
from images.deliver import logins, registry, skopeo
from images.deliver.engine import PODMAN, CommandLine
from images.deliver.registry import Attachment
from images.foreign import tars
from images.foreign.tars import Tar
from images.host import files, limits, process
from images.host.errors import Fault, WorldFault
from images.lock import index_pages
from images.oci.image import Image, write_config
from images.oci.layer import Directories
from images.oci.layer_writer import LayerWriter
from images.oci.reference import Remote
from images.plan import catalog, ignored, planner
from images.plan.plan import Request
from images.platforms import AMD64, ARM64
from images.store.store import Store
from images.wheels.archive import open_wheel
from tests.support import locks
from tests.support.hostile import END, entry
from tests.support.wheels import pack

IMAGE = Image(("a:1",), write_config([], AMD64, {}, "2026-01-01T00:00:00Z"), b"{}", ())


@pytest.mark.parametrize(
    ("host", "plain"),
    [("localhost", True), ("localhost:5000", True), ("127.0.0.1:5000", True), ("127.1.2.3", True),
     ("[::1]:5000", True), ("localhost.evil.example", False), ("127.0.0.1.example", False), ("xlocalhost", False),
     ("128.0.0.1", False), ("[::2]", False), ("localhost:5000.example", False)],
)  # fmt: skip
def test_only_this_machine_speaks_plain_http(host: str, *, plain: bool) -> None:
    assert Remote(host, "a", "1").is_plain is plain


@pytest.mark.parametrize("above", ["", "a/b/"])
@pytest.mark.parametrize(
    ("example", "neighbour"),
    [(".env", "environ"), (".env.local", "xenv.local"), ("prod.env", "prod.envs"), ("_netrc", "a_netrc"),
     (".docker/config.json", ".docker/daemon.json"), (".ssh/id", "ssh/id"),
     (".config/gcloud/a.db", ".config/gcloudx/a"), ("kaggle.json", "kaggle_json"), ("me.p12", "me.p12.txt"),
     (".env.example/a", ".env.example"), (".ssh", "sample.env")],
)  # fmt: skip
def test_a_file_of_secrets_stays_out_and_its_neighbour_does_not(above: str, example: str, neighbour: str) -> None:
    assert ignored.has_private_name(f"{above}{example}")
    assert ignored.has_private_name(f"{above}{example.upper()}")
    assert not ignored.has_private_name(f"{above}{neighbour}")


@pytest.mark.parametrize("section", ["install", "download"])
def test_a_command_s_section_wins_over_global_and_a_variable_over_both(tmp_path: Path, section: str) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(f"[{section}]\nindex-url = https://own\n[global]\nindex-url = https://global\n")

    assert pip_config.merged([file], {})["index-url"] == "https://own"
    assert pip_config.merged([file], {"PIP_INDEX_URL": "https://variable"})["index-url"] == "https://variable"


@pytest.mark.parametrize(
    ("mode", "is_closed", "shared"),
    [(0o700, False, False), (0o755, False, False), (0o775, False, True), (0o757, False, True), (0o777, True, False)],
)
def test_a_store_is_its_owner_s_alone(tmp_path: Path, mode: int, *, is_closed: bool, shared: bool) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(mode)

    assert bool(files.why_shared(tmp_path / "store", is_closed=is_closed)) is shared


def test_a_stranger_s_image_has_no_rights_in_podman(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = list[str]()

    def run(line: Sequence[str], *_: object, **__: object) -> process.Result:
        commands.append(" ".join(line))
        return process.Result(0, "", "")

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0")
    CommandLine(PODMAN, {}).run(IMAGE, ["python3", "-c", "x"])

    assert commands == [
        "podman run --rm --name multinode-0 --sig-proxy=false --stop-timeout 0 --network none --cap-drop all"
        " --security-opt no-new-privileges --interactive --entrypoint python3 a:1 -c x"
    ]


class Answered(SimpleNamespace):
    """An answer that is closed behind a block."""

    def __enter__(self) -> Answered:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("host", "realm", "is_sent"),
    [
        ("host.example", "https://token.example/t", True),
        ("host.example", "http://token.example/t", False),
        ("host.example", "http://host.example/t", False),
        ("host.example", "ftp://host.example/t", False),
        ("localhost:5000", "http://localhost:5001/t", True),
        ("localhost:5000", "https://token.example/t", True),
    ],
)
def test_a_login_goes_to_no_plain_token_server(
    monkeypatch: pytest.MonkeyPatch, host: str, realm: str, *, is_sent: bool
) -> None:
    asked = list[tuple[str, object]]()

    def request(method: str, url: str, **options: Any) -> Any:
        asked.append((url, options["headers"]["Authorization"]))
        return Answered(ok=False)

    monkeypatch.setattr(logins, "find", lambda *_: {"auth": "c2VjcmV0"})
    with registry.Registry(Remote(host, "a", "1"), Access(environ={})) as opened:
        monkeypatch.setattr(opened, "_request", request)
        opened._authorization(f'Bearer realm="{realm}",service="s"')

    assert asked == ([(realm, "Basic c2VjcmV0")] if is_sent else [])


@pytest.mark.parametrize(("said", "attempts"), [("denied: no", 1), ("EOF", 3), ("manifest unknown", 1)])
def test_only_what_may_help_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, attempts: int
) -> None:
    tried, needed = list[object](), list[object]()

    def run(line: Sequence[str], *_: object, **__: object) -> process.Result:
        tried.append(line)
        return process.Result(1, "", said)

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(skopeo, "require_skopeo", lambda _, what: needed.append(what))
    access = Access(environ={"DOCKER_CONFIG": str(tmp_path)}, wait=lambda _: None)
    with pytest.raises(Fault):
        skopeo.Server(Remote("host", "a", "1"), access, tmp_path).inspect("1")

    assert len(tried) == attempts and needed == ["host/a"]


STORES = ("download.pytorch.org", "pytorch-extension.intel.com")


@pytest.mark.parametrize("host", [*STORES, *(f"{store}.example" for store in STORES), "evil.example"])
def test_only_stores_of_files_say_403_for_what_is_not_there(host: str) -> None:
    absent = index_pages._absences(f"https://{host}/simple/six/")

    assert 404 in absent and (403 in absent) is (host in STORES) and 401 not in absent


def index_of(day: datetime.date) -> Any:
    when = datetime.datetime.combine(day, datetime.time(), datetime.timezone.utc)
    return SimpleNamespace(source=SimpleNamespace(suite="bookworm"), date=when)


def test_an_older_index_that_is_taken_lowers_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By steps of a day somebody could go back a year."""
    monkeypatch.setattr(archive, "may_expire", lambda: True)
    day = datetime.date(2026, 1, 10)
    context = replace(locks.context(Store(tmp_path), None, {}), today=day)

    archive.refuse_other_days(index_of(day), context)
    archive.refuse_other_days(index_of(day - datetime.timedelta(1)), context)
    with pytest.raises(Unverified, match="older than one"):
        archive.refuse_other_days(index_of(day - datetime.timedelta(2)), context)


@pytest.mark.parametrize(("tini", "is_there"), [("usr/bin/tini", True), ("tini", False), (None, False)])
def test_a_tini_at_the_root_is_found_by_no_path(tini: str | None, *, is_there: bool) -> None:
    facts: Any = SimpleNamespace(tini=tini, libraries={"libz.so.1": "x"})

    assert additions._has_piece(facts, "tini") is is_there
    assert additions._has_piece(facts, "libz.so.1") and not additions._has_piece(facts, "libx.so.1")


@pytest.mark.parametrize(
    ("kind", "words"),
    [(tarfile.DIRTYPE, "directory"), (tarfile.SYMTYPE, "link to x"), (tarfile.LNKTYPE, "hard link to x"),
     (tarfile.FIFOTYPE, "special file"), (tarfile.REGTYPE, f"sha256:{hashlib.sha256(b'1').hexdigest()}")],
)  # fmt: skip
def test_an_entry_that_differs_is_said_with_all_that_it_is(kind: bytes, words: str) -> None:
    info = tarfile.TarInfo("a")
    info.type, info.linkname = kind, "x" if words.endswith("x") else ""
    info.uid, info.gid, info.mode = 1, 2, 0o640

    data = io.BytesIO(b"1") if kind == tarfile.REGTYPE else None
    assert verify._describe(info, data) == f"{words} mode 640 owner 1:2 time 0"


@pytest.mark.parametrize("above", [(), ("sha256:" + "1" * 64,)])
def test_what_is_attached_to_an_index_above_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, above: tuple[str, ...]
) -> None:
    false = {"digest": "sha256:" + "2" * 64, "mediaType": "x", "artifactType": provenance.CYCLONEDX}
    monkeypatch.setattr(registry, "list_attached", lambda digest, *_: [false] if digest in above else [])
    known = [Attachment(b"{}", "sbom", "f", provenance.CYCLONEDX, b"1")]

    with pytest.raises(WorldFault, match="not the one of this build") if above else nullcontext():
        provenance.compare_attached(known, above, Remote("host", "a", "1"), Access(environ={}))


@pytest.mark.parametrize(
    ("native", "changes", "is_asked"),
    [(AMD64, {}, False), (ARM64, {}, True), (AMD64, {"platform": ARM64}, False), (ARM64, {"platform": ARM64}, False),
     (None, {}, True), (AMD64, {"base_reference": "a/b:1"}, True), (None, {"bytecode": False}, False)],
)  # fmt: skip
def test_an_engine_is_asked_for_where_no_python_here_may_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: Any, changes: Mapping[str, Any], *, is_asked: bool
) -> None:
    asked = list[object]()
    monkeypatch.setattr(compiler, "_engine", lambda *question: asked.append(question))
    context = replace(locks.context(Store(tmp_path), None, {}), compiles=True, native=native)
    plan = replace(planner.make_plan(Request(base="debian", backend="gloo"), catalog.load()), **changes)

    compiler.require_compiler(plan, context)

    assert bool(asked) is is_asked


@pytest.mark.parametrize(("count", "is_read"), [(1, True), (2, False)])
def test_headers_before_one_entry_have_a_bound_in_sum(count: int, *, is_read: bool) -> None:
    long = entry(b"././@LongLink", b"a" + b"\0" * (tars.LONGEST_HEADER - 2000), b"L")
    data = long * count + entry(b"a") + END

    with nullcontext() if is_read else pytest.raises(tarfile.ReadError, match="a header says"):
        assert len([*Tar(io.BytesIO(data))]) == 1


def test_empty_files_are_no_links_to_each_other(tmp_path: Path) -> None:
    with LayerWriter(tmp_path / "layer", Directories()) as layer:
        for name, data in (("a", b""), ("b", b""), ("c", b"1"), ("d", b"1")):
            layer.file(name, data)
        layer.finish()
    tar = zstandard.ZstdDecompressor().stream_reader((tmp_path / "layer").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        kinds = {info.name: info.type for info in opened}

    assert kinds == {"a": tarfile.REGTYPE, "b": tarfile.REGTYPE, "c": tarfile.REGTYPE, "d": tarfile.LNKTYPE}


@pytest.mark.parametrize(
    ("mode", "may_run"),
    [(stat.S_IFREG | 0o755, True), (stat.S_IFREG | 0o644, False), (0o755, False), (stat.S_IFLNK | 0o755, False)],
)
def test_a_file_of_a_wheel_may_run_where_it_is_one_by_its_mode(tmp_path: Path, mode: int, *, may_run: bool) -> None:
    path = pack(tmp_path, {"thing.py": b"1"})
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for info in old.infolist():
            changed = zipfile.ZipInfo(info.filename)
            changed.external_attr = (mode if info.filename == "thing.py" else stat.S_IFREG | 0o644) << 16
            new.writestr(changed, old.read(info.filename))
    with open_wheel(other) as opened:
        runnable = {names[0]: flag for names, _, flag in opened.get_contents()}

    assert runnable["thing.py"] is may_run


def test_limits_stand_once_and_are_all_on_the_page() -> None:
    named = {name: value for name, value in vars(limits).items() if isinstance(value, limits.Limit)}

    assert {*named.values()} == {*limits.TABLE} and all(0 < one.most <= limits.KNOWN.most for one in limits.TABLE)
