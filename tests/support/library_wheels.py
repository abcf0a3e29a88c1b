"""An image with the libraries of tests/data/libraries/requirements.txt, from wheels of the package index."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from images.layers.entrypoint_layer import UID
from images.store.store import default_root
from tests.support.harness import ROOT, call

LIBRARIES = ROOT / "tests/data/libraries"
PINS = LIBRARIES / "requirements.txt"
# --no-deps on the host, whose Python has other packages; in the image pip then checks that nothing is missing.
INSTALL = """\
FROM {image}
USER 0
COPY *.whl /wheels/
RUN pip install --no-index --find-links /wheels /wheels/*.whl && pip check && rm -r /wheels
USER {uid}
"""


def read_pins() -> dict[str, str]:
    """Return the version of each package."""
    rows = [line.split()[0] for line in PINS.read_text().splitlines() if not line.startswith("#")]
    return {name: version for name, _, version in (row.partition("==") for row in rows)}


def fetch_wheels() -> list[Path]:
    """Return the wheels, each checked by its sha256, from a cache beside the store; skip where they cannot be had."""
    place = default_root(os.environ).with_name("multinode-libraries")
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(place)]
    done = call([sys.executable, "-m", "pip", "download", *options, "--requirement", str(PINS)], seconds=300)
    if done.code:
        pytest.skip(f"NO LIBRARIES WERE TESTED: {done.err}")
    names = {f"{name.replace('-', '_')}-{version}-" for name, version in read_pins().items()}
    return [wheel for wheel in place.glob("*.whl") if wheel.name.startswith(tuple(names))]


def build_libraries(image: str, tag: str, place: Path) -> None:
    """Put the libraries onto an image."""
    for wheel in fetch_wheels():
        shutil.copy(wheel, place)
    (place / "Dockerfile").write_text(INSTALL.format(image=image, uid=UID))
    assert call(["docker", "build", "--network", "none", "--quiet", "--tag", tag, str(place)]).code == 0
