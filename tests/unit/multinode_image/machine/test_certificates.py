"""A mounted certificate beside the system's."""

from __future__ import annotations

import pytest

from multinode_image.machine.certificates import BEGIN, SYSTEM, point_to, read_bundle
from multinode_image.machine.places import CERTIFICATE

OURS = f"{BEGIN}\nours"


@pytest.mark.parametrize(
    ("files", "bundle"),
    [
        ({SYSTEM[0]: "system\n\n"}, f"system\n{OURS}\n"),
        ({SYSTEM[1]: "fedora", "/site/certifi/cacert.pem": "certifi"}, f"fedora\n{OURS}\n"),
        ({"/site/certifi/cacert.pem": "certifi"}, f"certifi\n{OURS}\n"),
        ({}, f"{OURS}\n"),
    ],
)
def test_it_is_added(files: dict[str, str], bundle: str) -> None:
    assert read_bundle("/site", {CERTIFICATE: OURS, **files}.get) == (bundle, "")


@pytest.mark.parametrize(("text", "said"), [(None, "cannot be read"), ("", "PEM"), ("\x30\x82", "PEM")])
def test_a_mount_that_is_no_certificate(text: str | None, said: str) -> None:
    bundle, fault = read_bundle("/site", lambda path: text)
    assert not bundle and said in fault


@pytest.mark.parametrize(
    ("environ", "left_out"),
    [
        ({}, set()),
        ({"CURL_CA_BUNDLE": "/mine"}, {"REQUESTS_CA_BUNDLE"}),
        ({"SSL_CERT_FILE": "/mine"}, {"CURL_CA_BUNDLE"}),
    ],
)
def test_a_file_of_the_users_is_not_hidden(environ: dict[str, str], left_out: set[str]) -> None:
    names = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"}
    settings = point_to("/bundle", environ)
    assert {each.name for each in settings} == names - left_out
    assert {each.value for each in settings} == {"/bundle"}
