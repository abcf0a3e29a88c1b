"""The ground of a build: a base that is made or brought, what hides in it, and what is put beside what it has."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from images.base import additions, pulled, replaced
from images.base import base as floor
from images.base import debian as base
from images.base.apt import Choice
from images.base.base import Floor
from images.base.debian import Debian
from images.base.pulled import Foreign
from images.host.context import Context
from images.host.errors import Fault, UserFault
from images.layers import oneccl
from images.layers import wheel as wheels
from images.layers.assemble import Extra
from images.lock.collect import Wheel
from images.lock.lock import Artifact, BaseImage, Lock
from images.oci import reference
from images.plan.planner import Plan


@dataclass(frozen=True)
class Ready:
    """A base in the store, the layers that lie directly upon it, what it is made from, and what is hidden of it."""

    floor: Floor
    extras: tuple[Extra, ...]
    origin: Debian | Foreign
    hidden: tuple[str, ...] = ()


def bring(planned: Plan, context: Context) -> Foreign | None:
    """Bring the base of a plan, unless it is made here.

    Raises UserFault when it cannot carry what is planned, before anything else is fetched.
    """
    if planned.base_reference is None:
        return None
    with context.progress.step("fetching the base"), _or_debian():
        image = pulled.bring(
            reference.parse(planned.base_reference), context.store, context.access, context.progress.advance
        )
    floor.refuse(image, planned.python, planned.base.glibc)
    if image.facts.sshd is None:
        context.progress.say("note: the base has no sshd: mpirun cannot start ranks on other hosts, torchrun can")
    return image


@contextmanager
def _or_debian() -> Iterator[None]:
    """Name the way out that is always there."""
    try:
        yield
    except Fault as fault:
        raise type(fault)(fault.fact, fault.value, f"{fault.remedy}; or --base debian") from fault


def debs_for(image: Foreign, choice: Choice, context: Context) -> Choice:
    """Choose the packages that have what a base lacks, and make sure that it runs there."""
    names = additions.lacking(image.facts)
    wanted = additions.packages(names)
    chosen = tuple(deb for deb in choice.debs if deb.package in wanted)
    additions.read(context.store, chosen, names, image.facts, context.environ)
    return Choice(chosen, choice.sources)


def standing(image: Foreign, python: str, artifacts: Sequence[Artifact]) -> BaseImage:
    """Say for a lock which image this is, and which planned packages it has at the planned version.

    Raises UserFault when a package must be replaced that has no list of its files.
    """
    known = reference.parse(image.name)
    name = str(known) if isinstance(known, reference.Remote) else None
    decision = replaced.decide(image.facts, python, [(a.name, a.version) for a in artifacts])
    return BaseImage(image.manifest, tuple(project for project, _ in decision.keep), name)


def locked_base(locked: Lock, context: Context) -> Foreign | None:
    """Bring the base of a lock, from the store where it is there.

    Raises WorldFault when a part of it cannot be had, UserFault when another one was named.
    """
    if locked.base_image is None:
        return None
    access = context.access if context.pip else None
    named = context.base
    with context.progress.step("fetching the base"):
        if named:
            image = pulled.bring(reference.parse(named), context.store, context.access, context.progress.advance)
            if image.digest != locked.base_image.manifest.digest:
                value = f"{named} ({image.digest}, not {locked.base_image.manifest.digest})"
                raise UserFault("that is not the base of the lock", value, "the base that the lock was made with")
            return image
        return pulled.again(
            locked.base_image.manifest, locked.base_image.reference, context.store, access, context.progress.advance
        )


def ready(locked: Lock, image: Foreign | None, context: Context) -> Ready:
    """Make the base of a lock, or bring it."""
    if image is None:
        choice = Choice(locked.debian.debs, locked.debian.sources)
        with context.progress.step("Debian base"):
            debian, reused = base.make(context.store, locked.debian, choice, context.environ)
        made = floor.on_debian(debian, locked.debian.suite, locked.python, reused=reused)
        return Ready(made, (), debian)
    floor.refuse(image, locked.python, locked.glibc)
    name = locked.base_image.reference if locked.base_image else None
    hidden = _hidden(image, locked)
    hiding = (Extra("replaced", hidden, lambda layer: replaced.write(layer, hidden)),) if hidden else ()
    extras = (*hiding, *_adding(image, locked, context))
    return Ready(floor.on_image(image, name, locked.python), extras, image, hidden)


def with_bindings(ready: Ready, locked: Lock, found: Sequence[Wheel]) -> Floor:
    """Add the paths that lead to oneCCL's bindings, whether a wheel or the base brings them."""
    module, site = locked.module, ready.floor.site.folder
    if locked.backend != "ccl" or module is None:
        return ready.floor
    path = next((wheel.path for wheel in found if wheel.project == oneccl.BINDINGS), None)
    listing = {} if isinstance(ready.origin, Debian) else ready.origin.facts.listing
    names = wheels.names(path) if path else _names(ready.origin, site)
    taken = {place for place in oneccl.PLACES if place.rpartition("/")[2] in listing.get(place.rpartition("/")[0], ())}
    if any(artifact.name == "impi-rt" for artifact in locked.artifacts):
        taken |= {*oneccl.PLACES}
    links = oneccl.links(names, module, site)
    kept = {place: target for place, target in links.items() if place not in taken}
    return dataclasses.replace(ready.floor, links={**ready.floor.links, **kept})


def _names(origin: Debian | Foreign, site: str) -> list[str]:
    """List the files of bindings that the base has, as a wheel would."""
    installed = () if isinstance(origin, Debian) else origin.facts.distributions
    files = next((d.files for d in installed if (d.name, d.folder) == (oneccl.BINDINGS, site)), None)
    return [path.removeprefix(f"{site}/") for path in files or () if path.startswith(f"{site}/")]


def _hidden(image: Foreign, locked: Lock) -> tuple[str, ...]:
    planned = [(artifact.name, artifact.version) for artifact in locked.added]
    return replaced.hidden(image.facts, replaced.decide(image.facts, locked.python, planned).replaced)


def _adding(image: Foreign, locked: Lock, context: Context) -> tuple[Extra, ...]:
    lacking = additions.lacking(image.facts)
    files = additions.read(context.store, locked.debian.debs, lacking, image.facts, context.environ)
    inputs = sorted((place, hashlib.sha256(data).hexdigest()) for place, data in files.items())
    return (Extra("additions", inputs, lambda layer: additions.write(layer, files, image.facts)),) if files else ()
