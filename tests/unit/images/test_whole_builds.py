"""Whole builds, from the words that are typed to the bytes of the layers or to a refusal; no program is started.

tests/integration/test_golden.py makes them with uv, and with the Python of a base that compiles.
"""

from __future__ import annotations

import dataclasses
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
import tomli_w
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from images.compiling import bytecode, compile_modules
from images.host import process
from images.lock import lockfile
from images.store.blobs import sha256
from tests.golden import data, images, refusals, refused_builds
from tests.golden.building import PIP, built
from tests.golden.command import run
from tests.support.toml import tomllib


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer as uv of what is in the directory `wheels`, and as podman that compiles."""

    def run(
        command: Sequence[str], _: object, __: str, feed: IO[bytes] | None = None, **options: Any
    ) -> process.Result:
        if command[0] == "podman":
            if feed:
                compile_as_text(command, feed, options["out"])
            return process.Result(0, "", "")
        assert command[1:3] == ["pip", "compile"] and feed, command
        project, settings = tomllib.loads(Path(command[3]).read_text()), tomllib.loads(feed.read().decode())
        stated = {row["name"]: row["requires-dist"] for row in settings["dependency-metadata"]}
        packages = choose(project["project"]["dependencies"], stated)
        return process.Result(0, tomli_w.dumps({"lock-version": "1.0", "created-by": "uv", "packages": packages}), "")

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(process, "answer", lambda *_: process.Result(0, "", ""))


def compile_as_text(command: Sequence[str], feed: IO[bytes], out: IO[bytes]) -> None:
    """Write in place of bytecode what tests/golden/building.py lets podman write."""
    *words, program, mtime, _ = command[command.index("--entrypoint") :]
    assert words[1] == "/usr/bin/python3.11" and words[3:] == ["-I", *bytecode.QUIET, "-c"]
    assert program == Path(compile_modules.__file__).read_text()
    while (modules := compile_modules.read(feed)) is not None:  # type: ignore[arg-type]
        for path, text in modules:
            data = f"bytecode of /{path}, {len(text)} bytes of {mtime}".encode()
            out.write(b"%d %d\n%s%s" % (len(path.encode()), len(data), path.encode(), data))
        out.write(compile_modules.END)


def choose(ahead: list[str], stated: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Return what uv says of the files that requirements take, and what those take; of archives it is `stated`."""
    files = [(path, *name_of(path)) for path in Path("wheels").iterdir()]
    rows: dict[str, dict[str, Any]] = {}
    while ahead:
        wanted = Requirement(ahead.pop())
        for path, name, version in files:
            if name == canonicalize_name(wanted.name) and name not in rows and wanted.specifier.contains(version):
                file = {"url": path.absolute().as_uri(), "hashes": {"sha256": sha256(path)}}
                is_wheel = path.suffix == ".whl"
                kinds = {"wheels": [file]} if is_wheel else {"sdist": file}
                rows[name] = {"name": name, "version": str(version), **kinds}
                ahead += required(path) if is_wheel else stated[name]
    return [row for _, row in sorted(rows.items())]


def required(wheel: Path) -> list[str]:
    """Return what a wheel requires."""
    with zipfile.ZipFile(wheel) as opened:
        [metadata] = [opened.read(name).decode() for name in opened.namelist() if name.endswith("/METADATA")]
    return re.findall(r"(?m)^Requires-Dist: (.+)$", metadata)


def name_of(path: Path) -> tuple[str, Version]:
    """Return name and version of a wheel or a source archive."""
    return parse_wheel_filename(path.name)[:2] if path.suffix == ".whl" else parse_sdist_filename(path.name)


@pytest.mark.parametrize("name", images.IMAGES)
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
