"""The pure parts of the protocol: what a server wants to hear, and what its refusals mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.context import Access
from images.host.download import Answer
from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from images.oci.reference import Remote
from images.oci.registry import Repository, challenges, refusal

BEARER = {"realm": "https://auth/token", "service": "a, b", "scope": "repository:x/y:pull,push"}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", {}),
        (
            'Bearer realm="https://auth/token",service="a, b",scope="repository:x/y:pull,push"',
            {"bearer": BEARER},
        ),
        ('basic Realm="it is \\"here\\""', {"basic": {"realm": 'it is "here"'}}),
        ('Basic realm=here, Bearer realm="https://b"', {"basic": {"realm": "here"}, "bearer": {"realm": "https://b"}}),
        ("Negotiate abc==, Basic", {"negotiate": {"abc": "="}, "basic": {}}),
    ],
)
def test_challenges_are_read(header: str, expected: dict[str, dict[str, str]]) -> None:
    assert challenges(header) == expected


@given(st.text() | st.text('Bearer realm="\\,= Basic', max_size=60))
def test_any_header_is_read(header: str) -> None:
    assert all(scheme == scheme.lower() for scheme in challenges(header))


@pytest.mark.parametrize(
    ("status", "kind", "remedy"),
    [
        (401, UserFault, "docker login host"),
        (403, UserFault, "docker login host"),
        (404, UserFault, "check name and tag"),
        (429, WorldFault, "--registry-mirror"),
        (500, WorldFault, "again later"),
        (302, WorldFault, "again later"),
    ],
)
def test_a_refusal_says_status_and_code(status: int, kind: type[Exception], remedy: str) -> None:
    fault = refusal(Answer(status, {}, b'{"errors": [{"code": "DENIED", "message": "x"}]}'), "host", "host/a:1")

    assert isinstance(fault, kind)
    assert fault.value == f"host/a:1 (status {status}, DENIED)"
    assert remedy in fault.remedy


@pytest.mark.parametrize("mirror", ["ftp://host", "https://", "user:secret@host", "host/UPPER", "a b"])
def test_a_bad_mirror_is_refused(tmp_path: Path, mirror: str) -> None:
    access = Access(environ={}, mirror=mirror)

    with pytest.raises(UserFault, match="mirror") as caught:
        Repository(Remote("docker.io", "library/a", "1"), Store(tmp_path), access)

    assert "secret" not in str(caught.value)
