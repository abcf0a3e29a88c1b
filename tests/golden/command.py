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
# Neither Docker nor podman is found, and no address is called to look for them.
NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere/docker.sock", "PATH": ""}
# rich reads this one by itself: set, it would print a moving line into a file, too.
NO_TERMINAL = {"FORCE_COLOR": ""}


@dataclass(frozen=True)
class Said:
    """What a command returned and printed."""

    code: int
    out: str
    err: str


def run(words: Sequence[str], environ: Mapping[str, str] | None = None) -> Said:
    """Return what `build.py WORDS` says with these variables, a store in the working directory, and no engine."""
    out, err = io.StringIO(), io.StringIO()
    world = cli.World({**NO_ENGINE, "XDG_CACHE_HOME": str(Path.cwd() / "cache"), **(environ or {})}, TODAY, lambda: 0)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch.dict(os.environ, NO_TERMINAL):
        code = cli.main(words, world)
    return Said(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def directory(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Make a directory with `files` (path -> content) and work in it; both end with the context."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        for path, content in files.items():
            file = Path(place, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o755 if content.startswith(b"#!") else 0o644)
        os.chdir(place)
        try:
            yield Path(place)
        finally:
            os.chdir(before)
