"""Let a script that forms a process group run where it is alone, as it does beside others.

It gets the place of the only rank while torch reads it, and at no other time: libraries take such variables in the
environment for those of a launcher.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from multinode_image.reading import read_range
from multinode_image.settings import SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The store of the only rank takes any free port (torch/csrc/distributed/c10d/TCPStore.hpp).
PLACE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


def find_missing(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that torch will look for in vain; none where others may be meant."""
    given = dict(parse_qsl(urlsplit(url).query))
    others = environ.get("RANK") or environ.get("WORLD_SIZE") or read_range(environ.get(SIZE, "")) != (1, 1)
    if others or given.get("world_size", "1") != "1" or given.get("rank", "0") != "0":
        return {}
    return {name: value for name, value in PLACE.items() if not environ.get(name)}


def serve_alone(module: Any) -> None:
    """Let torch find the place of the only rank; module: torch.distributed.rendezvous."""
    meet = module._rendezvous_handlers["env"]

    def meet_alone(url: str, *words: Any, **options: Any) -> Iterator[Any]:
        lent, meeting = find_missing(url, os.environ), meet(url, *words, **options)
        os.environ.update(lent)
        try:
            place = next(meeting)
        finally:
            for name in lent:
                os.environ.pop(name, None)
        yield place
        yield from meeting

    module._rendezvous_handlers["env"] = meet_alone
