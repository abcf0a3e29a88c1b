"""What steps of a build work with where no build is shown: the store of this machine, pip's settings, no progress."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from rich.console import Console

from images.host.context import Access, Context, default_root
from images.host.pip_config import Sources
from images.host.progress import Progress
from images.host.store import Store


def context(environ: Mapping[str, str], sources: Sources) -> Context:
    """Return it for today (UTC)."""
    return Context(
        store=Store(default_root(environ)), environ=environ, today=datetime.datetime.now(datetime.timezone.utc).date(),
        progress=Progress(Console(quiet=True)), jobs=1, pip=sources, access=Access(environ=environ),
    )  # fmt: skip
