"""The side of multinode: a store of its own, the command lines of build.py, and the layouts that they write."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.host.commands import build_py, call
from benchmarks.host.scratch import Scratch
from images.host.errors import UserFault
from images.plan import catalog

# Without examples, which come from a place that not every machine reaches.
WHOLE = ("--base", "debian", "--examples", "none")

# Records of the store that a build makes from its downloads, beside what is read of each as it arrives.
RECORDS = ("layers", "bytecode", "packed", "sboms", "import checks")


@dataclass(frozen=True)
class Multinode:
    """A directory for store, layouts and bundles, and the options of every build; shared: use the user's store."""

    work: Path
    options: tuple[str, ...] = WHOLE
    shared: bool = False

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables that choose the store of every build."""
        return {} if self.shared else {"XDG_CACHE_HOME": str(self.work / "cache")}

    def build(self, release: str, *more: str) -> dict[str, Any]:
        """Build a layout; return what build.py says of it."""
        layout = self.layout(release)
        shutil.rmtree(layout, ignore_errors=True)
        return self.run("--transformers", release, "--no-load", "--output", f"{layout}/", *more)

    def run(self, *words: str) -> dict[str, Any]:
        """Run build.py and return what it says of the image."""
        answer: dict[str, Any] = json.loads(call(build_py(*self.options, *words, "--json"), self.environ))
        return answer

    def timed(self, *words: str) -> float:
        """Run build.py with these words; return its seconds."""
        began = time.monotonic()
        call(build_py(*words), self.environ)
        return time.monotonic() - began

    def layout(self, release: str) -> Path:
        """Return the directory of the OCI layout of a release."""
        return self.work / f"layout-{release}"

    def bundle(self, release: str) -> Path:
        """Write the lock of a release and all its files into a directory."""
        place, file = self.work / f"bundle-{release}", self.work / f"bundle-{release}.tar"
        call(build_py("bundle", *self.options, "--transformers", release, "--output", str(file)), self.environ)
        with tarfile.open(file) as tar:
            tar.extraction_filter = lambda member, _: member  # Debian 12's Python has no `filter` for extractall
            tar.extractall(place)
        file.unlink()
        return place

    def lowest(self, release: str) -> Path:
        """Return the file with the lowest layer of a layout."""
        index = json.loads((self.layout(release) / "index.json").read_text())
        manifest = json.loads(self._blob(release, index["manifests"][0]["digest"]).read_text())
        return self._blob(release, manifest["layers"][0]["digest"])

    def forget(self) -> None:
        """Forget the records in RECORDS and the trees; downloads, resolutions, checks of wheels and the base stay."""
        store = self.work / "cache" / "multinode"
        for place in (*(store / "records" / kind for kind in RECORDS), store / "trees"):
            shutil.rmtree(place, ignore_errors=True)

    def _blob(self, release: str, digest: str) -> Path:
        return self.layout(release) / "blobs" / digest.replace(":", "/")


def choose_releases() -> tuple[str, str]:
    """Return the release of transformers that is built first, the default, and the one that is changed to.

    That is the newest of the minor version before, as somebody would have it who has not followed yet.
    """
    table = catalog.load()
    first = table.default_transformers
    rows = [row.version for row in table.transformers.values() if not row.yanked]
    return str(first), str(max(version for version in rows if version.release[:2] < first.release[:2]))


def build_for_two(scratch: Scratch, part: str, options: tuple[str, ...] = WHOLE) -> str:
    """Build the image of a part and return its name; raise UserFault on a machine without two cores."""
    if (os.cpu_count() or 1) < 2:
        raise UserFault("two containers of a core each need two cores", os.cpu_count(), "run it on a larger machine")
    image = scratch.image(part)
    scratch.say("the image")
    Multinode(scratch.directory, options, shared=True).run("--tag", image)
    return image
