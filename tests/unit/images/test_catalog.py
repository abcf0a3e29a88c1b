"""Bad tables -> one message with every fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from images import catalog
from images.errors import UserFault


def test_the_table_is_sound() -> None:
    made = catalog.load()

    assert made.default_torch in made.torch
    assert made.default_transformers in made.transformers
    assert {row.name for row in made.source_only} == {"rouge-score", "seqeval"}


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('version = "2.13.0"', 'version = "2.13.o"', "torch row 1: '2.13.o' is not a version"),
        ('torch = ">=2.2"', 'torch = "=>2.2"', "transformers row 1: torch = '=>2.2' is not a version range"),
        ('"4.57.1" =', '"4.57.one" =', "'4.57.one' is not a version"),
        ("backend =", "backnd =", "torch row 1: no key 'backend'; torch row 1: unknown key 'backnd'"),
        ("[default]", "[defaults]", "no section 'default'"),
        ("[default]", "[default", "not TOML"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    text = catalog.TABLE.read_text()
    assert old in text
    path = tmp_path / "versions.toml"
    path.write_text(text.replace(old, new, 1))

    with pytest.raises(UserFault) as caught:
        catalog.load(path)

    assert fault in str(caught.value)


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    path = tmp_path / "versions.toml"
    path.write_text(catalog.TABLE.read_text().replace("backend", "backnd").replace('">=2.2"', '"2.2-ish"'))

    with pytest.raises(UserFault) as caught:
        catalog.load(path)

    assert "backnd" in str(caught.value)
    assert "2.2-ish" in str(caught.value)
