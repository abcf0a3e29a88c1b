"""Licences as their authors state them: SPDX identifiers where they are such, else names; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cyclonedx.contrib.license.exceptions import InvalidSpdxLicenseException
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.license import DisjunctiveLicense, License, LicenseExpression
from packaging.metadata import RawMetadata

SHORT = 80  # the License field of a wheel holds a name or a whole text; no name is longer

# What people and tools write where they state none, or where they point at a file.
NO_NAME = re.compile(r"(unknown|none|n/?a|see\b.*|file:.*|(the )?licen[cs]e(\.\w+)?|copying)?", re.IGNORECASE)
CLASSIFIER = "License :: "


def of_wheel(metadata: RawMetadata) -> list[License]:
    """Return the licences that a wheel states: License-Expression, else its classifiers, else a short License field."""
    if expression := metadata.get("license_expression", "").strip():
        return stated(expression)
    if named := [name for name in map(_classified, metadata.get("classifiers", [])) if name]:
        return _each(named)
    text = metadata.get("license", "").strip()
    return stated(text) if len(text) <= SHORT and "\n" not in text else []


def stated(text: str) -> list[License]:
    """Return the licence of one statement: an SPDX identifier, an SPDX expression, or else a name."""
    if NO_NAME.fullmatch(text):
        return []
    made = LicenseFactory().make_from_string(text)
    # A single word that is no identifier passes for an expression if it is somebody's alias, as `GPL` is.
    return [_named(text)] if isinstance(made, LicenseExpression) and " " not in text else [made]


def _classified(classifier: str) -> str:
    """Take the last part of a trove classifier; `License :: OSI Approved` alone names no licence."""
    name = classifier.rpartition(" :: ")[2].strip()
    return name if classifier.startswith(CLASSIFIER) and name != "OSI Approved" else ""


def _each(names: Iterable[str]) -> list[License]:
    """Make a list of names; the format allows no expression among several licences."""
    once = {" ".join(name.split()) for name in names}
    return [*sorted({_named(name) for name in once if not NO_NAME.fullmatch(name)})]


def _named(name: str) -> DisjunctiveLicense:
    factory = LicenseFactory()
    try:
        return factory.make_with_id(name)
    except InvalidSpdxLicenseException:
        return factory.make_with_name(name)
