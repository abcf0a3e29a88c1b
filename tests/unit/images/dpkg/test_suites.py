"""Each suite of versions.toml has all its parts, so that a base of it can be made; no archive is asked.

What its packages have is in a record, which `python -m scripts.maintainer_scripts` writes.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from images.base import additions
from images.base.additions import PIECES
from images.debian import deb
from images.dpkg import effects, suites
from images.host.errors import WorldFault
from images.plan import catalog
from images.plan.catalog import BaseRow
from images.platforms import PLATFORMS, Platform
from tests.support.harness import ROOT
from tests.support.packages import package

SUITES = catalog.load().suites
SYSTEMS = [pytest.param(row, platform, id=f"{row.suite}-{platform}") for row in SUITES for platform in PLATFORMS]
WRITE = "the record is of other packages: python -m scripts.maintainer_scripts"


@pytest.fixture(scope="module")
def record() -> dict[str, dict[str, dict[str, Any]]]:
    rows: dict[str, dict[str, dict[str, Any]]] = json.loads((ROOT / "tests/data/debian.json").read_text())
    return rows


def test_every_suite_has_a_number_and_rows() -> None:
    assert [row.suite for row in SUITES] == [*suites.SUITES], "a suite of versions.toml has its row in dpkg/suites.py"


def test_the_record_is_of_the_suites_of_the_table(record: dict[str, Any]) -> None:
    assert list(record) == [row.suite for row in SUITES], WRITE


@pytest.mark.parametrize(("row", "platform"), SYSTEMS)
def test_every_script_of_its_packages_is_known(record: dict[str, Any], row: BaseRow, platform: Platform) -> None:
    system, known = record[row.suite][str(platform)], suites.read_known()

    assert system["asked"] == list(row.packages), WRITE
    assert [name for name, key in system["scripts"].items() if key not in known[name]] == []


def test_a_script_is_known_by_its_name_and_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (deb.parse_package(package(name, scripts={"postinst": f"#!/bin/sh\necho {name}\n"}), name)
                  for name in ("one", "other"))  # fmt: skip
    key = suites.script_key(one, "postinst")
    monkeypatch.setattr(suites, "read_known", lambda: {"one.postinst": ["0", key], "other.postinst": [key]})

    assert [script.name for script in suites.list_unknown([one, other])] == ["other.postinst"]
    suites.require_known([one])
    with pytest.raises(WorldFault, match=r"other\.postinst of 1"):
        suites.require_known([one, other])
    text = "#!/bin/sh\n\n# a comment\n  echo 2 of amd64\nls usr/lib/aarch64-linux-gnu a:arm64"
    known = deb.parse_package(package("one", scripts={"postinst": text}, version="2"), "one")
    kept = b"echo VERSION of amd64\nls usr/lib/MACHINE aMACHINE"
    assert suites.script_key(known, "postinst") == hashlib.sha256(kept).hexdigest()
    for text, is_same in (("#!/bin/sh\n\n# a comment\n  echo one  \n", True), ("echo one\necho two\n", False)):
        changed = deb.parse_package(package("one", scripts={"postinst": text}, version="2"), "one")
        assert (suites.script_key(changed, "postinst") == key) is is_same
        assert [script.version for script in suites.list_unknown([changed])] == ["2"] * (not is_same)


@pytest.mark.parametrize(("row", "platform"), SYSTEMS)
def test_it_has_what_a_base_of_others_may_lack(record: dict[str, Any], row: BaseRow, platform: Platform) -> None:
    """Another package of a suite may provide one, under the name of another interface."""
    added = record[row.suite][str(platform)]["additions"]

    assert len(added) == len(additions.packages_of(list(PIECES)))


@pytest.mark.parametrize(("row", "platform"), SYSTEMS)
def test_no_row_of_its_scripts_is_idle(record: dict[str, Any], row: BaseRow, platform: Platform) -> None:
    of_row = {of_suite[0] for of_suite in suites.SUITES[row.suite].rows(platform)}
    every = {common[0] for common in suites.TABLE}
    recorded = {name.rpartition(".")[0] for name in record[row.suite][str(platform)]["scripts"]}
    anywhere = {
        name.rpartition(".")[0] for of in record.values() for system in of.values() for name in system["scripts"]
    }

    assert of_row - recorded == set()
    assert every - anywhere == set()


@pytest.mark.parametrize("row", SUITES, ids=lambda row: row.suite)
def test_people_and_scanners_know_its_number(row: BaseRow) -> None:
    number = suites.SUITES[row.suite].number

    assert f"Debian {number}" in (ROOT / "docs/build.md").read_text()


def test_a_suite_without_rows_is_refused() -> None:
    with pytest.raises(WorldFault, match="not known here") as caught:
        suites.rows("sid", PLATFORMS[0])
    assert caught.value.value == "sid"


def test_accounts_are_there_before_others_are_added() -> None:
    for row in SUITES:
        done = [effect for _, effect, *_ in suites.rows(row.suite, PLATFORMS[0])]
        assert done[0] is effects.accounts and effects.accounts not in done[1:]
