"""The base for real: chosen from Debian's archive, and compared with what Debian's own programs make."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

import pytest
import zstandard

from images.base import additions, debian
from images.base.base import Base
from images.compiling import bytecode, compiler
from images.compiling.compiler import Choice
from images.content import Content
from images.context import Context
from images.debian import packages
from images.debian.deb import Deb, Debian, load_package, read_entries
from images.deliver import engine as engines
from images.dpkg import rootfs, suites
from images.dpkg.rootfs import DIRTY
from images.host.errors import WorldFault
from images.oci import compression
from images.pip_config import Sources
from images.plan import catalog
from images.plan.catalog import BaseRow as Row
from images.platforms import AMD64, PLATFORMS, Platform
from images.store import fingerprint
from images.store.blobs import sha256
from images.store.store import Store, default_root
from images.wheels.archive import Wheel
from tests.support import emulation, locks, mmdebstrap
from tests.support.base_facts import facts_of
from tests.support.harness import ROOT, call
from tests.support.packages import package
from tests.support.stand_in import layer
from tests.support.stores import store_with
from tests.support.wheels import pack

ROW = catalog.load().debian
MERGED = {name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")}
NOBODY = 65534


@dataclass(frozen=True)
class SuiteBase:
    """A base, what it was made of, and the store that has it."""

    platform: Platform
    store: Store
    recipe: Debian
    base: Base


def context(store: Store) -> Context:
    return replace(locks.context(store, Sources(), os.environ), today=datetime.date.today())


@pytest.fixture(scope="module")
def default() -> SuiteBase:
    """Make that of the default image, whose build has it in the store of this machine already or will find it there."""
    return make(ROW, Store(default_root(os.environ)))


def make(row: Row, store: Store, platform: Platform = AMD64) -> SuiteBase:
    chosen = packages.resolve_base(row.suite, row.packages, platform, context(store))
    base = debian.make_base(store, chosen, platform, row.python, os.environ, Content())
    return SuiteBase(platform, store, chosen, base)


@contextmanager
def opened(suite: SuiteBase) -> Iterator[tarfile.TarFile]:
    """Open the layer for one reading."""
    blob = suite.store.blob(suite.base.layers[0].written.digest)
    assert blob
    with (
        blob.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as layer,
    ):
        yield layer


EVERY = [
    pytest.param((row, platform), id=f"{row.suite}-{platform}")
    for row in catalog.load().suites
    for platform in PLATFORMS
]


@pytest.fixture(scope="module", params=EVERY)
def of_suite(request: pytest.FixtureRequest, module_path: Path) -> Iterator[SuiteBase]:
    """Make the base of each suite that has a row, for each platform, whose programs can be started meanwhile."""
    (row, platform), here = request.param, os.uname()
    is_native = platform.runs_on(here.sysname, here.machine)
    with nullcontext() if is_native else emulation.registered(emulation.fetch(module_path)):
        yield make(row, Store(module_path / row.suite / platform.architecture), platform)


def unpack(suite: SuiteBase, root: Path) -> Path:
    with opened(suite) as layer:
        layer.extraction_filter = lambda member, _: member  # Debian 12's Python has no `filter` for extractall
        layer.extractall(root)
    return root


def test_the_base_is_its_packages(default: SuiteBase) -> None:
    assert default.base.facts.packages == {deb.package: deb.version for deb in default.recipe.debs}
    assert {*ROW.packages, "apt", "dpkg", "bash"} <= default.base.facts.packages.keys()
    assert list(default.recipe.debs) == sorted(default.recipe.debs)
    assert not packages.list_missing_debs(default.store, default.recipe.debs) + packages.list_unrecorded(
        default.store, default.recipe.debs
    )
    assert "usrmerge" not in default.base.facts.packages, "it brings all of Perl"
    assert {name: default.base.facts.directories.links[name] for name in MERGED} == MERGED


def test_it_is_not_made_twice(default: SuiteBase) -> None:
    again = debian.make_base(default.store, default.recipe, AMD64, ROW.python, {}, Content())

    assert again.layers[0].reused
    assert (again.layers[0].written, again.facts) == (default.base.layers[0].written, default.base.facts)


def test_apt_works_in_its_root(default: SuiteBase, tmp_path: Path) -> None:
    root = unpack(default, tmp_path / "root")

    assert (root / "etc/apt/sources.list").read_text() == default.recipe.sources
    assert not list((root / "etc/apt/sources.list.d").iterdir())
    assert not list((root / "etc/ssh").glob("ssh_host_*")) and (root / "etc/ssh/sshd_config").is_file()
    audit = call(["dpkg", f"--admindir={root}/var/lib/dpkg", "--audit"])
    assert (audit.code, audit.text) == (0, "")
    if os.getuid() == 0:
        assert call(["chroot", str(root), "apt-get", "check"]).code == 0
        before = (root / "etc/ld.so.cache").read_bytes()
        assert call(["chroot", str(root), "ldconfig"]).code == 0
        assert (root / "etc/ld.so.cache").read_bytes() == before


# What is imported and read first may lie where nobody else may look.
AS_NOBODY = f"""
import os, sys
from images.base.debian import _main
from images.dpkg import suites
suites.read_known()
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY}), os.umask(0o077)
sys.exit(_main())
"""


def test_any_user_makes_the_same_bytes_without_any_program(default: SuiteBase, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root becomes another user")
    out = tmp_path / "out"
    out.mkdir()
    debs = []
    for deb in default.recipe.debs:
        debs.append(shutil.copy(default.store.place(deb.sha256, deb.filename), tmp_path))
    for path in (out, *out.parents):
        if path == Path(tempfile.gettempdir()):
            break
        path.chmod(path.stat().st_mode | 0o755)
    os.chown(out, NOBODY, NOBODY)
    recipe = asdict(replace(default.recipe, debs=()))
    settings = compression.choose_settings(compression.BASE, Content())
    asked = {"recipe": recipe, "debs": debs, "platform": str(AMD64), "settings": settings, "place": str(out)}

    environ = {"PATH": "/nonexistent", "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY], input=json.dumps(asked), env=environ, cwd=ROOT, text=True,
        capture_output=True, check=False,
    )  # fmt: skip

    # The answer is a file: with PYTHONUNBUFFERED a pipe may lose the rest of a long line.
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert hashlib.sha256((out / "layer").read_bytes()).hexdigest() == default.base.layers[0].written.digest


def test_its_python_compiles_the_same_in_every_way(
    default: SuiteBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel has modules of the standard library: all kinds of code, and names that it shares with what compiles."""
    library = re.compile(r"usr/lib/python3\.11/((asyncio/)?[^/]+\.py)")
    archives = [
        load_package(packages.require_package(default.store, deb))
        for deb in default.recipe.debs
        if "python" in deb.package
    ]
    files = [(library.fullmatch(path), data) for archive in archives for path, _, data in read_entries(archive)]
    wheel = pack(tmp_path, {f"a/{match[1]}": data for match, data in files if match and data})
    job = bytecode.wheel_job(Wheel("a", "1.0", "0" * 64, wheel), "usr/lib/site", re.compile("(?!)"))

    root = Path(store_with(tmp_path, "bases", "signed debs")["XDG_CACHE_HOME"], "multinode")
    lock, compiled = locks.lock(debian=default.recipe), list[Mapping[str, bytes]]()
    engine = engines.find_engine(os.environ).engine
    assert engine
    for choice in (Choice(None), Choice(engine)):
        monkeypatch.setattr(fingerprint, "sources", lambda: f"way {len(compiled)}")
        store = Store(root)
        ready = compiler.prepare_compiler(choice, lock, default.base, context(store))
        compiled.append(bytecode.read_bytecode(store, bytecode.compile_jobs(store, [job], ready)[0]))

    assert compiled[0] == compiled[1]
    assert len(compiled[0]) > 150


