"""What a task wants from the hub: made of its script by the entrypoint, fetched by the job `prefetch`."""

from __future__ import annotations

from typing import NamedTuple

# Kinds: a model without its weights, one with them, a data set, a metric, data of nltk.
FILES, WEIGHTS, DATASET, METRIC, NLTK = "files", "weights", "dataset", "metric", "nltk"


class Wanted(NamedTuple):
    """Something that a script fetches: its kind and name, and what it is called with."""

    kind: str
    name: str
    config: str | None = None
    revision: str | None = None
    cache: str | None = None

    @property
    def text(self) -> str:
        """Return what it is, for a message."""
        kind = "model" if self.kind in (FILES, WEIGHTS) else self.kind
        return " ".join(filter(None, (kind, self.name, self.config)))
