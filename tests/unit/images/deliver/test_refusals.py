"""What errors of a registry mean to the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.deliver.refusals import PULL, PUSH, SAID, Refusals, message, refusal
from images.host.errors import Fault, UserFault, WorldFault

LOG = 'time="2026-01-01T00:00:00Z" level={} msg="{}"'


def said(text: str) -> str:
    """Write what skopeo 1.9.3 writes on stderr, after a warning."""
    return LOG.format("warning", "Failed, retrying in 1s") + "\n" + LOG.format("fatal", text)


@pytest.mark.parametrize(
    ("text", "kind", "fact", "again"),
    [
        ("reading manifest 1 in host/a: manifest unknown: manifest unknown", UserFault, "has no such image", False),
        ("reading manifest 1 in host/a: StatusCode: 404, ", UserFault, "has no such image", False),
        ("reading manifest 1 in host/a: unauthorized: authentication required", UserFault, "wants a login", False),
        ("unable to retrieve auth token: invalid username/password: unauthorized: x", UserFault, "a login", False),
        ("reading manifest 1 in host/a: StatusCode: 403, <html>", UserFault, "wants a login", False),
        ("denied: requested access to the resource is denied", UserFault, "wants a login", False),
        ("reading manifest 1 in host/a: toomanyrequests: You have reached", WorldFault, "too many requests", False),
        ("received unexpected HTTP status: 502 Bad Gateway", WorldFault, "cannot download", True),
        ("invalid status code from registry 503 (Service Unavailable)", WorldFault, "cannot download", True),
        ("pinging container registry host: x509: certificate signed by unknown", WorldFault, "not trusted", False),
        ("tls: failed to verify certificate: expired", WorldFault, "not trusted", False),
        ('Get \\"https://host/v2/\\": Proxy Authentication Required', WorldFault, "cannot download", True),
        ("status code from registry 407 (Proxy Authentication Required)", WorldFault, "cannot", True),
        ("http: server gave HTTP response to HTTPS client", WorldFault, "plain HTTP", False),
        ('pinging: Get \\"http://host/v2/\\": context deadline exceeded', WorldFault, "does not answer", False),
        ("writing blob: write /s/oci-put-blob1: no space left on device", WorldFault, "write to the store", False),
        ("writing blob: happened during read: unexpected EOF", WorldFault, "cannot download", True),
        ("pinging container registry host: dial tcp: connect: connection refused", WorldFault, "cannot", True),
        ("uploading manifest 1 to host/a: manifest invalid: manifest invalid", WorldFault, "refuses the", False),
        ('Get \\"https://x/unauthorized?sign=secret\\": EOF', WorldFault, "cannot download", True),
    ],
)
def test_an_error_becomes_three_parts(text: str, kind: type[Fault], fact: str, again: bool) -> None:
    fault, more = refusal(said(text), "host/a:1", "host", PULL, Path("/store"))

    assert isinstance(fault, kind) and fact in fault.fact
    assert more is again
    assert fault.value.startswith(("host/a:1 (", "/store ("))
    assert "secret" not in str(fault)
    assert fault.remedy and "{" not in fault.remedy


def test_names_and_addresses_are_no_words_of_an_error() -> None:
    host, name = "denied.example", "denied.example/not-found/unauthorized:1"
    text = f'pinging container registry {host}: Get \\"https://{host}/v2/\\": i/o timeout'

    assert refusal(said(text), name, host, PULL, Path("/"))[0].fact == "cannot download"


def test_what_is_pushed_is_refused_in_other_words() -> None:
    fault, _ = refusal(said("denied: requested access"), "host/a:1", "host", PUSH, Path("/"))

    assert "push" in fault.fact and "docker login host" in fault.remedy


ECR_KEEPS = (
    "The image tag '1' already exists in the 'a' repository and cannot be overwritten because the repository is"
    " immutable."
)
HARBOR_FULL = (
    "adding 29.0 MiB of storage resource, which when updated to current usage of 152.4 MiB will exceed the configured"
    " upper limit of 10.0 MiB."
)
BLOB = "trying to reuse blob sha256:00 at destination"


@pytest.mark.parametrize(
    ("text", "kind", "fact"),
    [
        (f"{BLOB}: failed to read from destination repository a/b: 403 (Forbidden)", UserFault, "let you push"),
        (f"denied: {HARBOR_FULL}", WorldFault, "no room"),
        ("denied: Quota has been exceeded on namespace", WorldFault, "no room"),
        (f"uploading manifest 1 to host/a: tag invalid: {ECR_KEEPS}", UserFault, "does not let a tag be replaced"),
        (
            "uploading manifest 1 to host/a: unknown: Failed to process request due to 'a:1' configured as immutable.",
            UserFault,
            "does not let a tag be replaced",
        ),
    ],
)
def test_what_a_registry_does_not_take_is_not_sent_again(text: str, kind: type[Fault], fact: str) -> None:
    fault, again = refusal(said(f"writing blob: {text}"), "host/a:1", "host", PUSH, Path("/"))

    assert isinstance(fault, kind) and fact in fault.fact and not again
    assert "network" not in fault.remedy and "{" not in fault.remedy


def test_more_of_a_message_is_read_than_shown() -> None:
    fault, _ = refusal(said(f"uploading manifest to {'a/' * 120}: {ECR_KEEPS}"), "host/a:1", "host", PUSH, Path("/"))

    assert fault.kind == "immutable" and len(str(fault.value)) < 330


@pytest.mark.parametrize("refusals", [PULL, PUSH])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("unauthorized: x", "denied"),
        ("denied: x", "denied"),
        ("denied: requested access to immutable-things is denied", "denied"),
        ("failed to read from destination repository team/quota: 403 (Forbidden)", "denied"),
        ("toomanyrequests: x", "busy"),
        ("toomanyrequests: Quota exceeded for quota metric 'Requests per project'", "busy"),
        (f"tag invalid: {ECR_KEEPS}", "immutable"),
        ("denied: the tag is immutable", "immutable"),
        (f"denied: {HARBOR_FULL}", "crammed"),
        ("x", "otherwise"),
    ],
)
def test_a_refusal_says_its_kind_whatever_its_words(text: str, kind: str, refusals: Refusals) -> None:
    assert refusal(said(text), "host/a:1", "host", refusals, Path("/"))[0].kind == kind


def test_every_kind_of_refusal_has_its_words() -> None:
    kinds = {kind for _, kind, _ in SAID} - {"full"}

    assert kinds <= PULL.keys() and PULL.keys() == PUSH.keys()


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
    assert message(err) == expected


@given(st.text() | st.text('msg="\\ \n', max_size=40))
def test_any_output_has_a_message(err: str) -> None:
    assert message(err)
    assert "\n" not in message(said(err.replace("\n", "")))
