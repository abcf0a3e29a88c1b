"""An image from its lock: again, without a network, and compared with one that somebody changed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from benchmarks.sides import dockerfile
from tests.support import locks
from tests.support.harness import build, built, call
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
    shutil.unpack_archive(bundle, tmp_path / "bundle", filter="data")

    context = dockerfile.lay_out(tmp_path / "context", tmp_path / "bundle")

    assert [path.name.partition("-")[0] for path in (context / "stable").glob("torch-*.whl")] == ["torch"]
    assert list((context / "changing").glob("transformers-*.whl")) and (context / "pip/pip.whl").is_file()


@pytest.mark.slow  # a minute of both cores; test_lock_is_enough.py has it with stand-ins
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
