"""The base for real: apt chooses and downloads its packages, mmdebstrap makes it of them."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import zstandard

from images.base import debian
from images.base.base import Base
from images.debs import apt, bootstrap, mirrors
from images.foreign import sandbox
from images.host import process
from images.host.context import Context
from images.host.errors import WorldFault
from images.host.store import Store
from images.layers import bytecode, interpreter
from images.lock.lock import Debian
from images.plan import catalog
from tests.support import locks
from tests.support.harness import call

ROW = catalog.load().debian
MERGED = {name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")}
DAY, NEXT = datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)


@dataclass(frozen=True)
class Fresh:
    """A base from an empty store."""

    store: Store
    choice: apt.Choice
    base: Base


def on(store: Store, day: datetime.date, environ: Mapping[str, str]) -> Context:
    """Make the context of a day."""
    return replace(locks.context(store, None, environ), today=day)


def resolve(store: Store, day: datetime.date, environ: Mapping[str, str] = os.environ) -> apt.Choice:
    """Choose the packages of the base in versions.toml."""
    return apt.resolve(ROW.suite, ROW.packages, on(store, day, environ))


def recipe(choice: apt.Choice) -> Debian:
    """Write down a choice as a lock does."""
    return Debian(ROW.suite, ROW.packages, choice.sources, choice.debs)


@pytest.fixture(scope="module")
def fresh(module_path: Path) -> Fresh:
    store = Store(module_path / "multinode")
    chosen = resolve(store, DAY)
    made = debian.make(store, recipe(chosen), "3.11", os.environ)
    assert not made.layers[0].reused
    return Fresh(store, chosen, made)


def copy_of(fresh: Fresh, root: Path, *, without: Sequence[str] = ()) -> Store:
    """Make a store with the packages of another and the choice among them, without a base."""
    shutil.copytree(fresh.store.root / "records/debs", root / "records/debs")
    for deb in fresh.choice.debs:
        if deb.package not in without:
            target = root / "blobs" / deb.sha256 / deb.filename
            target.parent.mkdir(parents=True)
            os.link(fresh.store.root / "blobs" / deb.sha256 / deb.filename, target)
    return Store(root)


def test_the_base_is_its_packages(fresh: Fresh) -> None:
    assert fresh.base.facts.packages == {deb.package: deb.version for deb in fresh.choice.debs}
    assert {*ROW.packages, "apt", "dpkg", "bash"} <= fresh.base.facts.packages.keys()
    assert list(fresh.choice.debs) == sorted(fresh.choice.debs)
    for deb in fresh.choice.debs:
        assert fresh.store.whole(deb.sha256, deb.filename)
    assert "perl-base" in fresh.base.facts.packages  # essential; the rest of Perl is what usrmerge would bring
    assert fresh.base.facts.packages.keys().isdisjoint(("perl", "usrmerge"))
    assert {name: fresh.base.facts.directories.links[name] for name in ("bin", "lib", "lib64", "sbin")} == MERGED
    assert not list((fresh.store.root / "aside").iterdir())


def test_neither_is_made_twice(fresh: Fresh) -> None:
    """Without PATH, nothing can be started."""
    assert resolve(fresh.store, DAY, {}) == fresh.choice
    again = debian.make(fresh.store, recipe(fresh.choice), "3.11", {})
    assert again.layers[0].reused
    assert (again.layers[0].written, again.facts) == (fresh.base.layers[0].written, fresh.base.facts)


@contextmanager
def opened(fresh: Fresh) -> Iterator[tarfile.TarFile]:
    """Open the layer for one reading."""
    blob = fresh.store.blob(fresh.base.layers[0].written.digest)
    assert blob
    with (
        blob.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as layer,
    ):
        yield layer


def test_apt_works_in_its_root(fresh: Fresh, tmp_path: Path) -> None:
    root = tmp_path / "root"
    with opened(fresh) as layer:
        layer.extraction_filter = lambda member, _: member  # Debian 12's Python has no `filter` for extractall
        layer.extractall(root)

    listed = (root / "etc/apt/sources.list").read_text()
    assert listed == fresh.choice.sources
    assert "file:" not in listed
    assert not list((root / "etc/apt/sources.list.d").iterdir())
    audit = call(["dpkg", f"--admindir={root}/var/lib/dpkg", "--audit"])
    assert (audit.code, audit.text) == (0, "")
    if os.getuid() == 0:
        assert call(["chroot", str(root), "apt-get", "check"]).code == 0
        uris = call(["chroot", str(root), "apt-get", "--print-uris", "update"]).out.split("\n")
        places = {line.split("'")[1].removesuffix("/InRelease") for line in uris if "/InRelease" in line}
        suite = ROW.suite
        assert {place.rpartition("/")[2] for place in places} == {suite, f"{suite}-updates", f"{suite}-security"}


def test_what_dpkg_leaves_out_is_left_out_of_what_was_unpacked_before_it(tmp_path: Path) -> None:
    share, old = tmp_path / "usr/share", 1_000_000_000
    kept, gone = share / "doc/bash/copyright", (share / "man/man1/ls.1", share / "doc/bash/examples/a")
    for path in (kept, *gone, tmp_path / bootstrap.OPTIONS, tmp_path / bootstrap.CONFIGURED):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    os.utime(share / "man", (old, old))

    done = process.run(["sh", "-c", bootstrap.UNPACKED, "hook", str(tmp_path)], os.environ, "")

    assert (done.code, kept.exists(), [path.exists() for path in gone]) == (0, True, [False] * 2)
    assert ((share / "man").stat().st_mtime, (share / "doc/bash/examples").exists()) == (old, False)
    assert (tmp_path / bootstrap.CONFIGURED).read_text() == "options"


def test_keys_of_a_host_are_not_made_and_not_there(fresh: Fresh, tmp_path: Path) -> None:
    done = process.run(["sh", "-c", bootstrap.HOST_KEYS, "hook", str(tmp_path)], os.environ, "")

    standing = sorted(path.name for path in (tmp_path / "etc/ssh").iterdir())
    assert (done.code, standing) == (0, [f"ssh_host_{kind}_key" for kind in ("ecdsa", "ed25519", "rsa")])
    server = next(deb for deb in fresh.choice.debs if deb.package == "openssh-server")
    place = fresh.store.place(server.sha256, server.filename)
    script = call(["dpkg-deb", "--info", str(place), "postinst"]).out
    assert sorted(re.findall(r"echo /etc/ssh/(\w+)", script)) == standing  # those that it makes by default
    with opened(fresh) as layer:
        names = layer.getnames()
    assert "etc/ssh/sshd_config" in names
    assert not [name for name in names if name.startswith("etc/ssh/ssh_host_")]


def test_nothing_tells_how_it_was_made(fresh: Fresh) -> None:
    with opened(fresh) as layer:
        for info in layer:
            assert not info.name.startswith(bootstrap.REPOSITORY), info.name
            assert info.name != bootstrap.UNSAFE
            data = layer.extractfile(info) if info.isreg() else None
            text = data.read() if data else b""
            assert os.fsencode(fresh.store.root) not in text, info.name
            assert b"trusted=yes" not in text, info.name


def test_its_python_compiles_the_same_before_the_base_is_made(fresh: Fresh, tmp_path: Path) -> None:
    """The wheel has modules of the standard library: all kinds of code, and names that it shares with what compiles."""
    store, found = fresh.store, sandbox.find(os.environ)
    of_base = interpreter.of_base(store, fresh.base)
    library = bytecode.unpacked(store, of_base, found, trusted=True).root / "usr/lib/python3.11"
    with zipfile.ZipFile(tmp_path / "a-1-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in [*sorted(library.glob("*.py")), *sorted(library.glob("asyncio/*.py"))]:
            if path.is_file():  # one leads to /etc
                wheel.write(path, f"a/{path.relative_to(library)}")
    of_packages = interpreter.of_packages(store, ROW.suite, fresh.choice.debs, "3.11", os.environ)

    made = []
    for source in (of_base, of_packages):
        python = bytecode.unpacked(store, source, found, trusted=True)
        given = [("a", "0" * 64, tmp_path / "a-1-py3-none-any.whl")]
        made.append(bytecode.make(store, given, python, trimmed=False))

    assert (of_packages.path, of_packages.site) == (of_base.path, of_base.site)
    assert of_packages.identity != of_base.identity
    assert made[0] == made[1]
    assert len(bytecode.read(store, made[0]["0" * 64])) > 150


def test_a_lost_package_is_downloaded_again(fresh: Fresh, tmp_path: Path) -> None:
    store = copy_of(fresh, tmp_path / "lossy", without=["tini"])

    chosen = resolve(store, DAY)

    assert not apt.missing(store, chosen.debs)
    assert "tini" in {deb.package for deb in chosen.debs}


@pytest.fixture
def no_mirror(tmp_path: Path) -> dict[str, str]:
    """Configure apt, as a machine would, to go through a proxy that is not there."""
    config = tmp_path / "proxy.conf"
    config.write_text('Acquire::http::Proxy "http://127.0.0.1:9";\nAcquire::Retries "0";\n')
    return {**os.environ, "APT_CONFIG": str(config)}


def test_an_unreachable_mirror_is_named(no_mirror: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(WorldFault) as fault:
        resolve(Store(tmp_path / "empty"), DAY, no_mirror)

    assert "127.0.0.1:9" in fault.value.value
    assert "mirror" in fault.value.remedy
    assert not list((tmp_path / "empty/aside").iterdir())


def test_an_older_choice_is_better_than_none(fresh: Fresh, no_mirror: dict[str, str], tmp_path: Path) -> None:
    store = copy_of(fresh, tmp_path / "older")

    assert resolve(store, NEXT, no_mirror) == fresh.choice


ADDED = ("libgoogle-perftools4", "libnss-wrapper", "libunwind8", "tini")


@pytest.fixture
def without_mmdebstrap(tmp_path: Path) -> dict[str, str]:
    """Have a mmdebstrap that does nothing but fail."""
    if not mirrors.machine_sources(ROW.suite, os.environ):
        pytest.skip(f"the apt of this machine does not know {ROW.suite}")
    program = tmp_path / "mmdebstrap"
    program.write_text("#!/bin/false\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_single_packages_need_neither_mmdebstrap_nor_the_rest_of_debian(
    without_mmdebstrap: dict[str, str], tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")

    found = apt.named(ROW.suite, ADDED, on(store, DAY, without_mmdebstrap))

    assert tuple(deb.package for deb in found) == ADDED
    assert {path.name for path in (store.root / "blobs").glob("*/*")} == {deb.filename for deb in found}
    assert apt.named(ROW.suite, ADDED, on(store, DAY, {})) == found  # without PATH: a second choice of the day is none


def test_no_packages_are_nobodys_question(tmp_path: Path) -> None:
    assert apt.named(ROW.suite, (), on(Store(tmp_path), DAY, {})) == ()


def test_another_suite_is_where_the_machine_has_its_own_from(without_mmdebstrap: dict[str, str]) -> None:
    listed = mirrors.machine_sources(ROW.suite, without_mmdebstrap)

    other = mirrors.machine_sources("trixie", without_mmdebstrap)

    assert other == listed.replace(ROW.suite, "trixie") or "Debian" not in call(["apt-cache", "policy"]).text
