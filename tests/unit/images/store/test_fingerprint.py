"""What decides the bytes besides the inputs: our sources and pinned packages."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from images.store import fingerprint
from images.store.store import Store

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[4]
# The other packages of pyproject.toml, and why any allowed release of them makes the same bytes.
WITHOUT_TRACE = {
    "docker": "loads an image that is finished",
    "isal": "inflates files whose sha256 is compared, by RECORD",
    "pydantic": "checks values, and leaves them and their order as they are",
    "pyelftools": "reads names out of libraries; what is written with them is ours",
    "pypi-simple": "reads pages of indexes; what is taken of them has its sha256 in the lock",
    "pysequoia": "reads the signature of an index of packages; each of those has its sha256 in the lock",
    "pyyaml": "writes the manifests of jobs; build.py does without",
    "requests": "downloads files whose sha256 is known",
    "rich": "prints on a terminal",
    "tomli": "reads TOML",
    "urllib3": "downloads files whose sha256 is known",
    "uv": "chooses packages for a lock; an image is made from the lock",
}


def pins() -> dict[str, str]:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return {Requirement(text).name: str(Requirement(text).specifier) for text in dependencies}


@pytest.mark.parametrize("name", sorted(fingerprint.PACKAGES))
def test_a_package_whose_release_shows_in_the_bytes_is_pinned_and_installed(name: str) -> None:
    assert pins()[name] == f"=={fingerprint.releases()[name]}"


def test_every_package_is_pinned_and_recorded_or_leaves_no_trace() -> None:
    pinned = {name for name, pin in pins().items() if pin.startswith("==")}

    assert pinned == set(fingerprint.PACKAGES)
    assert pins().keys() - pinned == WITHOUT_TRACE.keys()


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "images", tmp_path / "images", ignore=shutil.ignore_patterns("__pycache__")))


def test_equal_sources_have_one_hash_wherever_they_lie(sources: Path) -> None:
    assert fingerprint.sources(sources) == fingerprint.sources()


@pytest.mark.parametrize("module", ["oci/layer_writer.py", "layers/wheel.py", "compiling/settle.py"])
def test_a_change_of_a_source_or_of_its_name_changes_the_hash(sources: Path, module: str) -> None:
    renamed, changed = sources / module, sources / module.replace(".py", "0.py")
    renamed.rename(changed)
    as_renamed = fingerprint.sources.__wrapped__(sources)
    changed.write_text(changed.read_text() + "# a change\n")

    assert len({fingerprint.sources(), as_renamed, fingerprint.sources.__wrapped__(sources)}) == 3


def test_what_is_no_longer_usable_is_made_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.cached("things", [1], lambda: "lost")

    assert store.cached("things", [1], lambda: "new", lambda known: known != "lost") == ("new", False)
