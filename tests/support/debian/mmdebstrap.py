"""Stand in for mmdebstrap: a root file system that is copied, whose dpkg knows the packages that were given.

    mmdebstrap --version
    mmdebstrap --mode=chrootless ... SUITE /dev/null      (print the sources.list of the suite, and fail)
    mmdebstrap --setup-hook='tar-in PACKAGES /' ... '' OUT ''

ROOT_TAR is the tar of the root file system, and MMDEBSTRAP_VERSION may name another release.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
import tarfile
from pathlib import Path
from typing import IO

VERSION = "1.3.5"
STATUS = "var/lib/dpkg/status"


def main(arguments: list[str]) -> int:
    """Do what is asked for; return the exit code."""
    if arguments == ["--version"]:
        print(f"mmdebstrap {os.environ.get('MMDEBSTRAP_VERSION', VERSION)}")
        return 0
    if "--mode=chrootless" in arguments:
        print("SOURCE: deb none bookworm main", file=sys.stderr)
        return 1
    hook = next(word for word in arguments if word.startswith("--setup-hook=tar-in "))
    write(Path(os.environ["ROOT_TAR"]), Path(shlex.split(hook)[1]), Path(arguments[-2]))
    return 0


def write(root: Path, packages: Path, out: Path) -> None:
    """Copy a tar, with the status of dpkg that these packages would have."""
    with tarfile.open(packages) as given, tarfile.open(root) as source, tarfile.open(out, "w") as made:
        status = b"".join(installed(given.extractfile(entry)) for entry in given if entry.name.endswith(".deb"))
        for entry in source:
            data = source.extractfile(entry) if entry.isreg() else None
            if entry.name == STATUS:
                entry.size, data = len(status), io.BytesIO(status)
            made.addfile(entry, data)


def installed(control: IO[bytes] | None) -> bytes:
    """Return the paragraph of a package that is installed."""
    assert control is not None, "a package is a file"
    return control.read() + b"Status: install ok installed\n\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
