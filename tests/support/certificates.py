"""Certificates for servers of the tests, each with its key beside it, by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

MAKE = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test")


def authority(place: Path) -> Path:
    """Make a certificate authority in a directory, which others may read."""
    return _make(place / "ca.pem")


def certificate(place: Path, names: str = "DNS:localhost", authority: Path | None = None) -> Path:
    """Make the certificate of a server in a directory, for names as openssl writes them.

    Without an authority only itself vouches for it.
    """
    extensions = ("-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE")
    signed = ("-CA", str(authority), "-CAkey", str(authority.with_suffix(".key"))) if authority else ()
    return _make(place / "server.pem", *extensions, *signed)


def _make(path: Path, *options: str) -> Path:
    key = path.with_suffix(".key")
    subprocess.run([*MAKE, *options, "-keyout", key, "-out", path], check=True, capture_output=True)
    for file in (path, key):
        file.chmod(0o644)
    return path
