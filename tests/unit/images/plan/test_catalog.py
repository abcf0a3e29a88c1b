"""Bad tables -> one message with every fault."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from packaging.version import Version

from images.host.errors import UserFault
from images.plan import catalog

DAY = date(2026, 6, 30)

TEXT = catalog.TABLE.read_text()
ROW_2_13 = '"2.13.0" = { released = 2026-07-08, impi = "2021.18.0", openmp = "2026.0.0" }'
ROW_1_12_1 = '"1.12.1" = { released = 2022-08-05, bindings = "1.12.100"'


def test_libraries_are_never_as_of_a_day_before_the_wheels_for_the_python_of_debian() -> None:
    first = date(2023, 4, 12)  # sentencepiece 0.1.98 (PyPI)

    assert min(row.libraries for row in catalog.load().transformers.values()) >= first


def test_ipex_and_bindings_are_of_the_line_of_their_torch() -> None:
    for version, row in catalog.load().torch.items():
        for beside in (row.bindings, row.ipex):
            assert beside is None or beside.release[:2] == version.release[:2]


def test_the_days_of_a_stack_are_in_order() -> None:
    table = catalog.load()

    days = [row.released for _, row in sorted(table.torch.items())]

    assert days == sorted(days)
    assert table.transformers[Version("4.46.0")].released == date(2024, 10, 24)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('line = "2.13"', 'line = "2.1e"', "2.13.0')>.line: Value error, Invalid version: '2.1e'"),
        ('torch = ">=2.4"', 'torch = "=>2.4"', "Invalid specifier: '=>2.4'"),
        ('"4.57.1" =', '"4.57.one" =', "Invalid version: '4.57.one'"),
        ("backend =", "backnd =", ">.backend: Field required"),
        ("backend =", "backnd =", ">.backnd: Extra inputs are not permitted"),
        ('backend = "gloo"', 'backend = "glo"', ">.backend: Input should be 'ccl' or 'gloo'"),
        (ROW_2_13, ROW_2_13.replace("impi", "impl"), "torch.<Version('2.13.0')>.impi: Field required"),
        (ROW_2_13, ROW_2_13.replace("2026-07-08", '"July"'), "2.13.0')>.released: Input should be a valid date"),
        (ROW_2_13, ROW_2_13.replace("2.13.0", "2.12.1"), "2.12.1 is in the table twice"),
        (ROW_2_13, ROW_2_13.replace("2.13.0", "2.13.1"), "default or tested, and not in the table: 2.13.0"),
        (ROW_1_12_1, '"1.12.1" = { released = 2022-08-05', "ccl goes with"),
        ('module = "torch_ccl"\n', "", "ccl goes with"),
        ('find_links = "https://software', 'bindings_index = "u"\nfind_links = "https://software', "ccl goes with"),
        ('backend = "gloo"', 'backend = "gloo"\nbindings_index = "u"', "gloo with none"),
        (ROW_2_13, ROW_2_13 + "\n" + ROW_2_13.replace("2.13.0", "2.14.9"), "2.14.9 does not belong to this line"),
        ('"datasets>=2.10"', '"datasets=>2.10"', "Expected"),
        ('"4.46.1" = 2024', '"4.46" = 2024-10-24\n"4.46.1" = 2024', "4.46.0 is in the table twice"),
        ('transformers = "5.23.0"', 'transformers = "99.0.0"', "default or tested, and not in the table: 99.0.0"),
        ("[default]", "[defaults]", "default.torch: Field required"),
        ("[base.intel]", "[base.intl]", "base.intel: Field required"),
        ("[default]", "[more]\n[default]", "more: Extra inputs are not permitted"),
        ("[default]", "[default", "cannot be read"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in TEXT
    path = tmp_path / "versions.toml"
    path.write_text(TEXT.replace(old, new, 1))

    with pytest.raises(UserFault) as caught:
        catalog.load(path)

    assert fault in str(caught.value)


def test_every_release_of_ipex_was_read_for_what_it_imports() -> None:
    table = catalog.load()
    pins = [pin for row in table.undeclared for pin in row.pins]

    asked = {f"intel_extension_for_pytorch=={row.ipex}" for row in table.torch.values() if row.ipex}
    assert asked == set(pins)
    assert len(pins) == len(set(pins))


@pytest.mark.parametrize(
    ("security", "lts", "said"),
    [
        (DAY, DAY, "its security team until 2026-06-30, then LTS until 2026-06-30"),
        (DAY, None, ""),
        (None, DAY, ""),
        (None, None, ""),
    ],
)
def test_who_mends_a_suite_is_said_where_both_of_its_days_are_known(
    security: date | None, lts: date | None, said: str
) -> None:
    row = catalog.BaseRow(suite="a", python="3.11", glibc="2.36", packages=(), security=security, lts=lts)

    assert row.mended(date(2026, 1, 1)) == said
