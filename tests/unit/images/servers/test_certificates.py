"""The certificates that other programs are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.pip_config import trusted


@pytest.mark.parametrize(
    ("environ", "certificate", "file"),
    [
        ({}, None, None),
        ({"SSL_CERT_FILE": "/s"}, None, "/s"),
        ({"SSL_CERT_FILE": "/s", "CURL_CA_BUNDLE": "/c"}, None, "/c"),
        ({"SSL_CERT_FILE": "/s", "CURL_CA_BUNDLE": "/c", "REQUESTS_CA_BUNDLE": "/r"}, None, "/r"),
        ({"REQUESTS_CA_BUNDLE": "/r"}, "/pip", "/pip"),
        ({"REQUESTS_CA_BUNDLE": ""}, "ca.pem", f"{Path.cwd()}/ca.pem"),
    ],
)
def test_other_programs_trust_what_requests_and_pip_trust(
    environ: dict[str, str], certificate: str | None, file: str | None
) -> None:
    assert trusted(environ, certificate) == ({"SSL_CERT_FILE": file} if file else {})


def test_a_directory_of_certificates_is_handed_on_as_one(tmp_path: Path) -> None:
    assert trusted({}, str(tmp_path)) == {"SSL_CERT_DIR": str(tmp_path)}
