"""A lock whose Debian packages are no longer on Debian's mirrors, which a proxy on loopback stands for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from images.context import Context
from images.debian import archive, packages
from images.debian.deb import Deb
from images.host.errors import WorldFault
from images.pip_config import Sources
from images.platforms import AMD64
from images.store.store import Store
from tests.support import locks
from tests.support.packages import Archive, simple
from tests.support.web import Reply, Request, listening

SUITE, SHA1 = "bookworm", "a" * 40
OLD = "1:1.0~rc1+deb12u1-1"


@dataclass
class Debian:
    """Debian's servers: mirrors with the newest packages, and snapshots of older ones by name and version."""

    place: Path
    proxy: str = ""
    older: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, request: Request) -> Reply | None:
        """Answer as each of the hosts."""
        self.asked.append(unquote(request.path))
        if "snapshot." not in request.target:
            file = self.place.parent / request.path.removeprefix("/")
            return Reply(200, file.read_bytes()) if file.is_file() else Reply(404)
        if request.path == f"/file/{SHA1}":
            return Reply(200, next(iter(self.older.values())))
        name = unquote(request.path).removeprefix("/mr/binary/").removesuffix("/binfiles")
        rows = [{"hash": "b" * 40, "architecture": "arm64"}, {"hash": SHA1, "architecture": "amd64"}]
        return Reply(200, json.dumps({"binary": name, "result": rows}).encode()) if name in self.older else Reply(404)

    def context(self, place: Path, environ: dict[str, str] | None = None) -> Context:
        """Return what a build works with, whose every request comes here."""
        usual = locks.context(Store(place), Sources(proxy=self.proxy), environ or {})
        return replace(usual, today=locks.DAY)


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Debian]:
    """Write mirrors that have tini in its newest version."""
    published = Archive(tmp_path / "debian")
    published.write({"": [simple("tini")]})
    (tmp_path / "keyring").write_bytes(published.keyring)
    monkeypatch.setattr(archive, "KEYRING", tmp_path / "keyring")
    monkeypatch.setattr(archive, "HERE", archive.HERE.replace("https", "http"))  # the proxy has no certificates
    monkeypatch.setattr(archive, "SERVER", archive.SERVER.replace("https", "http"))
    servers = Debian(published.place)
    with listening(servers.answer) as host:
        servers.proxy = f"http://{host}"
        yield servers


def old(debian: Debian) -> Deb:
    """Return an older tini, which is in a snapshot."""
    _, content = simple("tini", version=OLD)
    debian.older[f"tini/{OLD}"] = content
    return Deb("tini", OLD, "amd64", "tini_old_amd64.deb", hashlib.sha256(content).hexdigest())


def test_what_the_mirrors_have_no_longer_comes_from_a_snapshot(debian: Debian, tmp_path: Path) -> None:
    deb, context = old(debian), debian.context(tmp_path / "store")

    packages.download_packages(SUITE, [deb], AMD64, context)

    assert packages.list_missing_debs(context.store, [deb]) == []
    assert packages.list_unrecorded(context.store, [deb]) == [deb]  # no index that Debian has signed has it


def test_the_newest_is_asked_of_no_snapshot(debian: Debian, tmp_path: Path) -> None:
    [newest] = packages.resolve_single(SUITE, ("tini",), AMD64, debian.context(tmp_path / "first"))

    packages.download_packages(SUITE, [newest], AMD64, debian.context(tmp_path / "store"))

    assert [path for path in debian.asked if "binfiles" in path] == []


def test_a_mirror_that_the_user_names_is_the_only_place(debian: Debian, tmp_path: Path) -> None:
    deb, context = (
        old(debian),
        debian.context(tmp_path / "store", {archive.VARIABLE: f"http://deb.{archive.DOMAIN}/debian"}),
    )

    packages.download_packages(SUITE, [deb], AMD64, context)

    assert packages.list_missing_debs(context.store, [deb]) == [deb]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"package": "gone"}, id="a name that no snapshot has"),
        pytest.param({"version": "1-1"}, id="a version that no snapshot has"),
        pytest.param({"architecture": "riscv64"}, id="another architecture"),
    ],
)
def test_what_no_snapshot_has_stays_missing(debian: Debian, tmp_path: Path, changed: dict[str, str]) -> None:
    deb, context = replace(old(debian), **changed), debian.context(tmp_path / "store")

    packages.download_packages(SUITE, [deb], AMD64, context)

    assert packages.list_missing_debs(context.store, [deb]) == [deb]


def test_another_file_than_that_of_the_lock_is_refused(debian: Debian, tmp_path: Path) -> None:
    deb = replace(old(debian), sha256="0" * 64)

    with pytest.raises(WorldFault, match="cannot download"):
        packages.download_packages(SUITE, [deb], AMD64, debian.context(tmp_path / "store"))


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b'{"result": [{"hash": "../a", "architecture": "amd64"}]}', b"<html>", None]
)
def test_an_answer_that_is_none_is_passed_over(debian: Debian, tmp_path: Path, answer: bytes | None) -> None:
    deb = old(debian)

    def answered(request: Request) -> Reply | None:
        if "snapshot." not in request.target:
            return debian.answer(request)
        return Reply(200, answer) if answer is not None else None

    with listening(answered) as host:
        debian.proxy = f"http://{host}"
        context = debian.context(tmp_path / "store")
        packages.download_packages(SUITE, [deb, replace(deb, package="other")], AMD64, context)

    assert deb in packages.list_missing_debs(context.store, [deb])
