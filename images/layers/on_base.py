"""What goes on a base of others: what of it stays, what is hidden or replaced, and files that it lacks."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from images.base import additions
from images.base.base import Base, Distribution, Facts
from images.context import Context
from images.host.errors import UserFault
from images.layers.assemble import Draft
from images.lock.lock import Lock
from images.oci.layer_writer import LayerWriter

COMPILED = re.compile(r"(.+?)\.[^.]+(?:\.opt-[^.]+)?\.pyc")


@dataclass(frozen=True)
class Decision:
    """Which planned projects the base has already, and which packages of the base are replaced, so to be hidden."""

    kept: tuple[str, ...]
    replaced: tuple[Distribution, ...]


def compare_packages(facts: Facts, python: str, planned: Sequence[tuple[str, str]]) -> Decision:
    """Compare planned projects, given as (project, version), with what this Python would import.

    A version of the base with a local part, such as 2.4.0+cpu, is as good as the plain one (PyPA, "Version specifiers",
    version matching). A package in a directory that pip does not write to, such as Debian's, stays: Python imports
    the one that is added before it.
    Raises UserFault when something must be replaced that has no list of its files.
    """
    first, *_ = sites = facts.sites[python]
    kept, replaced = list[str](), list[Distribution]()
    for project, version in planned:
        name = canonicalize_name(project)
        installed = [old for site in sites for old in facts.distributions if (old.name, old.directory) == (name, site)]
        if installed and fits(installed[0].version, version):
            kept.append(project)
        else:
            replaced += [old for old in installed if old.directory == first]
    if unlisted := [f"{old.name} {old.version} in /{old.directory}" for old in replaced if old.files is None]:
        fact = "the base has packages at other versions, without a list of their files"
        raise UserFault(fact, ", ".join(unlisted), "ask for those versions, or take another base (--base debian)")
    return Decision(tuple(kept), tuple(replaced))


def fits(installed: str, planned: str) -> bool:
    """Return whether an installed version is the planned one, which follows the rules (PyPA, "Version specifiers")."""
    return SpecifierSet(f"=={planned}").contains(installed, prereleases=True)


def list_hidden(facts: Facts, replaced: Sequence[Distribution]) -> tuple[str, ...]:
    """Return the paths that hide replaced packages: files, their bytecode, and directories that nothing is left in.

    A file that a package which stays has in its list too is not hidden. No path lies below another.
    """
    infos, compiled = {old.info for old in replaced}, _compiled(facts)
    others = [other for other in facts.distributions if other.info not in infos]
    gone = _list_owned(replaced, compiled) - _list_owned(others, compiled)
    staying = _staying(old.directory for old in replaced)
    for directory in sorted(facts.listing, key=lambda path: -path.count("/")):
        inside = {f"{directory}/{name}" for name in facts.listing[directory]}
        if inside and inside <= gone and directory not in staying:
            gone = (gone - inside) | {directory}
    return tuple(path for path in sorted(gone) if gone.isdisjoint(map(str, PurePosixPath(path).parents)))


def _list_owned(distributions: Iterable[Distribution], compiled: Mapping[str, Sequence[str]]) -> set[str]:
    """Name what belongs to packages: what they list, what was compiled of it, and their .dist-info in any case."""
    paths: set[str] = set()
    for distribution in distributions:
        paths.add(distribution.info)
        for path in distribution.files or ():
            paths |= {path, *compiled.get(path, ())}
    return paths


def _compiled(facts: Facts) -> dict[str, list[str]]:
    """Map modules to what was compiled of them, whoever compiled it and however (PEP 3147, PEP 488)."""
    compiled: dict[str, list[str]] = {}
    for cache, names in facts.listing.items():
        matches = map(COMPILED.fullmatch, names if cache.endswith("/__pycache__") else ())
        for match in filter(None, matches):
            module = f"{posixpath.dirname(cache)}/{match[1]}.py"
            compiled.setdefault(module, []).append(f"{cache}/{match[0]}")
    return compiled


def _staying(directories: Iterable[str]) -> set[str]:
    """Name the directories that stay even when empty: those of packages, what is above, bin and the like."""
    staying: set[str] = set()
    for directory in directories:
        prefix = directory.partition("/lib")[0]
        staying |= {f"{prefix}/{name}" for name in ("bin", "etc", "include", "lib", "lib64", "sbin", "share")}
        while directory:
            staying.add(directory)
            directory = posixpath.dirname(directory)
    return staying


# What goes directly on a base image: packages of its own are hidden, files that it lacks are added.


def choose_hidden(base: Base, lock: Lock) -> tuple[str, ...]:
    """Return the paths of a base that must not be seen: its packages at other versions than those of the lock.

    Also what forbids pip to install: pip works in an image as anywhere else.
    """
    if not base.is_pulled:
        return ()
    added = [(artifact.name, artifact.version) for artifact in lock.added]
    old = compare_packages(base.facts, lock.python, added).replaced
    marks = [mark for python, mark in base.facts.marks.items() if python == lock.python]
    return (*list_hidden(base.facts, old), *marks)


def list_extras(base: Base, lock: Lock, hiding: tuple[str, ...], context: Context) -> tuple[Draft, ...]:
    """Return the layers directly on a base: one that hides paths, and one of what the base lacks.

    New files go to layers above the first: a whiteout and a file at one path of one layer do not load in every engine.
    """

    def hide(layer: LayerWriter) -> None:
        for path in hiding:
            layer.whiteout(path)

    layers = [Draft("replaced", hiding, hide)] if hiding else []
    if base.is_pulled and (names := additions.list_missing_pieces(base.facts)):
        debs, facts = lock.debian.debs, base.facts
        directory = additions.library_directory(facts)
        inputs = [names, [asdict(deb) for deb in debs], facts.glibc, directory, directory in facts.directories.owners]

        def add(layer: LayerWriter) -> None:
            additions.write_pieces(layer, additions.read_pieces(context.store, debs, names, facts), facts)

        layers.append(Draft("additions", inputs, add))
    return tuple(layers)
