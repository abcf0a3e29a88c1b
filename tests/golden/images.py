"""Four images, built by build.py from wheels and a base that are made here: their layers, their settings.

Every layer but the highest, which holds the program itself, is there with its diff_id, and with its entries, so that a
difference can be found. Of the highest there are the entries, and the texts that are made for it, but neither sources
nor the SBOM; of the lock all but the releases of its tools, which change. What every image has of variables and labels,
and of packages and settings in its lock, is in the data of one. Two say by what kinds of values each thing is kept in
the store: with one less, something stale would be taken. In place of the number of the user that an image starts
with stands a word: the number is promised in docs/reference.md.

Not covered: Debian's own base (its packages change), what is added to a base that lacks something (it comes out of
Debian's packages), and the content of bytecode, which differs between releases of Python (building.PROGRAMS says
what is compared instead).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any
from unittest import mock

from images.layers.configuration import ENVIRONMENT
from images.layers.entrypoint_layer import GID, UID
from images.store.store import Store
from tests.golden import base, entries, wheels
from tests.golden.building import Debian, built
from tests.golden.data import as_json
from tests.support import locks
from tests.support.stand_in import Layout

HOME = "opt/multinode"
WHOLE = "newest"  # the image with all variables and labels
# Files of the highest layer that are made for each image: their content is compared, too.
TEXTS = ("etc/passwd", f"{HOME}/constraints.txt", f"{HOME}/stack.json")
# Not in the list of the highest layer: sources, bytecode and the lock.
LEFT_OUT = (".py", ".pyc", "/lock.json", "/pylock.toml")
CACHED = Store.cached
# Lines of what is said that change with the sources.
OF_BYTES = ("multinode ", "total ", "id ", "digest ", "seconds ")

IMAGES = {
    "newest": Debian(
        base.PLAIN, wheels.of_the_newest,
        "--torch 2.13.0 --transformers 5.23.0 --examples examples",
    ),
    "bytecode": Debian(
        base.PLAIN, wheels.of_the_newest,
        "--torch 2.13.0 --transformers 5.23.0 --examples none --tasks text-generation --bytecode",
    ),
    "older-line": Debian(
        base.WITH_PACKAGES, wheels.of_the_newest,
        "--torch 2.13.0 --transformers 4.57.6 --examples none --as-of 2026-11-01 --no-trim",
    ),
    "ccl": Debian(
        base.WITH_VARIABLES, wheels.of_ccl,
        "--torch 2.4.0 --transformers 4.46.0 --examples none --tasks text-generation --wheelhouse wheels",
    ),
}  # fmt: skip


def described(recipe: Debian) -> str:
    """Build an image and return its golden data.

    Raises AssertionError when it cannot be built.
    """
    to_layout = dataclasses.replace(recipe, typed=f"{recipe.typed} --output layout/")
    kept = dict[str, None]()

    def cached(store: Store, kind: str, inputs: object, *given: Any) -> Any:
        kept[f"{kind}: {_shape(inputs)}".replace("'", "")] = None
        return CACHED(store, kind, inputs, *given)

    with mock.patch.object(Store, "cached", cached), built(to_layout) as (said, place):
        assert said.code == 0, said.err
        whole = recipe is IMAGES[WHOLE]
        lock = locks.path_beside(place / "layout").read_text()
        described = {
            "said": [line for line in said.err.splitlines() if not line.startswith(OF_BYTES)],
            **_image(Layout(place / "layout"), whole=whole), "lock": _lock(lock, whole=whole),
            **({"kept by": sorted(kept)} if recipe in (IMAGES[WHOLE], IMAGES["bytecode"]) else {}),
        }  # fmt: skip
        return as_json(described).replace(f"{UID}:{GID}", "UID:GID")


def _shape(value: object) -> object:
    """Return a value with kinds in place of texts and numbers, and once what many items have."""
    if isinstance(value, Mapping):
        named = {"PATH" if "/" in str(name) else str(name): one for name, one in sorted(value.items())}
        return {re.sub(r"^[0-9a-f]{64}$", "SHA256", name): _shape(one) for name, one in named.items()}
    if isinstance(value, list | tuple):
        shapes = [_shape(one) for one in value]
        return shapes if len(shapes) <= 8 else [one for at, one in enumerate(shapes) if one not in shapes[:at]]
    return type(value).__name__


def _lock(text: str, *, whole: bool) -> list[str]:
    """Return the lines of a lock, or of its last table; of its tools the settings alone."""
    packages, start, table = text.partition("[tool.multinode]\n")
    table, _, tools = table.partition("[tool.multinode.tools]\n")
    settings = [line for line in tools.splitlines() if line.startswith(("zstd-", "epoch"))]
    return [*(packages * whole + start + table).splitlines(), *settings * whole]


def _image(layout: Layout, *, whole: bool) -> dict[str, Any]:
    """Describe an image."""
    config = layout.config
    settings = config["config"]
    if not whole:
        usual = {f"{name}={value}" for name, value in ENVIRONMENT.items()}
        settings = {**settings, "Env": [line for line in settings["Env"] if line not in usual]}
        del settings["Labels"]
    *lower, highest = [entries.read(path) for path in layout.layers]
    *names, top = [row["created_by"] for row in config["history"] if not row.get("empty_layer")]
    return {
        **{name: config[name] for name in ("architecture", "os", "created")},
        "history": [{**row, "created_by": row["created_by"].partition(":")[0]} for row in config["history"][:3]],
        "types": [row["mediaType"] for row in layout.manifest["layers"][:3]],
        "config": settings,
        "layers": [
            {"name": name, "diff_id": diff_id, "entries": [entry.line for entry in layer]}
            for name, diff_id, layer in zip(names, config["rootfs"]["diff_ids"][:-1], lower, strict=True)
        ],
        "highest": {
            "name": top,
            "entries": [entry.place for entry in entries.without(highest, LEFT_OUT)],
            "texts": {e.path: e.content.decode().splitlines() for e in highest if e.path in TEXTS and e.content},
        },
    }


def produce() -> dict[str, str]:
    """Return the golden data: name of the file -> text."""
    return {f"{name}.json": described(recipe) for name, recipe in IMAGES.items()}
