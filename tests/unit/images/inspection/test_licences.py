"""Licences from the metadata of wheels and from debian/copyright."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from cyclonedx.model.license import License, LicenseExpression
from hypothesis import given
from hypothesis import strategies as st
from packaging.metadata import parse_email

from images.base.control import shortened
from images.inspection.licences import of_debian, of_wheel


def shown(licences: Iterable[License]) -> list[str]:
    return [
        f"expression {one.value}" if isinstance(one, LicenseExpression) else f"id {one.id}" if one.id else str(one.name)
        for one in licences
    ]


@pytest.mark.parametrize(
    ("metadata", "licences"),
    [
        ("", []),
        ("License-Expression: MIT", ["id MIT"]),
        ("License-Expression: apache-2.0", ["id Apache-2.0"]),
        ("License-Expression: MPL-2.0 AND (MIT OR ISC)", ["expression MPL-2.0 AND (MIT OR ISC)"]),
        ("License-Expression: LicenseRef-Ours", ["LicenseRef-Ours"]),
        ("License-Expression: MIT\nLicense: BSD", ["id MIT"]),
        ("Classifier: License :: OSI Approved :: MIT License\nLicense: MIT", ["MIT License"]),
        (
            "Classifier: License :: Public Domain\nClassifier: License :: OSI Approved :: BSD License",
            ["BSD License", "Public Domain"],
        ),
        ("Classifier: License :: OSI Approved\nLicense: ISC", ["id ISC"]),
        ("Classifier: Programming Language :: Python\nLicense: ISC", ["id ISC"]),
        ("License: Apache 2.0 License", ["Apache 2.0 License"]),
        ("License: MIT OR Apache-2.0", ["expression MIT OR Apache-2.0"]),
        ("License: GPL", ["GPL"]),
        ("License: UNKNOWN", []),
        ("License: LICENSE.txt", []),
        ("License: See the LICENSE file", []),
        ("License: Permission is hereby granted, free of charge, to any person obtaining a copy of this software", []),
        ("License: MIT\n        as is", []),
    ],
)
def test_of_wheel(metadata: str, licences: list[str]) -> None:
    raw, _ = parse_email(f"Metadata-Version: 2.4\nName: a\n{metadata}\n")

    assert shown(of_wheel(raw)) == licences


HEADER = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"


@pytest.mark.parametrize(
    ("text", "licences"),
    [
        ("", []),
        ("This is licensed under the GPL.\nLicense: GPL-2\n", []),
        ("Files: *\nLicense: GPL-2\n", []),
        (f"{HEADER}License: Expat\n", ["Expat"]),
        (f"{HEADER}\nFiles: *\nLicense: GPL-2+ or  Artistic\n", ["GPL-2+ or Artistic"]),
        (f"{HEADER}\nFiles: *\nLicense: GPL-2+\n This program is free\n .\n software", ["GPL-2+"]),
        (f"{HEADER}\nFiles: a\nLicense: ISC\n\nFiles: b\nLicense: BSD-3-clause\n", ["id BSD-3-Clause", "id ISC"]),
        (f"{HEADER}\nFiles: a\nLicense: MIT\n\nFiles: b\nLicense: mit\n", ["id MIT"]),
        (f"{HEADER}\nFiles: a\nLicense: GPL-2 or MIT\n\nLicense: GPL-2\n On Debian systems", ["GPL-2 or MIT"]),
        (f"{HEADER}\nFiles: a\nLicense:\n the text alone\n\nFiles: b\nCopyright: me\n", []),
    ],
)
def test_of_debian(text: str, licences: list[str]) -> None:
    assert shown(of_debian(text)) == licences


@given(st.text(), st.lists(st.text()), st.text())
def test_any_statement_of_a_wheel_is_read(expression: str, classifiers: list[str], text: str) -> None:
    named = [f"License :: {name}" for name in classifiers]

    assert isinstance(of_wheel({"license_expression": expression}), list)
    assert len(of_wheel({"classifiers": named, "license": text})) <= max(1, len(named))


@given(st.text() | st.text().map(f"{HEADER}\nFiles: *\nLicense: ".__add__))
def test_any_copyright_is_read(text: str) -> None:
    assert len(of_debian(text)) <= text.count("icense")


@given(st.text() | st.lists(st.text() | st.sampled_from(["Files: *\nLicense: ", "\n\n"])).map(f"{HEADER}\n".join))
def test_a_shortened_copyright_states_the_same(text: str) -> None:
    assert shown(of_debian(shortened(text))) == shown(of_debian(text))
