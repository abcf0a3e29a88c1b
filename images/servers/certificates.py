"""Which certificates of servers are trusted: the same ones by requests, uv and skopeo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# By requests' order, then Go's and uv's own.
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
TRUST = "set REQUESTS_CA_BUNDLE, or `cert` of pip's configuration, to the file of the authority's certificate"


def usual(environ: Mapping[str, str]) -> str | None:
    """Return the file or directory of the first variable that is set, None for the system's own."""
    return next(filter(None, map(environ.get, BUNDLES)), None)


def trusted(environ: Mapping[str, str], certificate: str | None) -> dict[str, str]:
    """Return the variables that give skopeo and uv the certificates that requests and pip trust.

    `certificate` is pip's: a file, or a directory as `openssl rehash` makes it.
    """
    file = certificate or usual(environ)
    bundle = Path(file).absolute() if file else None
    return {"SSL_CERT_DIR" if bundle.is_dir() else "SSL_CERT_FILE": str(bundle)} if bundle else {}