@pytest.mark.parametrize(
    "system",
    [pytest.param(*one.values, id=one.id, marks=[pytest.mark.slow] * ("arm64" in str(one.id))) for one in EVERY],
)
def test_every_suite_has_what_bases_of_others_lack(system: tuple[Row, Platform], tmp_path: Path) -> None:
    """Also where another package has it, under the name of another interface."""
    (row, platform), store = system, Store(tmp_path)
    names, bare = list(additions.PIECES), replace(facts_of(), glibc=row.glibc, multiarch=platform.multiarch)
    chosen = packages.resolve_single(row.suite, additions.packages_of(names), platform, context(store))

    pieces = additions.read_pieces(store, chosen, names, bare)

    assert {path.rpartition("/")[2] for path in pieces} == {*names}
    assert all(data.startswith(b"\x7fELF") for data in pieces.values())


@pytest.mark.slow  # makes the tree twice; only another row can change it
def test_rows_of_scripts_have_no_order_but_that_of_lines(default: SuiteBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounts are first; of the others none needs what another one has made."""
    debs = [default.store.place(deb.sha256, deb.filename) for deb in default.recipe.debs]
    accounts, *others = suites.rows(default.recipe.suite, AMD64)
    monkeypatch.setattr(suites, "rows", lambda *_: [accounts, *reversed(others)])

    other = rootfs.make_tree(default.recipe, debs, AMD64)

    monkeypatch.undo()
    usual = rootfs.make_tree(default.recipe, debs, AMD64)
    assert list(sorted(other.entries)) == sorted(usual.entries)
    for path, entry in usual.entries.items():
        again = other.entries[path]
        assert (again.kind, again.mode, again.gid, again.link) == (entry.kind, entry.mode, entry.gid, entry.link), path
        assert sorted(again.data.splitlines()) == sorted(entry.data.splitlines()), path


def kept(store: Store, place: Path, content: bytes) -> Debian:
    """Put a package into a store, and write the recipe of a base of it."""
    (place / "tool.deb").write_bytes(content)
    digest = sha256(place / "tool.deb")
    store.keep(place / "tool.deb", digest, "tool.deb")
    return Debian(ROW.suite, (), "", (Deb("tool", "1", "amd64", "tool.deb", digest),))


@pytest.mark.parametrize(
    ("content", "fact", "value"),
    [
        (package("tool", b"", {"postinst": "reboot\n"}), "scripts that are not known", "tool.postinst of 1"),
        (package("tool", layer({"../x": b""})), "files that no image can have", "tool 1: '../x'"),
        (package("tool"), "another Python", ROW.python),
    ],
)
def test_what_no_base_is_made_of_is_said_by_its_process(content: bytes, fact: str, value: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    recipe = kept(store, tmp_path, content)

    with pytest.raises(WorldFault, match=fact) as caught:
        debian.make_base(store, recipe, AMD64, ROW.python, os.environ, Content())

    assert value in caught.value.value and caught.value.remedy
    assert not list((store.root / "aside").iterdir())


# What mmdebstrap's tree has otherwise: pattern over paths, reason.
OTHERWISE = (
    (r"(.*/)?__pycache__(/|$)", "bytecode is a layer of its own"),
    (r"etc/rc[0-9S]\.d/|etc/runit/", "nothing starts services by their scripts in a container"),
    (r"etc/systemd/|var/lib/systemd/", "no systemd runs in a container; an installation makes them anew"),
    (r"usr/share/doc/", "directories and links of documents that are left out"),
    (r"usr/share/(man|info|locale)/", "directories that scripts of later packages need; the index of info's pages"),
    (r"var/cache/debconf/", "answers and templates of questions, which a later installation loads again"),
    (r"var/lib/apt/extended_states$", "there every package was named, here those that were asked for"),
    (r"var/lib/python(/|$)", "a mark of an installation that is going on"),
    (r"var/lib/ucf/.*\.0$", "empty copies from before the first change"),
    (r"etc/apt/sources\.list$", "its mirror is the one of this test"),
    (r"etc/dpkg/dpkg\.cfg\.d/", "the same options under the name of the program"),
    (r"var/lib/dpkg/(.*-old$|lock|triggers/Lock)|etc/(.*-|\.pwd\.lock)$", "locks, and copies from before a change"),
)  # fmt: skip


def described(tar: tarfile.TarFile) -> dict[str, tuple[object, ...]]:
    """Describe every entry that an image may have; times and the rights of other users are not kept in ours."""
    entries: dict[str, tuple[object, ...]] = {}
    for info in tar:
        name = info.name.removeprefix("./").rstrip("/")
        if info.islnk():
            entries[name] = entries[info.linkname.removeprefix("./")]
        elif name not in ("", ".") and not DIRTY.match(name):
            data: IO[bytes] | None = tar.extractfile(info) if info.isreg() else None
            content = shortened(settled(name, data.read())) if data else ""
            target = info.linkname if info.issym() else ""
            entries[name] = (info.type, oct(info.mode & ~0o6000), info.uid, info.gid, target, content)
    return entries


def shortened(data: bytes) -> str:
    """Return a short text as it stands, for whoever reads what differs, and of anything else its sha256."""
    return data.decode() if len(data) < 4096 and data.isascii() else hashlib.sha256(data).hexdigest()


def settled(name: str, data: bytes) -> bytes:
    """Return a file as far as it matters: rows of a table of hashes in one order, no files that an upgrade removes."""
    if name == "var/lib/dpkg/diversions":
        return b"\n".join(sorted(re.findall(rb".*\n.*\n.*\n", data)))
    return re.sub(rb"\n .* newconffile remove-on-upgrade", b"", data) if name == "var/lib/dpkg/status" else data


def compared(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    return [
        f"{path}: {ours.get(path)} here, {theirs.get(path)} there"
        for path in sorted(ours.keys() | theirs.keys())
        if ours.get(path) != theirs.get(path)
    ]


@pytest.mark.slow
def test_it_is_what_debians_own_programs_make(of_suite: SuiteBase, tmp_path: Path) -> None:
    if shutil.which("mmdebstrap") is None or os.getuid() != 0:
        pytest.skip("no mmdebstrap, or not root")
    chosen = of_suite.recipe.debs
    debs = [of_suite.store.place(deb.sha256, deb.filename) for deb in chosen]
    archive = mmdebstrap.make(debs, [deb.package for deb in chosen], of_suite.platform, tmp_path)
    with tarfile.open(archive) as tar:
        theirs = described(tar)
    with opened(of_suite) as layer:
        ours = described(layer)

    differences = compared(ours, theirs)
    assert [one for one in differences if not any(re.match(row, one.partition(": ")[0]) for row, _ in OTHERWISE)] == []
    assert len(ours) > 4500
    assert not list((of_suite.store.root / "aside").iterdir())


# As `worker` does, with a key that is made for it; instead of serving, sshd reads its configuration.
SERVE = """
import os, subprocess, sys
sys.path.insert(0, "/opt/lib")
from multinode_image.mpi.sshd import prepare_server
os.mkdir("/tmp/keys")
os.mkdir("/tmp/server", 0o700)
subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/tmp/keys/id_ed25519"], check=True)
given = {**os.environ, "MULTINODE_SSH_KEYS": "/tmp/keys", "TOKEN": 'a"b c'}
(program, *_, config), environ = prepare_server(given, "/tmp/server")
os.execve(program, [program, "-t", "-f", config], environ)
"""


@pytest.mark.slow
def test_its_sshd_takes_the_configuration_of_worker(of_suite: SuiteBase, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root enters a root file system")
    root = unpack(of_suite, tmp_path / "root")
    shutil.copytree(ROOT / "multinode_image", root / "opt/lib/multinode_image")
    (root / "dev/null").touch()
    (root / "dev/null").chmod(0o666)

    done = call(["chroot", f"--userspec={NOBODY}:{NOBODY}", str(root), "python3", "-c", SERVE], seconds=60)

    assert (done.code, done.text) == (0, "")
