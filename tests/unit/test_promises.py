"""What the documents promise to stay, of this release and the next ones with its number, is in the program."""

from __future__ import annotations

import re

import pytest

from images import report
from images.base.base import Site
from images.check import verify
from images.deliver.engine import ENGINES
from images.layers import configuration, entrypoint_layer
from images.layers.configuration import ENVIRONMENT
from images.layers.entrypoint_layer import DIRECTORIES, GID, UID
from images.layers.examples import PLACE
from images.lock import lockfile
from manifests.pod import GROUP
from manifests.request import Request
from multinode_image import settings
from multinode_image.results.identity import OUTPUTS
from multinode_image.tasks.command import COMMANDS, read_command
from tests.support.bases import base
from tests.support.documents import page, pages
from tests.support.finished_images import EMPTY
from tests.support.harness import ROOT
from tests.support.locks import lock
from tests.support.stand_in import SYSTEM
from tests.support.toml import tomllib

REFERENCE = page("docs/reference.md").text
SITE = Site("3.11", "usr/lib/python3/dist-packages", "/usr/bin/python3")
TYPED = (*COMMANDS, "qa", "glue", "mlm", "bash")
# What processes of ours tell each other.
INTERNAL = (
    "BEFORE",
    "BEGAN",
    "CORES",
    "COUNTS",
    "PLANNED",
    "JOB",
    "KILLED",
    "MEMBER",
    "RUN",
    "SET",
    "START",
    "STACK",
    "SUPERVISED",
    "TRAINING",
    "WORD",
    "WORDS",
)


def promised(what: str) -> list[str]:
    """List the code in a row of the promises."""
    (row,) = re.findall(rf"(?m)^\| {what} \| (.*) \|$", REFERENCE)
    return re.findall(r"`([^`]+)`", row)


def test_labels() -> None:
    labels = configuration.labels(lock(python="3.10"), base(SYSTEM, is_debian=True))
    ours = {name for name in labels if name.startswith("multinode.")}

    assert ours == set(promised("labels")), "docs/reference.md promises every label of ours"


def test_paths() -> None:
    places = (*DIRECTORIES, *entrypoint_layer.read_entrypoint(SITE), PLACE, verify.LOCK, verify.BILL)

    assert set(promised("paths")) <= {*(f"/{place}" for place in places), *ENVIRONMENT.values()}


def test_the_user() -> None:
    assert f"| user | uid {UID}, group {GID} |" in REFERENCE
    assert (Request.uid, GROUP) == (UID, GID), "manifests/request.py has the user of images/layers/entrypoint_layer.py"


def test_pages_name_the_user_by_the_same_uid() -> None:
    """Who runs as another one, as on OpenShift, has a uid of six digits and more there."""
    named = re.compile(r"\b(?:uid|chown|USER|runAsUser:|fsGroup:|user) ([0-9]{1,5})\b")
    stale = [f"{document.path}: {match[0]}" for document in pages() for match in named.finditer(document.text)]

    assert [said for said in stale if not said.endswith(f" {UID}")] == [], f"the uid of the image's user is {UID}"


def test_the_page_of_scripts_names_every_flag_for_results() -> None:
    text = page("docs/script.md").text

    assert [name for name in OUTPUTS if f"`--{name}`" not in text] == []


def test_the_lock() -> None:
    table = tomllib.loads(lockfile.format_lock(lock()))["tool"]["multinode"]

    assert promised("lock")[1:] == ["[tool.multinode]", f"format = {table['format']}"]


def test_each_variable_that_we_read_is_known() -> None:
    texts = [path.read_text() for path in (ROOT / "multinode_image").rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"\bMULTINODE_([A-Z0-9_]+)", text)}

    assert read - {*INTERNAL} == {*settings.NAMES}, "settings.VARIABLES has what users set, the rest is listed above"


def test_the_page_of_builds_names_every_engine() -> None:
    needs = page("docs/build.md").text.partition("\n## ")[0]

    assert [row.name for row in ENGINES if row.name not in needs] == [], (
        "an engine is named where the page says what a build needs"
    )


def test_what_json_has_of_a_build() -> None:
    fields = report.outcome_fields(report.Outcome((EMPTY,), None, None, (), 1.0))

    assert set(promised("`build.py`")[2:]) <= fields.keys()


@pytest.mark.parametrize("name", TYPED)
def test_the_commands_of_the_entrypoint(name: str) -> None:
    read = read_command([name], {}, lambda program, _: program if program == "bash" else None)

    assert read.name == (COMMANDS[name].name if name in COMMANDS else name)


def test_the_newest_part_of_the_changelog_is_this_release() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    sections = re.findall(r"(?m)^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text())

    assert next(name for name in sections if name != "Unreleased") == version
