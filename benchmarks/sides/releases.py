"""Which releases are built, from the table of versions."""

from __future__ import annotations

from images.plan import catalog


def choose() -> tuple[str, str]:
    """Return the release of transformers that is built first, the default, and the one that is changed to.

    That is the newest of the minor version before, as somebody would have it who has not followed yet.
    """
    table = catalog.load()
    first = table.default_transformers
    rows = [row.version for row in table.transformers.values() if not row.yanked]
    return str(first), str(max(version for version in rows if version.release[:2] < first.release[:2]))
