"""What the Dockerfiles are given."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

import pytest
import zstandard

from benchmarks.sides import dockerfile
from benchmarks.sides.clients import Client
from benchmarks.sides.dockerfile import EXPERT, GUIDE, Recipe
from benchmarks.sides.multinode import Multinode


def test_wheels_that_change_rarely_lie_apart(tmp_path: Path) -> None:
    names = ("torch-2.13.0+cpu-x.whl", "transformers-5.23.0-x.whl", "pip-26.3-x.whl", "impi_rt-2021.18.0-x.whl")
    (tmp_path / "bundle/wheels").mkdir(parents=True)
    for name in (*names, "seqeval-1.2.2.tar.gz"):
        (tmp_path / "bundle/wheels" / name).write_text(name)

    place = dockerfile.lay_out(tmp_path / "context", tmp_path / "bundle")

    found = {path.relative_to(place).as_posix() for path in place.rglob("*.whl")}
    assert found == {
        "stable/torch-2.13.0+cpu-x.whl", "stable/pip-26.3-x.whl", "stable/impi_rt-2021.18.0-x.whl",
        "changing/transformers-5.23.0-x.whl", "pip/pip.whl",
    }  # fmt: skip
    assert not list(place.rglob("*.tar.gz"))
    assert (place / "own/opt/multinode/entrypoint/programs/smoke.py").is_file()
    assert (place / "own/opt/multinode/smoke.py").is_file(), "what `smoke` starts has the path that it has in our image"


def test_a_run_does_not_use_what_an_earlier_one_left(tmp_path: Path) -> None:
    for name in ("stable", "changing"):
        (tmp_path / name).mkdir()

    marks = []
    for number in (0, 1):
        dockerfile.mark(tmp_path, number)
        marks.append((tmp_path / "stable/run").read_text())

    assert marks[0] != marks[1]


@pytest.mark.parametrize(("file", "told"), [(EXPERT, ["COMPILE=--compile"]), (GUIDE, [])])
def test_only_the_expert_is_told_about_bytecode(
    file: Path, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = list[list[str]]()
    monkeypatch.setattr(dockerfile, "call", called.append)

    Recipe(file, tmp_path, "base:1", "a=b", "--compile").build(Client("/usr/bin/docker", "Docker"), "one:1", "two:1")

    words = called[0]
    given = [after for word, after in itertools.pairwise(words) if word == "--build-arg"]
    assert given == ["BASE=base:1", *told]
    assert [after for word, after in itertools.pairwise(words) if word == "--tag"] == ["one:1", "two:1"]
    for each in given:
        assert f"ARG {each.partition('=')[0]}" in file.read_text()


def test_the_base_is_the_lowest_layer_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    multinode = Multinode(tmp_path)
    layout(multinode.layout("5.23.0"), (b"low", b"high"))
    loaded = list[tuple[bytes, str]]()
    monkeypatch.setattr(dockerfile, "call", lambda words: loaded.append((Path(words[-2]).read_bytes(), words[-1])))

    dockerfile.load_base(multinode.lowest("5.23.0"), tmp_path, "base:1")

    assert loaded == [(b"low", "base:1")]
    assert not (tmp_path / "base.tar").exists()


def layout(place: Path, layers: tuple[bytes, ...]) -> None:
    """Write an OCI layout, as far as it is read here."""
    blobs = place / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes) -> dict[str, str]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}"}

    manifest = blob(json.dumps({"layers": [blob(zstandard.compress(each)) for each in layers]}).encode())
    (place / "index.json").write_text(json.dumps({"manifests": [manifest]}))
