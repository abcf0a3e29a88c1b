"""The rows of a small table, resolved by uv from a directory of wheels: one fits, and one was broken on purpose."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import tomli_w

from images.plan import catalog
from scripts import update_versions
from tests.support import wheels
from tests.support.toml import tomllib

WHOLE = tomllib.loads(catalog.TABLE.read_text())
NOWHERE = "http://127.0.0.1:9/whl"  # the port of the discard protocol, which nobody serves
RELEASES = {
    "torch": ("2.13.0+cpu",), "transformers": ("4.57.6", "5.23.0"), "accelerate": ("1.1",), "pip": ("25.0",),
    "impi_rt": ("2021.18.0",), "intel_openmp": ("2026.0.0",), "six": ("1.17.0",),
}  # fmt: skip
DEBIAN = "debian, Python 3.11, gloo"


def check(directory: Path, broken: str, environ: dict[str, str]) -> int:
    """Resolve the rows of one torch and two ranges of transformers, of which the newer one requires `broken`."""
    table = deepcopy(WHOLE)
    table["torch"] = [row for row in table["torch"] if row["line"] == "2.13"]
    table["transformers"] = [row for row in table["transformers"] if row["era"] in ("4.57", "5.21 and later")]
    for row, (version, requires) in zip(table["transformers"], (("4.57.6", "six>=1"), ("5.23.0", broken)), strict=True):
        row |= {"released": {version: row["released"][version]}, "yanked": {}, "requires": [requires]}
    table |= {"tasks": {"translation": ["six"]}, "source-only": [], "undeclared": []}
    path = directory / "versions.toml"
    path.write_text(tomli_w.dumps(table))
    return update_versions.main(
        ["--check", "--table", str(path)], {"HOME": str(directory), "PIP_CONFIG_FILE": "/dev/null", **environ}
    )


@pytest.mark.parametrize(
    ("broken", "code", "said"),
    [("six>=1", 0, "ok, 7 packages"), ("six>=99", 2, "fails: no set of packages fits: ")],
)
def test_a_row_that_nothing_fits_fails(
    broken: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, versions in RELEASES.items():
        for version in versions:
            wheels.write(tmp_path / "wheels", name, version, {})

    done = check(tmp_path, broken, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")})

    good, other = capsys.readouterr().out.splitlines()
    assert good == f"torch 2.13.0, transformers 4.57.6 ({DEBIAN}): ok, 7 packages"
    assert other.startswith(f"torch 2.13.0, transformers 5.23.0 ({DEBIAN}): {said}")
    assert done == code


def test_rows_of_an_index_that_cannot_be_reached_were_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = check(tmp_path, "six>=1", {"PIP_INDEX_URL": NOWHERE, "UV_HTTP_RETRIES": "0"})

    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), done) == (2, 1)
    assert all("not asked: cannot reach a package index" in line for line in lines)
