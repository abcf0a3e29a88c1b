"""Where a file normally comes from, for those who have to find it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from images.host.errors import WorldFault

# PyTorch's index of builds for the CPU, asked only when the configured sources have none:
# https://pytorch.org/get-started/locally/
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"

EXAMPLES = "examples.tar"  # what the archive of the examples is called in the store


def gone(names: Sequence[str]) -> WorldFault:
    """Return the fault that names the files of a lock that cannot be had here, and where they normally come from."""
    value = ", ".join(f"{name} ({origin(name)})" for name in names)
    remedy = "--wheelhouse DIR with those files in it, or --offline BUNDLE with the bundle made from the lock"
    return WorldFault("files of the lock are missing", value, remedy)


def origin(filename: str) -> str:
    """Return where a file normally comes from."""
    if re.fullmatch("(sha256:)?[0-9a-f]{64}", filename):
        return "the registry of the base"
    name = canonicalize_name(filename.partition("-")[0])
    if filename == EXAMPLES:
        return "the archive of the transformers release on GitHub; --examples PATH with a copy"
    if filename.endswith(".deb"):
        return "Debian's mirror, while it is current"
    if name == "torch":
        return TORCH_INDEX
    return "Intel's wheel index" if name == "oneccl-bind-pt" else "PyPI"
