"""Fields of the user's in a manifest: what no option says, in the words of the object itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def merge(ours: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the fields of a patch: objects are merged, null removes, everything else replaces.

    Lists of objects with names, such as containers, volumes and variables, are merged by them, as `kubectl patch` does
    with the objects of Kubernetes (strategic merge patch); of custom resources it replaces whole lists.
    """
    merged = dict(ours)
    for key, value in patch.items():
        there = ours.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = merge(there if isinstance(there, Mapping) else {}, value)
        elif isinstance(there, list) and are_named(value) and are_named(there):
            merged[key] = merge_named(there, value)
        else:
            merged[key] = value
    return merged


def are_named(value: Any) -> bool:
    """Return whether a value is a list of objects, each with a name."""
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) and "name" in row for row in value)


def merge_named(ours: Sequence[Mapping[str, Any]], patch: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return our rows, each with what the patch says of its name, and behind them those that only the patch has.

    A volume has a name in two places: each mount is known by its path.
    """
    key = "mountPath" if all("mountPath" in row for row in (*ours, *patch)) else "name"
    changes = {row[key]: row for row in patch}
    known = {row[key] for row in ours}
    return [merge(row, changes.get(row[key], {})) for row in ours] + [
        merge({}, row) for name, row in changes.items() if name not in known
    ]
