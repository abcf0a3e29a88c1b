"""What goes directly on a base image: packages of its own are hidden, files that it lacks are added."""

from __future__ import annotations

from dataclasses import asdict

from images.base import additions, replaced
from images.base.base import Base
from images.context import Context
from images.layers.assemble import Extra
from images.lock.lock import Lock
from images.oci.layer_writer import LayerWriter


def choose_hidden(base: Base, lock: Lock) -> tuple[str, ...]:
    """Return the paths of a base that must not be seen: its packages at other versions than those of the lock.

    Also what forbids pip to install: pip works in an image as anywhere else.
    """
    if base.manifest is None:
        return ()
    added = [(artifact.name, artifact.version) for artifact in lock.added]
    old = replaced.compare_packages(base.facts, lock.python, added).replaced
    marks = [mark for python, mark in base.facts.marks.items() if python == lock.python]
    return (*replaced.list_hidden(base.facts, old), *marks)


def list_extras(base: Base, lock: Lock, hiding: tuple[str, ...], context: Context) -> tuple[Extra, ...]:
    """Return the layers directly on a base: one that hides paths, and one of what the base lacks.

    New files go to layers above the first: a whiteout and a file at one path of one layer do not load in every engine.
    """

    def hide(layer: LayerWriter) -> None:
        for path in hiding:
            layer.whiteout(path)

    layers = [Extra("replaced", hiding, hide)] if hiding else []
    if base.manifest and (names := additions.list_missing_pieces(base.facts)):
        debs, facts = lock.debian.debs, base.facts
        directory = additions.library_directory(facts)
        inputs = [names, [asdict(deb) for deb in debs], facts.glibc, directory, directory in facts.directories.owners]

        def add(layer: LayerWriter) -> None:
            additions.write_pieces(layer, additions.read_pieces(context.store, debs, names, facts), facts)

        layers.append(Extra("additions", inputs, add))
    return tuple(layers)
