"""The import check: the finished image imports every top-level package once, and finds the releases of the lock."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from images.host.errors import UserFault, WorldFault, shortened
from images.layers import entrypoint_layer, trim
from images.layers.trim import Patterns
from images.lock.lock import Artifact, Lock
from images.oci.image import Image
from images.store import fingerprint
from images.store.store import Store
from images.wheels.archive import Wheel
from images.wheels.content import read_content

# Not importable by itself, or only on other systems.
SKIPPED = {
    "colorama",  # for Windows
    "git",  # GitPython wants the program git; wandb, which brings it, does without
    "pip",  # a command
    # A build tool, of which importing patches distutils, and its parts.
    "setuptools", "pkg_resources", "_distutils_hack",
}  # fmt: skip
# Layers without packages; of what is in the first, our own code alone is there at a start of Python.
WITHOUT_PACKAGES = {entrypoint_layer.NAME, entrypoint_layer.USER_FILES}
ENTRYPOINT = entrypoint_layer.HERE.parent / "multinode_image"
SCRIPT = Path(__file__).with_name("import_all.py").read_text()
FAILED = re.compile(r"(?:^|; )(\w+) \(")  # a module in what SCRIPT says
LONGEST = 1500  # characters of what is shown: there may be something to say of every module

# Run a command in a container of an image; return None if it went well, else the last line of what it printed.
Run = Callable[[Sequence[str]], "str | None"]


def wanted_of(store: Store, wheels: Iterable[Wheel], excused: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what an image of these wheels must have, in order: the modules, and the releases as NAME==RELEASE.

    Name and release are those of METADATA: that is what Python says of an installed package. Of the projects that are
    `excused` no module is imported.
    """
    contents = {wheel.project: read_content(store, wheel.sha256, wheel.path) for wheel in wheels}
    parts = [one.modules for project, one in contents.items() if project not in excused]
    modules = {module for part in parts for module in part} - SKIPPED
    releases = (f"{one.metadata['name']}=={one.metadata['version']}" for one in contents.values())
    return (*sorted(modules), *sorted(releases))


def require_excused(excused: Sequence[str], artifacts: Iterable[Artifact]) -> None:
    """Raise UserFault where a package need not be imported that is not in the image."""
    if unknown := sorted({*excused} - {artifact.name for artifact in artifacts}):
        fact = "no package of that name goes into the image"
        raise UserFault(fact, ", ".join(unknown), "--no-import with the name of a package that does, or without it")


def check_imports(image: Image, wanted: Sequence[str], run: Run, store: Store, remedy: Callable[[str], str]) -> bool:
    """Import the modules in the image's Python, and ask it for its releases; return False if that was done before.

    An image that differs in files of the user's own, or in its documents, is not started again. Raises WorldFault that
    names every module that cannot be imported and every package whose release is not found; `remedy` is asked what
    helps against what was said.
    """

    def check() -> bool:
        if (said := run(["python3", "-c", SCRIPT, *wanted])) is not None:
            fact = "the image's Python does not import what the lock says"
            raise WorldFault(fact, shortened(said, LONGEST), remedy(said))
        return True

    packages = [layer.written.diff_id for layer in image.layers if layer.name not in WITHOUT_PACKAGES]
    environment = json.loads(image.config)["config"].get("Env")
    decides = [packages, environment, wanted, fingerprint.sources(ENTRYPOINT)]
    return not store.cached("import checks", decides, check).reused


def choose_remedy(lock: Lock, wheels: Sequence[Wheel], left_out: Patterns, store: Store, said: str) -> str:
    """Return what helps where the image of a lock does not import everything, by what its Python said."""
    of_users = [wheel for wheel in wheels if lock.user_packages and wheel.project in lock.user_packages.names]
    modules = {*FAILED.findall(said)}
    failed = [one.project for one in of_users if modules & {*read_content(store, one.sha256, one.path).modules}]
    if path := trim.find_left_out(said, wheels, left_out):
        helps = f"--no-trim: {path} is left out without it"
    elif lock.user_packages:
        excuse = (
            f"; or, if your code does without, {' '.join(f'--no-import {one}' for one in failed)}" if failed else ""
        )
        variable = ", or a variable that they want, --env NAME=VALUE" if failed else ""
        helps = f"--package or --requirements with other versions{variable}{excuse}"
    else:
        helps = "another --transformers or --base"
    return f"{helps}; the image stays loaded, so that you can examine it"
