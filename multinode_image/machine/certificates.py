"""The certificate mounted at /etc/multinode/ca.pem, which every program inside trusts beside the system's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from multinode_image.machine.files import name_by_content, read_file, write_in_private
from multinode_image.machine.places import CERTIFICATE
from multinode_image.settings import Setting

BEGIN = "-----BEGIN CERTIFICATE-----"
# Where Debian, Fedora and openSUSE keep the bundle: Go, src/crypto/x509/root_linux.go.
SYSTEM = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
CERTIFI = "certifi/cacert.pem"
# Who reads which: SSL_CERT_FILE is OpenSSL's (Python's ssl, httpx, aiohttp, curl) and rustls-native-certs' (hf_xet);
# requests, and pip with it, read REQUESTS_CA_BUNDLE, then CURL_CA_BUNDLE; curl CURL_CA_BUNDLE, then SSL_CERT_FILE; git
# has its own. Our value for the first name would hide the second from a
# program, so that it is left out where the user has set the second.
VARIABLES = (
    ("SSL_CERT_FILE", ""),
    ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    ("CURL_CA_BUNDLE", "SSL_CERT_FILE"),
    ("GIT_SSL_CAINFO", ""),
)


def read_bundle(site: str, read: Callable[[str], str | None]) -> tuple[str, str]:
    """Return the mounted certificate with the system's, or with certifi's where the image has no other.

    One that cannot be used gives no text, but what is wrong with it.
    """
    mounted = read(CERTIFICATE)
    if mounted is None:
        # Docker makes a directory of a file that is missing on the host.
        return "", f"{CERTIFICATE} is mounted and cannot be read as a file: does it exist on the host?"
    if BEGIN not in mounted:
        remedy = "openssl x509 -inform der -in ca.der -out ca.pem"
        return "", f"{CERTIFICATE} has no certificate in PEM form, so nothing more is trusted: {remedy}"
    texts = (read(path) for path in (*SYSTEM, f"{site}/{CERTIFI}"))
    known = next((text for text in texts if text), "")
    return "".join(f"{text.rstrip()}\n" for text in (known, mounted) if text), ""


def point_to(path: str, environ: Mapping[str, str]) -> list[Setting]:
    """Return the variables by which every program finds the bundle; they are defaults, a value of the user's stays."""
    why = f"{CERTIFICATE} and the system's certificates"
    return [Setting(name, path, why) for name, hidden in VARIABLES if not environ.get(hidden)]


def trust_certificate(environ: Mapping[str, str], site: str) -> tuple[list[Setting], list[str]]:
    """Write the bundle; return variables that point at it, and notes on what is wrong with the mounted certificate."""
    bundle, fault = read_bundle(site, read_file)
    if fault:
        return [], [fault]
    path = name_by_content("ca-bundle.pem", bundle)
    write_in_private(path, bundle)
    return point_to(path, environ), []
