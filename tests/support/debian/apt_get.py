"""Stand in for apt-get: whatever package is asked for by name exists, in one version, as a file of a few lines.

    apt-get --config-file=PLACE/apt.conf ... update | [--print-uris | --download-only] install NAME...

Its packages are their own control files; dpkg_deb.py reads them.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

# With an epoch, a tilde and a plus, which are written in other ways in the address of a package.
VERSION = "1:2.0~rc1+deb12u1-3"


def package(name: str) -> tuple[str, bytes]:
    """Return the file name of a package as apt writes it, and its content."""
    text = f"Package: {name}\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: Nobody <nobody@example.org>\n"
    return f"{name}_{VERSION.replace(':', '%3a')}_amd64.deb", text.encode()


def main(arguments: list[str]) -> None:
    """Print what would be downloaded, or put it where apt keeps archives."""
    if "install" not in arguments:
        return
    names = [word for word in arguments[arguments.index("install") + 1 :] if not word.startswith(("?", "-"))]
    options = dict(word.partition("=")[::2] for word in arguments)
    archives = Path(options["--config-file"]).parent / "cache/archives"
    for filename, content in map(package, sorted(set(names))):
        if "--print-uris" in arguments:
            print(f"'file:/{filename}' {filename} {len(content)} SHA256:{hashlib.sha256(content).hexdigest()}")
        else:
            (archives / filename).write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1:])
