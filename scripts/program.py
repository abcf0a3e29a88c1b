"""What the programs here share: how each ends, and the store of this machine where no build is shown."""

from __future__ import annotations

import datetime
import signal
import sys
from collections.abc import Callable, Mapping

from rich.console import Console

from images import startup
from images.context import Access, Context, Settings
from images.host.background import Progress
from images.host.errors import Fault, system_fault
from images.pip_config import Sources
from images.store.store import Store, default_root


def ended(run: Callable[[], int]) -> int:
    """Run a program, say what failed, and return its exit code."""
    try:
        return run()
    except Fault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except OSError as error:
        said = system_fault(error)
        print(said, file=sys.stderr)
        if error.filename is None:  # stdout, of which Python would report at its end what is left in it
            startup.mute(sys.stdout)
        return said.exit_code


def context(environ: Mapping[str, str], sources: Sources) -> Context:
    """Return what steps of a build work with, for today (UTC), with pip's settings and without progress."""
    return Context(
        store=Store(default_root(environ)), environ=environ, today=datetime.datetime.now(datetime.timezone.utc).date(),
        progress=Progress(Console(quiet=True)), pip=sources, access=Access(environ=environ), settings=Settings(jobs=1),
    )  # fmt: skip
