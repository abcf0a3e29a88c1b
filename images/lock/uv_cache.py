"""uv's own cache in the store: where it is, and what is done when uv cannot use it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from images.host.context import Context
from images.host.disk.faults import ELSEWHERE, REMEDIES, number_in
from images.host.errors import WorldFault
from images.host.process import Result
from images.host.store import Store

UNUSABLE = re.compile("Failed to (deserialize cache entry|initialize cache)")
# What fails for other reasons too: it is the cache where uv names a path in it (uv 0.13, of a file where it wants a
# directory, a directory or a link to nowhere where it wants a file). A lock that another uv holds is no damage.
SUSPECT = re.compile(
    r"Could not acquire lock(?!\s+cause: Timeout)|Failed to (write to the client cache|query Python interpreter)"
)


def place(store: Store) -> Path:
    """Return the directory of the cache."""
    return store.root / "uv"


def renewed(run: Callable[[], Result], context: Context) -> Result:
    """Run uv; once more without its cache where it cannot use what is there.

    Raises WorldFault when the cache cannot be removed, or uv cannot use a new one either.
    """
    found = place(context.store)
    fault = WorldFault("uv cannot use its cache", found, f"rm -rf {shlex.quote(str(found))}; or {ELSEWHERE}")
    done = run()
    if not _is_unusable(done, found):
        return done
    context.progress.say(f"note: {fault.fact}, which is removed: {fault.value}")
    try:
        _remove(found, context.store)
    except OSError as error:  # as of a mounted directory
        raise fault from error
    done = run()
    if _is_unusable(done, found):
        raise fault
    return done


def _is_unusable(done: Result, found: Path) -> bool:
    """Return whether uv failed for what its cache has, and not for a disk or a directory that refuses."""
    if not done.code or number_in(done.err) in REMEDIES:
        return False
    return bool(UNUSABLE.search(done.err) or (SUSPECT.search(done.err) and f"{found}/" in done.err))


def _remove(found: Path, store: Store) -> None:
    """Remove the cache, or what is in its place, in one step for other builds; what a link leads to stays."""
    with store.aside(directory=True) as aside, suppress(FileNotFoundError):  # another build may have been first
        found.rename(aside / found.name)
