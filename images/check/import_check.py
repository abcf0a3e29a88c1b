"""The import check: the finished image imports every top-level package once, and finds the releases of the lock."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from images.host.errors import WorldFault
from images.host.store import Store
from images.host.text import shortened
from images.layers import entrypoint_layer
from images.model import Image, Wheel
from images.wheels.content import Content, content

# Not importable by itself, or only on other systems: module, reason.
SKIPPED = {
    "colorama": "for Windows",
    "pip": "a command",
    "setuptools": "a build tool; importing it patches distutils",
    "pkg_resources": "part of setuptools",
    "_distutils_hack": "part of setuptools",
    "distutils-precedence": "part of setuptools",
}
# Packages bring these by mistake and never import them; a project of the base may have its own.
ANYBODYS = {"benchmarks", "docs", "examples", "scripts", "test", "tests"}
# It gets modules, and releases with the modules of the package behind each.
SCRIPT = Path(__file__).with_name("import_all.py").read_text()
LONGEST = 1500  # characters of what is shown: there may be something to say of every module

# Run a command in a container of an image; return None if it went well, else the last line of what it printed.
Run = Callable[[Sequence[str]], "str | None"]
DECISIVE = ("Env", "User", "WorkingDir")  # what in an image's configuration decides what Python imports


class Wanted(NamedTuple):
    """What an image must have: the modules that can be imported, and releases, both in order.

    Each release is NAME==RELEASE, and behind it the modules that must be of that package, with spaces between.
    """

    modules: list[str]
    releases: list[str]


def wanted_of(store: Store, wheels: Iterable[Wheel]) -> Wanted:
    """Return what an image of these wheels must have."""
    said = [content(store, wheel.sha256, wheel.path) for wheel in wheels]
    modules = {module for one in said for module in one.modules}
    return Wanted(sorted(modules - SKIPPED.keys()), sorted(map(_release, said)))


def _release(said: Content) -> str:
    """Return name and release as a wheel's METADATA writes them: that is what Python says of an installed package."""
    own = (module for module in said.modules if module not in SKIPPED and module not in ANYBODYS)
    return " ".join((f"{said.metadata['name']}=={said.metadata['version']}", *own))


def imports(image: Image, wanted: Wanted, run: Run, store: Store, remedy: str) -> bool:
    """Import the modules in the image's Python, and ask it for its releases; return False if that was done before.

    Of the last layer, which is our own, counts what every Python runs.
    Raises WorldFault with `remedy`, which names every module that cannot be imported or is another one, and every
    package whose release is not found.
    """

    def check() -> bool:
        if (said := run(["python3", "-c", SCRIPT, *wanted.modules, *wanted.releases])) is not None:
            fact = "the image's Python does not import what the lock says"
            raise WorldFault(fact, shortened(said, LONGEST), remedy)
        return True

    diff_ids = [layer.written.diff_id for layer in image.layers[:-1]]
    settings = json.loads(image.config).get("config", {})
    decisive = [settings.get(name) for name in DECISIVE]
    inputs = [diff_ids, entrypoint_layer.at_start(), decisive, wanted.modules, wanted.releases]
    return not store.cached("import checks", inputs, check).reused
