"""The kinds of manifests: a module for each operator, and their rows."""

from __future__ import annotations

from manifests.kinds import indexed, mpijob, pytorchjob, storage, trainer

ROWS = (
    pytorchjob.KIND,
    trainer.TRAINJOB,
    trainer.RUNTIME,
    mpijob.KIND,
    indexed.KIND,
    storage.CLAIM,
    storage.FETCH,
)
KINDS = {kind.name: kind for kind in ROWS}
