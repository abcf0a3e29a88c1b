"""What goes directly on a base image: packages of its own are hidden, files that it lacks are added, links are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from images.base import additions, replaced
from images.host.context import Context
from images.layers import oneccl
from images.layers.assemble import Extra
from images.model import BINDINGS, Base, Lock, Wheel
from images.oci.layer import LayerWriter
from images.wheels import archive


def hidden(base: Base, lock: Lock) -> tuple[str, ...]:
    """Return the paths of a base that must not be seen: its packages at other versions than those of the lock.

    Also what forbids pip to install: pip works in an image as anywhere else.
    """
    if base.manifest is None:
        return ()
    added = [(each.name, each.version) for each in lock.added]
    old = replaced.decide(base.facts, lock.python, added).replaced
    marks = [mark for python, mark in base.facts.marks.items() if python == lock.python]
    return (*replaced.hidden(base.facts, old), *marks)


def extras(base: Base, lock: Lock, hiding: tuple[str, ...], context: Context) -> tuple[Extra, ...]:
    """Return the layers directly on a base: one that hides paths, and one of what the base lacks.

    New files go to layers above the first: a whiteout and a file at one path of one layer do not load in every engine.
    """

    def hide(layer: LayerWriter) -> None:
        for path in hiding:
            layer.whiteout(path)

    found = [Extra("replaced", hiding, hide)] if hiding else []
    if base.manifest and (names := additions.lacking(base.facts)):
        debs, facts = lock.debian.debs, base.facts
        inputs = [
            names,
            [deb.sha256 for deb in debs],
            facts.glibc,
            additions.directory(facts) in facts.directories.owners,
        ]

        def add(layer: LayerWriter) -> None:
            additions.write_files(layer, additions.read_files(context.store, debs, names, facts), facts)

        found.append(Extra("additions", inputs, add))
    return tuple(found)


def with_bindings(base: Base, lock: Lock, found: Sequence[Wheel]) -> Base:
    """Return the base with links to oneCCL's bindings, whether a wheel or the base brings them."""
    if lock.backend != "ccl" or lock.module is None:
        return base
    path = next((wheel.path for wheel in found if wheel.project == BINDINGS), None)
    listing = base.facts.listing
    taken = {place for place in oneccl.PLACES if place.rpartition("/")[2] in listing.get(place.rpartition("/")[0], ())}
    if any(artifact.name == "impi-rt" for artifact in lock.artifacts):
        taken |= {*oneccl.PLACES}
    links = oneccl.links(_of_wheel(path) if path else _of_base(base), lock.module, base.site.directory)
    kept = {place: target for place, target in links.items() if place not in taken}
    return dataclasses.replace(base, links={**base.links, **kept})


def _of_wheel(path: Path) -> list[str]:
    """List the files of bindings in their wheel."""
    with archive.opened(path) as wheel:
        return [*wheel.members]


def _of_base(base: Base) -> list[str]:
    """List the files of bindings that the base has, as a wheel would."""
    site, installed = base.site.directory, base.facts.distributions
    files = next((d.files for d in installed if (d.name, d.directory) == (BINDINGS, site)), None)
    return [path.removeprefix(f"{site}/") for path in files or () if path.startswith(f"{site}/")]
