"""A lock: what is built of it, where it is enough, and who else installs from it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard

from benchmarks.sides import dockerfile
from images.lock import lockfile, resolve
from images.lock.lock import Lock
from images.pip_config import Sources, directories, read_sources
from images.store.store import Store
from tests.integration.test_index_pages import PLAN, public
from tests.support import checkout, locks
from tests.support.checkout import PAIR, REQUEST, Built, Checkout
from tests.support.harness import ROOT, assert_three_parts, build, built, call
from tests.support.stand_in import Layout, digest
from tests.support.stores import USUAL

OPTIONS = (*USUAL, "--tag", "multinode:locked")


@pytest.fixture(scope="module")
def layout(module_path: Path) -> tuple[Path, dict[str, Any]]:
    """Build online, with a lock beside the image."""
    place = module_path / "layout"
    return place, built(*OPTIONS, "--output", f"{place}/")


@pytest.fixture(scope="module")
def bundle(layout: tuple[Path, dict[str, Any]], module_path: Path) -> Path:
    """Collect everything that the lock names."""
    place = module_path / "bundle.tar"
    assert build("bundle", "--lock", str(locks.path_beside(layout[0])), "--output", str(place)).code == 0
    return place


def test_the_wheels_of_a_bundle_are_what_a_benchmark_gives_to_pip(bundle: Path, tmp_path: Path) -> None:
    with tarfile.open(bundle) as tar:
        tar.extraction_filter = lambda member, _: member  # Debian 12's Python has no `filter` for extractall
        tar.extractall(tmp_path / "bundle")

    context = dockerfile.lay_out(tmp_path / "context", tmp_path / "bundle")

    assert [path.name.partition("-")[0] for path in (context / "stable").glob("torch-*.whl")] == ["torch"]
    assert list((context / "changing").glob("transformers-*.whl")) and (context / "pip/pip.whl").is_file()


@pytest.mark.slow  # a minute of both cores; a test below has it with stand-ins
@pytest.mark.skipif(os.geteuid() != 0, reason="an empty network namespace takes root: run scripts/test as root")
def test_a_bundle_builds_the_same_image_from_an_empty_store_without_a_network(
    layout: tuple[Path, dict[str, Any]], bundle: Path, tmp_path: Path
) -> None:
    """Base and all; with another umask, and in another shell."""
    options = f"--json --offline {bundle} --no-load --tag multinode:locked"
    script = f"umask 077; exec unshare --net {sys.executable} build.py {options}"

    shell = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "TZ": "Asia/Tokyo", "PYTHONOPTIMIZE": "1"}
    if shell.pop("PYTHONDONTWRITEBYTECODE", None) is None:
        shell["PYTHONDONTWRITEBYTECODE"] = "1"

    done = call(["sh", "-c", script], env=shell, seconds=600)

    assert done.code == 0
    answer = json.loads(done.out)
    assert answer["digest"] == layout[1]["digest"]
    assert answer["id"] == layout[1]["id"]
    assert not any(layer["reused"] for layer in answer["layers"])


def test_one_changed_byte_is_found(layout: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    changed = change_a_byte(Layout(shutil.copytree(layout[0], tmp_path / "changed")))

    done = build("verify", "--json", str(tmp_path / "changed"))

    assert done.code == 1
    difference = json.loads(done.out)["difference"]
    assert json.loads(done.out)["where"] == "in a layout"
    assert difference["path"] == changed
    assert difference["image"].split()[0] != difference["rebuilt"].split()[0]
    assert changed in done.err


def change_a_byte(copy: Layout) -> str:
    """Change one byte in a file of the layer that holds transformers; return the file's path."""
    number = next(n for n, row in enumerate(copy.config["history"]) if row["created_by"].endswith(" transformers"))
    data = bytearray(zstandard.ZstdDecompressor().decompressobj().decompress(copy.layers[number].read_bytes()))
    path = b"usr/local/lib/python3.11/dist-packages/transformers/trainer.py"
    data[data.index(path) + 512] ^= 1  # after the header, which begins with the path
    copy.config["rootfs"]["diff_ids"][number] = digest(data)
    copy.manifest["layers"][number] |= copy.put(zstandard.ZstdCompressor(level=1).compress(bytes(data)))
    copy.save()
    return f"/{path.decode()}"


UV = Path(sys.executable).with_name("uv")
PIP = (26, 1)  # the first pip that reads a pylock.toml


@pytest.mark.parametrize("login", ["", "me:secret@"])
def test_uv_installs_what_a_lock_names(store: Store, tmp_path: Path, login: str) -> None:
    with public(tmp_path / "wheels") as index:
        address = index.replace("//", f"//{login}")
        resolved = resolve.resolve_packages(PLAN, locks.context(store, Sources(index=address), os.environ))
        lock = locks.lock(resolved.artifacts, indexes=resolved.indexes)
        text = lockfile.format_lock(lock, with_origin=True)
        (tmp_path / "pylock.toml").write_text(text)
        command = [str(UV), "pip", "sync", "--python-version", "3.11", "--target", str(tmp_path / "there")]
        done = call([*command, "--no-config", "--no-cache", str(tmp_path / "pylock.toml")])

    assert done.code == 0 and "secret" not in text
    assert (tmp_path / "there/six.py").read_text() == "public"
    assert lockfile.parse_lock(text, "x").indexes == (index,)


