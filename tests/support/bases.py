"""Base images of a few files, for tests of what goes on them."""

from __future__ import annotations

from images.base.base import Base, Site
from images.oci.manifest import Descriptor, Manifest
from tests.support.base_facts import facts_of
from tests.support.stand_in import Files

DIGEST = "sha256:" + "ab" * 32
MANIFEST = Manifest(DIGEST, Descriptor("application/json", DIGEST, 1), ())


def base(*layers: Files, python: str = "3.10", is_debian: bool = False) -> Base:
    """Write a base that was pulled, or one that was made here, without its layers."""
    facts = facts_of(*layers)
    site = Site(python, facts.sites[python][0], f"/{facts.pythons[python]}")
    return Base(name="a/b:1", layers=(), facts=facts, site=site, links={}, manifest=None if is_debian else MANIFEST)
