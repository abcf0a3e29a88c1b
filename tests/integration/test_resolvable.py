"""The rows of a small table, resolved by uv from a local index: one can be had, and one was broken on purpose."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import tomli_w

from images.lock import uv
from images.plan import catalog
from scripts import update_versions
from scripts.versions import stand_ins
from tests.support.toml import tomllib
from tests.support.web import Server, serving

WHOLE = tomllib.loads(catalog.TABLE.read_text())
NOWHERE = "http://127.0.0.1:9/whl"  # the port of the discard protocol, which nobody serves
# Name of a wheel in the index, its version, and what it requires. torch is a build for a GPU, as on PyPI.
WHEELS = (
    ("torch", "2.13.0", ("filelock", "nvidia-cublas")),
    ("nvidia_cublas", "13.1", ()),
    ("filelock", "3.20", ()),
    ("transformers", "4.57.6", ("filelock",)),
    ("transformers", "5.23.0", ("filelock",)),
    ("accelerate", "1.1", ()),
    ("impi_rt", "2021.18.0", ()),
    ("intel_openmp", "2026.0.0", ()),
    ("pip", "25.0", ()),
    ("six", "1.17.0", ()),
)
DEBIAN = "debian, Python 3.11, gloo"


def table(directory: Path, broken: str) -> Path:
    """Write the table of one torch and two ranges of transformers; the newer one requires what `broken` says."""
    made = deepcopy(WHOLE)
    made["torch"] = [row for row in made["torch"] if row["line"] == "2.13"]
    made["transformers"] = [row for row in made["transformers"] if row["era"] in ("4.57", "5.21 and later")]
    for row, (version, requires) in zip(made["transformers"], (("4.57.6", "six>=1"), ("5.23.0", broken)), strict=True):
        row |= {"released": {version: row["released"][version]}, "yanked": {}, "requires": [requires]}
    made |= {"tasks": {"translation": ["six"]}, "source-only": [], "undeclared": []}
    path = directory / "versions.toml"
    path.write_text(tomli_w.dumps(made))
    return path


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Server]:
    """Serve the wheels by the simple API (PEP 691, PEP 700), the metadata of each beside it (PEP 658)."""
    with serving() as server:
        server.headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
        files: dict[str, list[dict[str, object]]] = {}
        for name, version, requires in WHEELS:
            path = stand_ins.write(tmp_path, name, version, requires)
            # PyPI's torch is for Linux only; that decides which of its wheels are read.
            filename = path.name.replace("py3-none-any", "py3-none-manylinux_2_28_x86_64")
            data, said = path.read_bytes(), stand_ins.metadata(name, version, requires).encode()
            server.pages |= {f"/files/{filename}": data, f"/files/{filename}.metadata": said}
            files.setdefault(name.replace("_", "-"), []).append({
                "filename": filename, "url": f"{server.url}/files/{filename}", "upload-time": "2023-01-01T00:00:00Z",
                "hashes": {"sha256": hashlib.sha256(data).hexdigest()},
                "core-metadata": {"sha256": hashlib.sha256(said).hexdigest()},
            })  # fmt: skip
        for project, listed in files.items():
            page = {"meta": {"api-version": "1.1"}, "name": project, "versions": [], "files": listed}
            server.pages[f"/simple/{project}/"] = json.dumps(page).encode()
        yield server


@pytest.mark.parametrize(
    ("broken", "code", "line"),
    [
        ("six>=1", 0, f"torch 2.13.0, transformers 5.23.0 ({DEBIAN}): ok, 8 packages, with a stand-in for torch"),
        ("six>=99", 2, f"torch 2.13.0, transformers 5.23.0 ({DEBIAN}): fails: no set of packages fits: "),
    ],
)
def test_rows_are_resolved_with_a_stand_in_and_a_broken_one_fails(
    broken: str, code: int, line: str, index: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(uv, "TORCH_INDEX", NOWHERE)
    environ = {"PIP_INDEX_URL": f"{index.url}/simple", "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}

    done = update_versions.main(["--check", "--table", str(table(tmp_path, broken))], environ)

    good, other = capsys.readouterr().out.splitlines()
    assert good == f"torch 2.13.0, transformers 4.57.6 ({DEBIAN}): ok, 8 packages, with a stand-in for torch"
    assert other.startswith(line)
    assert ("six>=99" in other, done) == (code == 2, code)


def test_rows_of_an_index_that_cannot_be_reached_were_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"PIP_INDEX_URL": NOWHERE, "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null", "UV_HTTP_RETRIES": "0"}

    done = update_versions.main(["--check", "--table", str(table(tmp_path, "six>=1"))], environ)

    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), done) == (2, 1)
    assert all("not asked: cannot reach a package index" in line for line in lines)