INSTALLERS = {
    "uv": "uv venv --seed .venv && VIRTUAL_ENV=.venv uv pip sync pylock.toml",
    "pip": f"{sys.executable} -m venv .venv && .venv/bin/pip install --upgrade 'pip>={'.'.join(map(str, PIP))}'"
    " && .venv/bin/pip install -r pylock.toml",
}


def link_local(lock: Lock, place: Path) -> None:
    """Put what came from a directory of this machine beside a lock, as the page says."""
    for artifact in lock.artifacts:
        for directory in directories(read_sources(os.environ).links) if not artifact.url else ():
            if (directory / artifact.filename).is_file():
                (place / "wheels").mkdir(exist_ok=True)
                (place / "wheels" / artifact.filename).symlink_to(directory / artifact.filename)


@pytest.mark.slow  # downloads and installs all packages of an image
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the image of the default lock has Python 3.11")
@pytest.mark.parametrize("installer", INSTALLERS)
def test_an_environment_of_an_editor_has_the_versions_of_the_image(tmp_path: Path, installer: str) -> None:
    done = build("lock", "--examples", "none", "--output", str(tmp_path / "pylock.toml"))
    assert done.code == 0
    lock = locks.read(tmp_path / "pylock.toml")
    link_local(lock, tmp_path)
    environ = {**os.environ, "PATH": f"{UV.parent}{os.pathsep}{os.environ['PATH']}"}
    environ.pop("PIP_CONSTRAINT", None)
    script = f"{INSTALLERS[installer]} && .venv/bin/python -c 'import torch, transformers; print(torch.__version__)'"
    installed = subprocess.run(
        ["bash", "-ec", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    shutil.rmtree(tmp_path / ".venv", ignore_errors=True)

    assert installed.returncode == 0, installed.stderr
    assert installed.stdout.splitlines()[-1] == lock.version("torch")


def test_the_page_says_what_is_typed() -> None:
    page = (ROOT / "docs/build.md").read_text()

    assert "uv pip sync pylock.toml" in page and "pip install -r pylock.toml" in page
    assert f"pip {'.'.join(map(str, PIP))}" in page


class Locked(NamedTuple):
    """Sources, the image that they built, its lock, and the bundle of that."""

    sources: Checkout
    image: Built
    lock: Path
    bundle: Path


@pytest.fixture(scope="module")
def locked(module_path: Path) -> Locked:
    sources = checkout.make(module_path)
    image, lock = sources.lock(*REQUEST)
    bundle = module_path / "locked.tar"
    assert sources.run("bundle", "--lock", str(lock), "--output", str(bundle)).code == 0
    return Locked(sources, image, lock, bundle)


@pytest.fixture(scope="module", params=["a later rule", "versions.toml"])
def changed(locked: Locked, request: pytest.FixtureRequest) -> Checkout:
    """Change a copy of the sources, by a rule or by leaving out the table, so that a new lock is refused."""
    sources = locked.sources.copy(request.param)
    if request.param == "a later rule":
        rule = "    if not _within(torch.version, transformers.torch):\n"
        sources.replace("images/plan/compatibility.py", rule, f'    yield "a later rule"\n{rule}')
    else:
        (sources.sources / "images/versions.toml").unlink()
    assert request.param in sources.run("lock", *REQUEST).text
    return sources


def test_the_lock_builds_the_same_image(locked: Locked, changed: Checkout) -> None:
    """What the lock says may be asked for again: it is compared with the lock, and not with the table."""
    image = changed.build("--lock", str(locked.lock), *PAIR, "--base", "debian")

    assert image.digest == locked.image.digest
    assert changed.sources.name == "a later rule" or image.new == []


def test_its_bundle_builds_the_same_image_from_an_empty_cache(locked: Locked, changed: Checkout) -> None:
    image = changed.build("--offline", str(locked.bundle), cache=f"cache of {changed.sources.name}")

    assert (image.reused, image.notes) == ([], [])
    assert image.digest == locked.image.digest


def test_an_image_is_verified_by_files_that_are_named(locked: Locked) -> None:
    """Wheels that no index has any more, as the message of the first try says."""
    sources, nowhere = locked.sources, {"cache": "verified", "PIP_FIND_LINKS": ""}

    refused = sources.run("verify", "layout", **nowhere)
    assert (refused.code, "try: --wheelhouse DIR with those very files" in refused.err) == (1, True)
    assert sources.run("verify", "layout", "--wheelhouse", "wheels", **nowhere).code == 0


def test_an_image_is_compared_with_the_lock_that_is_named(locked: Locked, tmp_path: Path) -> None:
    lock = tmp_path / "pylock.other.toml"
    lock.write_text(re.sub(r"(?m)^family-as-of = .*$", "family-as-of = 2020-01-01", locked.lock.read_text()))
    assert locked.sources.run("verify", "--lock", str(locked.lock), "layout").code == 0
    assert locked.sources.run("verify", "--offline", str(locked.bundle), "layout").code == 0

    done = locked.sources.run("verify", "--lock", str(lock), "layout")

    assert done.code == 1
    assert "components.json: sha256:" in done.err
    assert locked.sources.run("verify", "--offline", str(tmp_path / "none"), "layout").code == 2


@pytest.mark.parametrize(("option", "value"), [("--examples", "archive.tar"), ("--base", "intel")])
def test_what_is_named_to_verify_fits_the_lock(locked: Locked, option: str, value: str) -> None:
    done = locked.sources.run("verify", "layout", option, value)

    assert_three_parts(done, 2, f"does not fit: {option} {value}, but the lock has", "leave those options out")
