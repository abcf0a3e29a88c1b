"""Whole builds, from the words that are typed to the bytes of the layers or to a refusal; only uv is not started.

tests/integration/test_golden.py makes them with uv, and one with bytecode.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from packaging.utils import parse_sdist_filename, parse_wheel_filename

from images.host import process
from images.lock import lockfile
from images.store.blobs import sha256
from tests.golden import data, images, refusals, refused_builds
from tests.golden.building import PIP, built
from tests.golden.command import run


@pytest.fixture(autouse=True)
def uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer as uv where all files of the directory `wheels` go together."""

    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        assert command[1:3] == ["pip", "compile"], command
        asked = Path(command[3]).read_text()
        packages = [choice for path in sorted(Path("wheels").iterdir()) if (choice := choose(path, asked))]
        return process.Result(0, tomli_w.dumps({"lock-version": "1.0", "created-by": "uv", "packages": packages}), "")

    monkeypatch.setattr(process, "run", run)


def choose(path: Path, asked: str) -> dict[str, Any] | None:
    """Return what uv says of a file; None of a release of transformers that was not asked for."""
    is_wheel = path.suffix == ".whl"
    name, version = parse_wheel_filename(path.name)[:2] if is_wheel else parse_sdist_filename(path.name)
    if name == "transformers" and f"{name}=={version}" not in asked:
        return None
    file = {"url": path.absolute().as_uri(), "hashes": {"sha256": sha256(path)}}
    return {"name": name, "version": str(version), **({"wheels": [file]} if is_wheel else {"sdist": file})}


@pytest.mark.parametrize("name", [name for name in images.IMAGES if name != "bytecode"])
def test_an_image_is_what_it_was(name: str) -> None:
    different = data.difference("images", f"{name}.json", images.described(images.IMAGES[name]))

    assert not different, f"{different}\n{data.REMEDY}"


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, rows in refused_builds.GROUPS.items() for name in rows]
)
def test_a_refused_build_says_what_it_said(group: str, name: str) -> None:
    known = json.loads(data.recorded("refusals")[f"{group}.json"])

    assert refused_builds.refused(refused_builds.GROUPS[group][name]) == known[name], data.REMEDY


def test_an_image_is_bundled_built_again_and_verified() -> None:
    """The same is built from a bundle in an empty store; each command says what it has done."""
    typed = f"{images.IMAGES['newest'].typed} --env A=1 --script examples/LICENSE --tag a:1 --output layout/"
    with built(dataclasses.replace(images.IMAGES["newest"], typed=typed)) as (said, place):

        def do(words: str, **environ: str) -> str:
            done = run(words.split(), {**PIP, **environ})
            assert done.code == 0, done.err
            return done.out

        first = json.loads(said.out)
        names = lockfile.parse_lock(Path("pylock.layout.toml").read_text(), "").files()
        bundled = json.loads(do("bundle --lock pylock.layout.toml --output new/bundle.tar --json"))
        assert bundled == {"bundle": str(place / "new/bundle.tar"), "files": len(names)}
        words = "build --offline new/bundle.tar --tag a:1 --output again.tar --json"
        again = json.loads(do(words, XDG_CACHE_HOME=str(place / "another")))
        assert [layer["reused"] for layer in again["layers"]] == [True, *[False] * 7]
        for layer in (*first["layers"], *again["layers"]):
            del layer["reused"]
        assert again == {**first, "archive": "again.tar"}

        verdict = json.loads(do("verify oci:layout --json"))
        same = {name: first[name] for name in ("id", "digest")}
        assert verdict == {
            "image": "oci:layout", "where": "in a layout", "same": True, **same, "manifest": same["digest"],
            "difference": None, "attached": {}, "not_examined": [],
        }  # fmt: skip
        text = f"verified       again.tar (in an archive, linux/amd64): 8 layers, id {same['id']}, manifest sha256:"
        assert do("verify again.tar --lock pylock.layout.toml --offline").startswith(text)
        assert json.loads(do("sbom again.tar"))["bomFormat"] == "CycloneDX"
        assert do("sbom oci:layout") == do("sbom again.tar")
        assert same["digest"].partition(":")[2] in do("provenance oci:layout")


def test_no_golden_data_are_left_over() -> None:
    groups = {**refusals.REFUSALS, **refused_builds.GROUPS}

    assert data.recorded("images").keys() == {f"{name}.json" for name in images.IMAGES}
    assert data.recorded("refusals").keys() == {f"{name}.json" for name in groups}
    for group, rows in refused_builds.GROUPS.items():
        assert json.loads(data.recorded("refusals")[f"{group}.json"]).keys() == rows.keys()
