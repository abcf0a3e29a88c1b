"""Locks and contexts for tests: small, and whole."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from images.context import Access, Context, Settings
from images.debian.deb import Deb, Debian
from images.host.background import Progress
from images.lock import lockfile
from images.lock.lock import Artifact, Lock
from images.pip_config import Sources
from images.plan.plan import Request
from images.platforms import AMD64
from images.store.store import Store

DAY = datetime.date(2026, 1, 1)
TODAY = datetime.date(9999, 1, 1)  # after the days of every plan
TINI = Deb("tini", "0.19", "amd64", "tini_0.19_amd64.deb", "1" * 64)


def artifact(name: str, version: str, filename: str = "", sha256: str = "0" * 64) -> Artifact:
    """Make a package of a lock, which has been resolved from a place that nobody needs to know."""
    filename = filename or f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return Artifact(name=name, version=version, filename=filename, url="file:///secret/place", sha256=sha256)


def lock(artifacts: Sequence[Artifact] = (), debs: Sequence[Deb] = (TINI,), **changes: Any) -> Lock:
    """Make a lock of torch 2.13.0 and transformers 5.23.0 on a Debian base."""
    both = (artifact("torch", "2.13.0+cpu"), artifact("transformers", "5.23.0"))
    values: dict[str, Any] = {
        "platform": AMD64, "torch": "2.13.0", "transformers": "5.23.0", "python": "3.11", "glibc": "2.36",
        "backend": "gloo", "base": "debian", "as_of": DAY, "family_as_of": DAY, "trim": True, "bytecode": False,
        "artifacts": tuple(artifacts) or both,
        "debian": Debian("bookworm", ("python3",), "deb somewhere\n", tuple(debs)),
    }  # fmt: skip
    return Lock(**{**values, **changes})


def context(store: Store, pip: Sources | None, environ: Mapping[str, str], wheelhouse: str | None = None) -> Context:
    """Make what every step of a build works with; it prints nothing."""
    return Context(
        store=store, environ=environ, today=TODAY, progress=Progress(Console(quiet=True)), pip=pip,
        access=Access(environ=environ), settings=Settings(jobs=1, wheelhouse=wheelhouse), native=AMD64,
    )  # fmt: skip


def path_beside(image: Path | str) -> Path:
    """Return where build.py put the lock of an archive or a layout."""
    return lockfile.path_for(Path(str(image).rstrip("/")))


def read(path: Path) -> Lock:
    """Return a lock that build.py wrote."""
    return lockfile.read_lock(path.read_text(), str(path), Request())
