"""What users call images."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import UserFault
from images.oci.reference import (
    ArchiveReference,
    LayoutReference,
    Reference,
    Remote,
    full_name,
    parse_reference,
    parse_tag,
    push_target,
)

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
        ("oci:folder", LayoutReference("folder")),
        ("oci:/a/b:1.0", LayoutReference("/a/b", "1.0")),
        ("oci:/a:b/c", LayoutReference("/a:b/c")),
        ("archive:/a/b", ArchiveReference("/a/b")),
        ("./a.tar", ArchiveReference("./a.tar")),
    ],
)
def test_a_reference_is_read(text: str, expected: Reference) -> None:
    assert parse_reference(text) == expected


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
        parse_reference(text)

    assert value in caught.value.value
    assert "archive:FILE" in caught.value.remedy


@given(st.text() | st.from_regex(r"[a-z.:/@A-Z0-9_-]{1,40}", fullmatch=True))
def test_any_text_is_a_reference_or_a_fault(text: str) -> None:
    try:
        parsed = parse_reference(text)
    except UserFault:
        return

    assert parse_reference(str(parsed)) in (parsed, _without_tag(parsed))


def _without_tag(parsed: Reference) -> Reference:
    """Say what is left when a digest makes the tag meaningless."""
    return Remote(parsed.host, parsed.name, None, parsed.digest) if isinstance(parsed, Remote) else parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("multinode:torch2.13.0", "multinode:torch2.13.0"),
        ("multinode", "multinode:latest"),
        ("localhost:5000/foo", "localhost:5000/foo:latest"),
        ("HOST.example/foo", "HOST.example/foo:latest"),
        ("HOST:5000/foo:1", "HOST:5000/foo:1"),
        ("registry.example:5000/a/b:1", "registry.example:5000/a/b:1"),
    ],
)
def test_the_name_of_an_image_has_a_tag(text: str, expected: str) -> None:
    assert parse_tag(text) == expected


@pytest.mark.parametrize("text", ["", "A B C", "a/UPPER", "x:y:z", "a:", f"a@{DIGEST}", "a:é", "a:" + "x" * 129])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UserFault) as caught:
        parse_tag(text)

    assert repr(text)[1:-1] in caught.value.value or text in caught.value.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", "docker.io/library/a:1"),
        ("a/b:1", "docker.io/a/b:1"),
        ("host:5000/a:1", "host:5000/a:1"),
        ("oci:1", "docker.io/library/oci:1"),
    ],
)
def test_a_name_is_written_in_full_as_docker_does(text: str, expected: str) -> None:
    assert full_name(text) == expected


@pytest.mark.parametrize(
    ("text", "small"), [("ghcr.io/MyOrg/x", "ghcr.io/myorg/x"), ("ghcr.io/MyOrg/x:V1", "ghcr.io/myorg/x:V1")]
)
def test_a_name_in_capitals_is_named_in_small_letters(text: str, small: str) -> None:
    with pytest.raises(UserFault, match="small letters only") as caught:
        push_target(text)
    assert caught.value.remedy == f"--push {small}"

    with pytest.raises(UserFault, match="small letters only") as caught:
        parse_reference(text)
    assert caught.value.remedy == small


TARGET = "--push HOST/NAME:TAG"
FOR_SKOPEO = f"{TARGET}, its host in small letters and no IPv6 address"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [("oci:folder", TARGET), ("archive:a.tar", TARGET), ("./a.tar", TARGET), (f"a/b@{DIGEST}", TARGET), ("a b", TARGET),
     ("", TARGET), ("[::1]:5000/a", FOR_SKOPEO), ("UPPER/a", FOR_SKOPEO)],
)  # fmt: skip
def test_an_image_is_pushed_to_nothing_else(text: str, remedy: str) -> None:
    with pytest.raises(UserFault) as caught:
        push_target(text)

    assert text in caught.value.value and caught.value.remedy == remedy


@given(st.text() | st.from_regex(r"[a-z.:/@A-Z0-9_-]{1,40}", fullmatch=True))
def test_any_text_is_a_name_or_a_fault(text: str) -> None:
    try:
        parsed = parse_tag(text)
    except UserFault:
        return

    assert parse_tag(parsed) == parsed and ":" in parsed.rpartition("/")[2]
