"""Images on somebody else's base: one like Intel's, made here out of real parts, from a registry."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from images.oci import compression
from images.store.store import Store, default_root
from tests.support import locks
from tests.support.harness import IMAGES, build, built, run
from tests.support.registry import fill, mirrored
from tests.support.stand_in import Files, Image, Layout, derived, layout, write
from tests.support.stores import USUAL

SITE = "usr/local/lib/python3.11/dist-packages"
LIBRARY = "usr/lib/x86_64-linux-gnu"
OLD = {
    f"{SITE}/tqdm/__init__.py": b"__version__ = '4.0.0'\n",
    f"{SITE}/tqdm/only_old.py": b"",
    f"{SITE}/tqdm/__pycache__/only_old.cpython-311.pyc": b"old",
    "usr/local/bin/tqdm-old": b"#!/usr/bin/python3\n",
    f"{SITE}/tqdm-4.0.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tqdm\nVersion: 4.0.0\n",
    f"{SITE}/tqdm-4.0.0.dist-info/INSTALLER": b"pip\n",
    f"{SITE}/tqdm-4.0.0.dist-info/RECORD": (
        b"tqdm/__init__.py,,\ntqdm/only_old.py,,\n../../../bin/tqdm-old,,\ntqdm-4.0.0.dist-info/METADATA,,\n"
        b"tqdm-4.0.0.dist-info/INSTALLER,,\ntqdm-4.0.0.dist-info/RECORD,,\n"
    ),
}
# What Debian's layer has and Intel's image has not.
LACKING = ("usr/bin/tini", f"{LIBRARY}/libtcmalloc.so.4", f"{LIBRARY}/libnss_wrapper.so", f"{LIBRARY}/libunwind.so.8")
# The tasks that need least: what goes on a base does not depend on how many packages there are, nor on bytecode, which
# test_foreign_python.py has as well. Nothing of it is started at each landing: test_ccl.py starts one on such a base.
COMPILED = ("--python", "3.11", "--tasks", "text-generation", "--examples", "none")
OPTIONS = (*COMPILED, "--no-bytecode")


@pytest.fixture(scope="module")
def debian(module_path: Path) -> Path:
    """Build on Debian, for its lowest layer and its lock."""
    place = module_path / "debian"
    built(*USUAL, "--output", f"{place}/")
    return place


@pytest.fixture(scope="module")
def like_intels(debian: Path, module_path: Path) -> tuple[Path, list[str]]:
    """Make a base with an old package, one at the planned version, a port of its own, and without some libraries."""
    folders: Files = {SITE: None, "usr/local/bin": None}
    hidden = {f"{place.rpartition('/')[0]}/.wh.{place.rpartition('/')[2]}": b"" for place in LACKING}
    files = {**folders, **OLD, **kept(debian), **hidden, "etc/ssh/sshd_config": b"Port 3022\n"}
    image = derived(debian, files)
    return write(module_path / "base", layout({"1": image})), image.layers


def kept(debian: Path) -> dict[str, bytes]:
    """Install a wheel of the lock: six, as pip leaves it."""
    lock = locks.read(locks.path_beside(debian))
    wheel = next(artifact for artifact in lock.artifacts if artifact.name == "six")
    path = Store(default_root(os.environ)).blob(wheel.sha256, wheel.filename)
    assert path
    with zipfile.ZipFile(path) as archive:
        return {f"{SITE}/{name}": archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def pushed(like_intels: tuple[Path, list[str]], open_registry: str) -> str:
    """Push the base to a registry; answer its reference."""
    reference = f"{open_registry}/intel/like:1"
    fill(f"{like_intels[0]}:1", reference)
    return reference


@pytest.fixture(scope="module")
def on_base(pushed: str, module_path: Path) -> tuple[Path, dict[str, Any]]:
    """Build on it, from the registry, into a layout."""
    place = module_path / "layout"
    return place, built("--base", pushed, *OPTIONS, "--no-load", "--output", f"{place}/")


def listing(place: Path) -> list[dict[str, tarfile.TarInfo]]:
    """List the layers of the one image in a layout, as path -> entry."""
    return [entries(path) for path in Layout(place).layers]


def entries(path: Path) -> dict[str, tarfile.TarInfo]:
    with compression.open_layer(path) as plain, tarfile.open(fileobj=io.BytesIO(plain.read(1 << 34))) as tar:
        return {info.name: info for info in tar}


def test_the_layers_of_the_base_stay_as_they_are(
    on_base: tuple[Path, dict[str, Any]], like_intels: tuple[Path, list[str]]
) -> None:
    place, answer = on_base
    layout = Layout(place)
    rows, history = layout.manifest["layers"], layout.config["history"]

    assert (layout.index["manifests"][0]["digest"], layout.manifest["config"]["digest"]) == (
        answer["digest"],
        answer["id"],
    )
    assert [row["digest"] for row in rows[:2]] == like_intels[1]
    assert [row["mediaType"].rpartition("+")[2] for row in rows[:3]] == ["zstd", "gzip", "zstd"]
    assert len([row for row in history if not row.get("empty_layer")]) == len(rows)
    assert layout.config["config"]["Labels"]["org.opencontainers.image.base.digest"].startswith("sha256:")


def test_no_file_of_the_base_is_replaced_but_the_passwd(on_base: tuple[Path, dict[str, Any]]) -> None:
    layers = listing(on_base[0])
    below = {path for layer in layers[:2] for path, info in layer.items() if not info.isdir()} - set(OLD) - set(LACKING)
    above = {path for layer in layers[3:] for path, info in layer.items() if not info.isdir()}

    assert below & above == {"etc/passwd", f"{LIBRARY}/libtcmalloc.so.4.5.9"} & below
    assert set(LACKING) <= above


def test_a_mirror_stands_in_for_a_registry_that_nobody_reaches(
    on_base: tuple[Path, dict[str, Any]], pushed: str, tmp_path: Path
) -> None:
    host, _, name = pushed.partition("/")
    options = ("--base", f"registry.invalid/{name}", *OPTIONS)
    home = mirrored(tmp_path, "registry.invalid", host, insecure=True)

    done = build("lock", *options, "--output", str(tmp_path / "pylock.toml"), env=home)

    assert done.code == 0
    lock, other = locks.read(tmp_path / "pylock.toml"), locks.read(locks.path_beside(on_base[0]))
    assert lock.base_image and lock.base_image.reference == f"registry.invalid/{name}"
    assert other.base_image and lock.base_image.manifest == other.base_image.manifest
    assert lock.files() == other.files()


@pytest.fixture(scope="module")
def image(engine: None, pushed: str, module_tag: Callable[[str], str]) -> str:
    """Build on it with bytecode, which the Python of the base makes in the engine, and load it there."""
    return str(built("--base", pushed, *COMPILED, "--tag", module_tag("pulled"))["image"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "world"),
    [
        (("smoke", "--bf16"), 1),
        (("--nproc", "2", "smoke", "--bf16"), 2),
        (("mpirun", "-n", "2", "-genv", "OMP_NUM_THREADS=1", "multinode", "smoke", "--bf16"), 2),
    ],
)
def test_an_image_on_a_pulled_base_trains(image: str, command: tuple[str, ...], world: int) -> None:
    done = run(image, *command, seconds=300)

    assert done.code == 0
    assert f"smoke: passed: world_size={world} " in done.out


@pytest.mark.slow
def test_the_old_package_is_gone_and_the_good_one_stays(image: str) -> None:
    script = (
        "import importlib.util as u, six, tqdm; print(tqdm.__version__, u.find_spec('tqdm.only_old'), six.__file__)"
    )
    done = run(image, "python3", "-c", script)
    listed = run(image, "pip", "list", "--format=json")
    checked = run(image, "pip", "check")

    assert done.code == listed.code == checked.code == 0
    versions = {row["name"].lower(): row["version"] for row in json.loads(listed.out.strip().splitlines()[-1])}
    assert done.out.split()[-3:-1] == [versions["tqdm"], "None"]
    assert versions["tqdm"] != "4.0.0"


@pytest.mark.slow
def test_what_the_base_lacked_is_there_and_loads(image: str) -> None:
    script = (
        "import os; maps = open('/proc/self/maps').read(); print(os.path.realpath('/usr/bin/tini'),"
        " 'libtcmalloc' in maps, 'libiomp5' in maps)"
    )
    done = run(image, "python3", "-c", script)

    assert done.out.split()[-3:] == ["/usr/bin/tini", "True", "True"]
    assert run(image, "test", "-e", f"/{LIBRARY}/libtcmalloc.so.4.5.9").code == 0
    assert run(image, "id", "-un").out.split()[-1] == "multinode"


@pytest.mark.slow
def test_the_lock_builds_the_same_from_the_registry_and_from_a_bundle(
    on_base: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    lock = str(locks.path_beside(on_base[0]))
    again = built("--lock", lock, "--no-load")
    assert (again["id"], again["digest"]) == (on_base[1]["id"], on_base[1]["digest"])
    assert build("bundle", "--lock", lock, "--output", str(tmp_path / "bundle.tar")).code == 0

    command = ["--offline", str(tmp_path / "bundle.tar"), "--no-load", "--tag", f"{IMAGES}:on_base"]
    other = built(*command, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})

    assert other["digest"] == on_base[1]["digest"]
    with tarfile.open(tmp_path / "bundle.tar") as tar:
        assert "wheels/six-1.17.0-py2.py3-none-any.whl" not in tar.getnames()


def test_the_sbom_has_the_packages_of_the_base(on_base: tuple[Path, dict[str, Any]]) -> None:
    done = build("sbom", str(on_base[0]))

    assert done.code == 0
    purls = [row["purl"] for row in json.loads(done.out)["components"] if "purl" in row]
    assert any(purl.startswith("pkg:deb/debian/libc6@") for purl in purls)
    assert any(purl.startswith("pkg:pypi/six@") for purl in purls)


def test_an_image_on_a_base_is_what_its_lock_says(on_base: tuple[Path, dict[str, Any]]) -> None:
    done = build("verify", str(on_base[0]))

    assert done.code == 0
    assert on_base[1]["id"] in done.out and f"{on_base[0]} (in a layout, linux/amd64)" in done.out


def test_a_base_that_cannot_work_is_refused_before_wheels_are_fetched(tmp_path: Path) -> None:
    write(tmp_path / "layout", layout({"1": Image([{"lib/ld-musl-x86_64.so.1": b"", "usr/bin/python3.11": b""}])}))
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    done = build("--base", f"oci:{tmp_path / 'layout'}", *OPTIONS, "--no-load", env=cache)

    assert done.code == 2
    assert "no glibc" in done.err
    assert not list((tmp_path / "cache").rglob("*.whl")) and "choosing Python packages" not in done.err
