"""Run build.py inside this process, in an empty directory, with an environment that is the same everywhere."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from images import cli

TODAY = datetime.date(2026, 11, 20)
# Neither Docker nor podman is found, and no socket is opened to look for them.
NO_ENGINE = {"DOCKER_HOST": "none://here", "PATH": ""}
# rich reads this one by itself: set, it would print a moving line into a file, too.
NO_TERMINAL = {"FORCE_COLOR": ""}


@dataclass(frozen=True)
class Said:
    """What a command returned and printed."""

    code: int
    out: str
    err: str


def run(words: Sequence[str], files: Mapping[str, bytes] | None = None) -> Said:
    """Return what `build.py WORDS` says in a directory that holds only `files` (path -> content)."""
    out, err = io.StringIO(), io.StringIO()
    with empty_directory() as place, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        for path, content in (files or {}).items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
        environ = {**NO_ENGINE, "XDG_CACHE_HOME": str(place / "cache")}
        with mock.patch.dict(os.environ, NO_TERMINAL):
            code = cli.main(words, cli.World(environ, TODAY, lambda: 0.0))
    return Said(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def empty_directory() -> Iterator[Path]:
    """Make a directory and work in it; both end with the context."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            yield Path(place)
        finally:
            os.chdir(before)
