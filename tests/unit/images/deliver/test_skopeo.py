"""What errors of a registry mean to the user."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.deliver.skopeo import explain_refusal, last_message
from images.host.errors import Fault

LOG = 'time="2026-01-01T00:00:00Z" level={} msg="{}"'

# What Amazon's registry says of a tag, and Harbor of its quota.
ECR_KEEPS = (
    "tag invalid: The image tag '1' already exists in the 'a' repository and cannot be overwritten because the"
    " repository is immutable."
)
GAR_KEEPS = "unknown: Failed to process request due to 'a:1' configured as immutable."
HARBOR_FULL = (
    "denied: adding 29.0 MiB of storage resource, which when updated to current usage of 152.4 MiB will exceed the"
    " configured upper limit of 10.0 MiB."
)
ROWS = (
    ("reading manifest 1 in host/a: manifest unknown: manifest unknown", "absent"),
    ("reading manifest 1 in host/a: StatusCode: 404, ", "absent"),
    ("reading manifest 1 in host/a: unauthorized: authentication required", "denied"),
    ("unable to retrieve auth token: invalid username/password: unauthorized: x", "denied"),
    ("reading manifest 1 in host/a: StatusCode: 403, <html>", "denied"),
    ("denied: requested access to the resource is denied", "denied"),
    ("denied: requested access to immutable-things is denied", "denied"),
    ("trying to reuse blob: failed to read from destination repository team/quota: 403 (Forbidden)", "denied"),
    ("reading manifest 1 in host/a: toomanyrequests: You have reached", "busy"),
    ("toomanyrequests: Quota exceeded for quota metric 'Requests per project'", "busy"),
    ("received unexpected HTTP status: 502 Bad Gateway", "otherwise"),
    ("invalid status code from registry 503 (Service Unavailable)", "otherwise"),
    ("pinging container registry host: x509: certificate signed by unknown", "certificate"),
    ("tls: failed to verify certificate: expired", "certificate"),
    ('Get \\"https://host/v2/\\": Proxy Authentication Required', "otherwise"),
    ("status code from registry 407 (Proxy Authentication Required)", "otherwise"),
    ("status code 405: the operation is unsupported", "refused"),
    ("received unexpected HTTP status code 422", "refused"),
    ("status code 408: too slow", "otherwise"),
    ("http: server gave HTTP response to HTTPS client", "plain"),
    ('pinging: Get \\"http://host/v2/\\": context deadline exceeded', "silent"),
    ("writing blob: happened during read: unexpected EOF", "otherwise"),
    ("pinging container registry host: dial tcp: connect: connection refused", "otherwise"),
    ('Get \\"https://x/unauthorized?sign=secret\\": EOF', "otherwise"),
    (f"uploading manifest 1 to host/a: {ECR_KEEPS}", "immutable"),
    (f"uploading manifest to {'a/' * 120}: {ECR_KEEPS}", "immutable"),  # more of a message is read than shown
    (f"uploading manifest 1 to host/a: {GAR_KEEPS}", "immutable"),
    ("denied: the tag is immutable", "immutable"),
    (f"writing blob: {HARBOR_FULL}", "crammed"),
    ("writing blob: write /s/oci-put-blob1: no space left on device", "full"),
    ("denied: Quota has been exceeded on namespace", "crammed"),
    ("uploading manifest 1 to host/a: manifest invalid: manifest invalid", "form"),
)


def said(text: str) -> str:
    """Write what skopeo 1.9.3 writes on stderr, after a warning."""
    return LOG.format("warning", "Failed, retrying in 1s") + "\n" + LOG.format("fatal", text)


def meant(text: str, name: str = "host/a:1", host: str = "host") -> Fault:
    """Return what a text of skopeo means."""
    return explain_refusal(said(text), name, host)


@pytest.mark.parametrize(("text", "kind"), ROWS)
def test_an_error_becomes_three_parts(text: str, kind: str) -> None:
    fault = meant(text)

    assert fault.kind == kind
    assert fault.exit_code == (2 if kind in ("absent", "denied", "immutable") else 1)
    assert fault.value.startswith("host/a:1 (") and len(fault.value) < 330
    assert "secret" not in str(fault)
    assert fault.remedy and "{" not in fault.remedy


def test_names_and_addresses_are_no_words_of_an_error() -> None:
    host, name = "denied.example", "denied.example/not-found/unauthorized:1"
    text = f'pinging container registry {host}: Get \\"https://{host}/v2/\\": i/o timeout'

    assert meant(text, name, host).kind == "otherwise"


@pytest.mark.parametrize(
    ("err", "expected"),
    [
        (said(r"Error parsing image name \"docker://h/a:1\": reading manifest 1 in h/a: x"), "x"),
        (said(r"initializing source docker://h/a:1: pinging \"h\": one\n\ttwo"), 'pinging "h": one  two'),
        ("no log at all", "no log at all"),
        ("", "no message"),
    ],
)
def test_the_message_is_the_last_error_without_its_preamble(err: str, expected: str) -> None:
    assert last_message(err) == expected


@given(st.text() | st.text('msg="\\ \n', max_size=40))
def test_any_output_has_a_message(err: str) -> None:
    assert last_message(err)
    assert "\n" not in last_message(said(err.replace("\n", "")))
