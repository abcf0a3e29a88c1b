"""What decides the bytes of an image besides its inputs: multinode's own sources, and the packages it builds with."""

from __future__ import annotations

import functools
import hashlib
from importlib.metadata import version
from pathlib import Path

import zstandard

SOURCES = Path(__file__).parents[1]
# Code, and the tables and keys that it decides by; what images take of versions.toml is in their locks.
KINDS = (".py", ".json", ".gpg")

# Every package whose release shows in the bytes, and where. pyproject.toml pins each of them with `==`.
PACKAGES = (
    "cyclonedx-python-lib",  # the list of licences and the form of the SBOM
    "installer",  # the order of RECORD and the text of start scripts
    "license-expression",  # which licences of the SBOM are expressions
    "packageurl-python",  # the addresses of packages in the SBOM
    "packaging",  # the packages in the lock, and what METADATA says in the SBOM
    "py-serializable",  # the JSON of the SBOM
    "tomli-w",  # the text of the lock
    "zstandard",  # the compressed bytes of a layer
)


@functools.cache
def releases() -> dict[str, str]:
    """Return the release of everything whose release shows in the bytes, by name."""
    packages = {name: version(name) for name in PACKAGES}
    # A distribution may build zstandard against a libzstd of its own.
    return {**packages, "libzstd": ".".join(map(str, zstandard.ZSTD_VERSION))}


@functools.cache
def sources(directory: Path = SOURCES) -> str:
    """Return one sha256, in hexadecimal, over every source below a directory: paths and contents."""
    digest = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.suffix in KINDS):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(directory).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
