"""Debian's own packages on the image of the session: what a site has and the image does not."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from images.debian import packages
from images.host.errors import WorldFault
from images.platforms import AMD64
from images.store.store import Store, default_root
from tests.cluster.nodes import MEET
from tests.support import locks
from tests.support.harness import call

SUITE = "bookworm"
# Unpacked and not configured: a maintainer's script would start daemons, and choose among several mpirun.
UNPACK = f"""\
FROM {{image}}
USER 0
COPY . /packages/
RUN dpkg --unpack --force-depends /packages/*.deb > /packages/log \\
    && ldconfig \\
    && install -m 0644 /packages/meet.py {MEET}
"""


def choose_packages(*names: str) -> dict[str, Path]:
    """Return what packages need, down to the C library, as package -> file, from the cache of build.py; skip without a
    mirror.
    """
    store = Store(default_root(os.environ))
    today = replace(locks.context(store, None, os.environ), today=datetime.date.today())
    try:
        debs = packages.resolve_base(SUITE, names, AMD64, today).debs
    except WorldFault as fault:
        pytest.skip(f"NO PACKAGES OF DEBIAN: {fault}")
    return {deb.package: store.place(deb.sha256, deb.filename) for deb in debs}


def build_image(image: str, tag: str, debs: Mapping[str, Path], place: Path, steps: Sequence[str] = ()) -> None:
    """Put the packages that the image lacks onto it, and meet.py; place has the files that further steps take."""
    listed = call(["docker", "run", "--rm", "--entrypoint", "dpkg-query", image, "-W", "-f", "${Package} "])
    for package in debs.keys() - set(listed.out.split()):
        shutil.copyfile(debs[package], place / f"{package}.deb")
    shutil.copyfile(Path(__file__).with_name("meet.py"), place / "meet.py")
    text = UNPACK.format(image=image) + "".join(f"{step}\n" for step in (*steps, "RUN rm -r /packages"))
    (place / "Dockerfile").write_text(text)
    assert call(["docker", "build", "--network", "none", "--quiet", "--tag", tag, str(place)]).code == 0
