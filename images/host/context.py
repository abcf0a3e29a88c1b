"""What every step of a build works with."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from images.host.pip_config import Sources
from images.host.progress import Progress
from images.host.store import Store
from images.oci.registry import Access


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """The store and the world around it; `pip` is where packages come from, None where nothing may be fetched."""

    store: Store
    environ: Mapping[str, str]
    today: datetime.date
    progress: Progress
    jobs: int
    pip: Sources | None
    access: Access
