"""ssh to another node with the mounted key: what mpirun uses, and people in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .keys import look_for_keys, read_port, write_client
from .worker import strip

if TYPE_CHECKING:
    from collections.abc import Mapping


def connect(words: list[str], environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Give ssh's command line and environment; without a mounted key it is ssh as it stands.

    ssh loses its connection ("Bad file descriptor") with tcmalloc and Intel's OpenMP preloaded. A configuration that
    is named in the words (-F) is the user's own, or the one that `launch` has written.
    """
    keys = None if "-F" in words else look_for_keys(environ)
    if keys is None or keys.private is None:
        return ["ssh", *words], strip(environ)
    return ["ssh", "-F", write_client(keys, environ, read_port(environ)), *words], strip(environ)
