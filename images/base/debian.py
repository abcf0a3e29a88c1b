"""The lowest layer: a root file system from exact .debs, made in a process of its own; nothing of it is run."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from images.base import additions, inspect
from images.base.base import Base
from images.base.inspect import debian_site
from images.content import Content
from images.debian.deb import Debian
from images.dpkg import rootfs
from images.host import process
from images.host.errors import Fault, UserFault, WorldFault, system_fault
from images.oci import compression
from images.oci.layer import Layer, Written
from images.platforms import Platform, platform_of
from images.store import fingerprint
from images.store.blobs import sha256
from images.store.store import Store

REMAKE = "build.py lock makes a new lock"
AGAIN = "run it again; it needs 250 MB of memory"
USER, WORLD = UserFault.exit_code, WorldFault.exit_code


def make_base(
    store: Store,
    recipe: Debian,
    platform: Platform,
    python: str,
    environ: Mapping[str, str],
    content: Content,
) -> Base:
    """Make the base from exactly these packages, for Python `python` (3.X) and an image with this content.

    They are in the store, and the same ones give the same bytes. Raises WorldFault for what no image can have, and for
    packages whose scripts are not known.
    """

    def usable(known: Mapping[str, Any]) -> bool:
        return store.has(known["written"]["digest"], known["written"]["size"]) and store.has(known["modules"])

    settings = compression.choose_settings(compression.BASE, content)
    inputs = [str(platform), asdict(recipe), settings]
    cached = store.cached("bases", inputs, lambda: _make_apart(store, recipe, platform, settings, environ), usable)
    facts = inspect.from_plain(cached.value["facts"])
    if python not in facts.pythons:
        raise WorldFault("the Debian base has another Python", f"{python} (it has {', '.join(facts.pythons)})", REMAKE)
    return Base(
        name=f"debian:{recipe.suite}",
        layers=(Layer(compression.BASE, Written(**cached.value["written"]), cached.reused),),
        facts=facts,
        site=debian_site(python),
        links=additions.choose_links(facts, facts.pythons[python]),
        modules=cached.value["modules"],
    )


def _make_apart(
    store: Store, recipe: Debian, platform: Platform, settings: Mapping[str, int], environ: Mapping[str, str]
) -> dict[str, object]:
    """Let another process make the layer: it takes seconds of one processor, which this one needs."""
    debs = [str(store.place(deb.sha256, deb.filename)) for deb in sorted(recipe.debs)]
    with store.temporary(directory=True) as place:
        apart = asdict(replace(recipe, debs=()))
        order = {
            "recipe": apart, "debs": debs, "platform": str(platform), "settings": settings, "place": str(place)
        }  # fmt: skip
        command = [sys.executable, "-m", __name__]
        environment = {**environ, "TMPDIR": tempfile.gettempdir()}
        with process.nameless(json.dumps(order)) as feed:
            done = process.run(command, environment, AGAIN, feed, cwd=fingerprint.SOURCES.parent)
        if done.code in (USER, WORLD) and done.out:
            raise (UserFault if done.code == USER else WorldFault)(*json.loads(done.out))
        if done.code:
            raise WorldFault("the process that makes the base has failed", done.failure, AGAIN)
        result = dict(json.loads((place / "made").read_text()))
        result["modules"] = sha256(place / "modules")
        store.keep(place / "layer", result["written"]["digest"])
        store.keep(place / "modules", result["modules"])
    return result


def _make_here(order: Mapping[str, Any]) -> dict[str, object]:
    place, platform = Path(order["place"]), platform_of(order["platform"])
    assert platform, "the process above asks for one of PLATFORMS"
    tree = rootfs.make_tree(Debian(**order["recipe"]), [Path(path) for path in order["debs"]], platform)
    rootfs.write_modules(tree, place / "modules")
    written = rootfs.write_tree(tree, place / "layer", order["settings"])
    del tree
    facts, _ = inspect.read_facts([(place / "layer", f"sha256:{written.diff_id}")], {}, platform)
    return {"written": asdict(written), "facts": asdict(facts)}


def _main() -> int:
    """Make what standard input asks for: the file `made` says what, in JSON; print the three parts of a fault.

    A file, for with PYTHONUNBUFFERED a long line loses its rest where the writing to a pipe is interrupted.
    """
    order = json.load(sys.stdin)
    try:
        try:
            (Path(order["place"]) / "made").write_text(json.dumps(_make_here(order)))
        except OSError as error:
            raise system_fault(error, order["place"]) from error
    except Fault as fault:
        print(json.dumps([fault.fact, fault.value, fault.remedy]))
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_main())
