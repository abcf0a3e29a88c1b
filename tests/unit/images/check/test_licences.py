"""Licences from the metadata of wheels."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from cyclonedx.model.license import License, LicenseExpression
from hypothesis import given
from hypothesis import strategies as st
from packaging.metadata import parse_email

from images.check.components import licences


def shown(found: Iterable[License]) -> list[str]:
    return [
        f"expression {one.value}" if isinstance(one, LicenseExpression) else f"id {one.id}" if one.id else str(one.name)
        for one in found
    ]


@pytest.mark.parametrize(
    ("metadata", "stated"),
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
def test_a_wheel_has_the_licences_that_its_metadata_name(metadata: str, stated: list[str]) -> None:
    raw, _ = parse_email(f"Metadata-Version: 2.4\nName: a\n{metadata}\n")

    assert shown(licences(raw)) == stated


@given(st.text(), st.lists(st.text()), st.text())
def test_any_statement_of_a_wheel_is_read(expression: str, classifiers: list[str], text: str) -> None:
    named = [f"License :: {name}" for name in classifiers]

    assert isinstance(licences({"license_expression": expression}), list)
    assert len(licences({"classifiers": named, "license": text})) <= max(1, len(named))
