"""Files of others by their paths, in memory."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import IO

from images.foreign.files import Files


def files(contents: Mapping[str, bytes | Exception]) -> Files:
    """Have these files; for an exception, one that cannot be opened."""

    def open_(path: str) -> IO[bytes]:
        found = contents.get(path, FileNotFoundError())
        if isinstance(found, Exception):
            raise found
        return io.BytesIO(found)

    return Files("it", contents.__contains__, open_)
