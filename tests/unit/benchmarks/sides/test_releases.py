"""Which releases the sides are built of."""

from __future__ import annotations

from packaging.version import Version

from benchmarks.sides import releases
from images.plan import catalog


def test_the_default_release_comes_first_and_is_changed_to_one_of_the_minor_version_before() -> None:
    first, other = map(Version, releases.choose())
    table = catalog.load()
    between = [row.version for row in table.transformers.values() if other < row.version < first and not row.yanked]

    assert first == table.default_transformers
    assert not table.transformers[other].yanked
    assert {version.release[:2] for version in between} <= {first.release[:2]}
