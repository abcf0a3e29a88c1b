"""Docker's configuration, as far as it is a file."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.host.errors import UserFault
from images.oci.credentials import Credentials, find, parse

AUTH = base64.b64encode(b"user:pass:word").decode()


def configured(folder: Path, config: object) -> dict[str, str]:
    (folder / "config.json").write_text(json.dumps(config))
    return {"DOCKER_CONFIG": str(folder)}


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("registry:5000", "registry:5000"),
        ("https://registry:5000/v1/", "registry:5000"),
        ("https://index.docker.io/v1/", "docker.io"),
    ],
)
def test_the_login_for_a_registry_is_found(tmp_path: Path, name: str, host: str) -> None:
    environ = configured(tmp_path, {"auths": {"other:5000": {"auth": "eDp5"}, name: {"auth": AUTH}}})

    assert find(host, environ) == Credentials("user", "pass:word")


def test_home_is_looked_into_and_nothing_is_nobody(tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    configured(tmp_path / ".docker", {"auths": {"registry": {"identitytoken": "t"}}})

    assert find("registry", {"HOME": str(tmp_path)}) == Credentials(identity="t")
    assert find("elsewhere", {"HOME": str(tmp_path)}) is None
    assert find("registry", {"HOME": str(tmp_path / "none")}) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"auths": 1}', '{"auths": {"registry": {"auth": "c2VjcmV0"}}}'])
def test_a_damaged_file_is_named_and_no_secret_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(UserFault) as caught:
        find("registry", {"DOCKER_CONFIG": str(tmp_path)})

    assert str(tmp_path) in caught.value.value
    assert "c2VjcmV0" not in str(caught.value) and "secret" not in str(caught.value)


def test_secrets_are_not_in_the_text_of_a_value() -> None:
    assert "pass" not in repr(Credentials("user", "pass", "pass"))


def test_basic_is_user_and_password_in_base64() -> None:
    # the example of RFC 7617, section 2
    assert Credentials("Aladdin", "open sesame").basic == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


@given(st.dictionaries(st.sampled_from(["auth", "username", "password", "identitytoken"]), st.text() | st.integers()))
def test_any_entry_is_a_login_or_none_or_a_fault(entry: dict[str, object]) -> None:
    try:
        found = parse(entry, "here")
    except UserFault:
        return

    assert found is None or found.identity or found.user or found.password or entry.get("auth")
