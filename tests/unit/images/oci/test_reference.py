"""What users call images."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import UserFault
from images.oci.reference import Archive, Folder, Reference, Remote, parse

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("debian", Remote("docker.io", "library/debian", "latest")),
        ("docker.io/debian:12", Remote("docker.io", "library/debian", "12")),
        ("index.docker.io/a/b", Remote("docker.io", "a/b", "latest")),
        (
            "intel/intel-optimized-pytorch:2.4.0-pip-multinode",
            Remote("docker.io", "intel/intel-optimized-pytorch", "2.4.0-pip-multinode"),
        ),
        (f"registry:5000/name@{DIGEST}", Remote("registry:5000", "name", None, DIGEST)),
        (f"localhost/a/b:t@{DIGEST}", Remote("localhost", "a/b", "t", DIGEST)),
        ("[::1]:5000/a", Remote("[::1]:5000", "a", "latest")),
        ("oci:folder", Folder("folder")),
        ("oci:/a/b:1.0", Folder("/a/b", "1.0")),
        ("oci:/a:b/c", Folder("/a:b/c")),
        ("archive:/a/b", Archive("/a/b")),
        ("./a.tar", Archive("./a.tar")),
        ("folder/a.tar.gz", Archive("folder/a.tar.gz")),
    ],
)
def test_a_reference_is_read(text: str, expected: Reference) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", "''"),
        ("UPPER", "'UPPER'"),
        ("a:b:c", "'b:c'"),
        ("debian:", "''"),
        ("debian@sha256:12", "'sha256:12'"),
        ("debian@", "''"),
        ("a//b", "'a//b'"),
        ("-.example/a", "'-.example'"),
        ("oci:", "'oci:'"),
        ("archive:", "'archive:'"),
    ],
)
def test_a_bad_reference_is_named_with_what_is_possible(text: str, value: str) -> None:
    with pytest.raises(UserFault) as caught:
        parse(text)

    assert value in caught.value.value
    assert "archive:FILE" in caught.value.remedy


@given(st.text() | st.from_regex(r"[a-z.:/@A-Z0-9_-]{1,40}", fullmatch=True))
def test_any_text_is_a_reference_or_a_fault(text: str) -> None:
    try:
        found = parse(text)
    except UserFault:
        return

    assert parse(str(found)) in (found, _without_tag(found))


def _without_tag(found: Reference) -> Reference:
    """Say what is left when a digest makes the tag meaningless."""
    return Remote(found.host, found.name, None, found.digest) if isinstance(found, Remote) else found
