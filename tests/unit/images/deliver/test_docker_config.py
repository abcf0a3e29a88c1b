"""Docker's configuration, as far as it is a file."""

from __future__ import annotations

import base64
import json
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from images.deliver.docker_config import login, path
from images.host.errors import Fault, UserFault

AUTH = base64.b64encode(b"user:pass:word").decode()
TOKEN = {"auth": base64.b64encode(b"<token>:").decode(), "identitytoken": "t"}


def configured(directory: Path, config: object) -> dict[str, str]:
    (directory / "config.json").write_text(json.dumps(config))
    return {"DOCKER_CONFIG": str(directory), "PATH": "/nowhere"}


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("registry:5000", "registry:5000"),
        ("https://registry:5000/v1/", "registry:5000"),
        ("https://index.docker.io/v1/", "docker.io"),
    ],
)
def test_the_login_for_a_registry_is_found(tmp_path: Path, name: str, host: str) -> None:
    environ = configured(tmp_path, {"auths": {"other:5000": {"auth": "damaged"}, name: {"auth": AUTH}}})

    assert login(host, environ) == {"auth": AUTH}


@pytest.mark.parametrize("entry", [{}, {"auth": ""}, {"auth": "", "email": "x"}, None, 1])
def test_an_empty_entry_is_nobodys(tmp_path: Path, entry: object) -> None:
    assert login("registry", configured(tmp_path, {"auths": {"registry": entry}})) is None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"username": "user", "password": "pass:word"}, {"auth": AUTH}),
        ({"auth": "", "username": "user", "password": "pass:word"}, {"auth": AUTH}),
        ({"auth": AUTH, "username": "other", "password": "x"}, {"auth": AUTH}),
        ({"username": "user", "password": "x", "identitytoken": "t"}, TOKEN),
        ({"username": "user"}, None),
        ({"username": 1, "password": 2}, None),
    ],
)
def test_a_login_may_be_written_in_two_fields(
    tmp_path: Path, entry: dict[str, object], expected: dict[str, str] | None
) -> None:
    assert login("registry", configured(tmp_path, {"auths": {"registry": entry}})) == expected


def test_home_is_read_and_nothing_is_nobody(tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    configured(tmp_path / ".docker", {"auths": {"registry": {"identitytoken": "t"}}})

    assert login("registry", {"HOME": str(tmp_path)}) == TOKEN
    assert login("elsewhere", {"HOME": str(tmp_path)}) is None
    assert login("registry", {"HOME": str(tmp_path / "none")}) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"auths": 1}', '{"auths": {"registry": {"auth": "c2VjcmV0"}}}'])
def test_a_damaged_file_is_named_and_no_secret_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(UserFault) as caught:
        login("registry", {"DOCKER_CONFIG": str(tmp_path)})

    assert str(tmp_path) in caught.value.value
    assert "c2VjcmV0" not in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("registry", {"auth": AUTH}), ("docker.io", {"auth": AUTH}), ("other", TOKEN), ("none", None)],
)
def test_the_variable_goes_before_the_file(tmp_path: Path, host: str, expected: dict[str, str] | None) -> None:
    """As for Docker 28.3 and newer."""
    environ = configured(tmp_path, {"auths": {name: {"identitytoken": "t"} for name in ("registry", "other")}})
    auths = {name: {"auth": AUTH} for name in ("registry", "https://index.docker.io/v1/")}

    assert login(host, {**environ, "DOCKER_AUTH_CONFIG": json.dumps({"auths": auths})}) == expected


def test_a_damaged_variable_does_not_hide_the_login_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"auths": {"registry": {"auth": "dTpw"}}}')

    assert login("registry", {"DOCKER_CONFIG": str(tmp_path), "DOCKER_AUTH_CONFIG": "/builds/a.tmp/F"}) == {
        "auth": "dTpw"
    }


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"auths": 1}', '{"auths": {"registry": {"auth": "c2VjcmV0"}}}', "[" * 9999]
)
def test_a_damaged_variable_is_named_and_no_secret_is(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserFault) as caught:
        login("registry", {"DOCKER_CONFIG": str(tmp_path), "DOCKER_AUTH_CONFIG": text})

    assert caught.value.value.startswith("DOCKER_AUTH_CONFIG")
    assert caught.value.remedy == "correct DOCKER_AUTH_CONFIG, or unset it"
    assert "c2VjcmV0" not in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize("helper", ["../x", "/bin/x", "-x", "a b", "..", "x\n"])
def test_a_credential_helper_that_is_a_path_is_not_run(tmp_path: Path, helper: str) -> None:
    with pytest.raises(UserFault, match="an unknown form") as caught:
        login("registry", configured(tmp_path, {"credHelpers": {"registry": helper}}))

    assert caught.value.value == f"{tmp_path}/config.json (a credential helper)"


VALUES = st.text() | st.integers() | st.none() | st.lists(st.text()) | st.dictionaries(st.text(), st.text())
ENTRIES = st.dictionaries(st.sampled_from(["auth", "username", "password", "identitytoken"]), VALUES) | VALUES
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "auths": st.dictionaries(st.sampled_from(["registry", "https://registry/v1/", ""]), ENTRIES) | VALUES,
        "credHelpers": st.dictionaries(st.just("registry"), VALUES) | VALUES,
        "credsStore": VALUES,
    },
)


@given(config=CONFIGS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_configuration_is_a_login_or_none_or_a_fault(tmp_path: Path, config: dict[str, object]) -> None:
    try:
        found = login("registry", configured(tmp_path, config))
    except Fault:
        return

    assert found is None or base64.b64decode(found["auth"])


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
@pytest.mark.parametrize(("users", "home"), [({os.getuid(): "/own"}, "/own"), ({}, "/")])
def test_without_home_it_is_that_of_the_system(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], users: dict[int, str], home: str
) -> None:
    """As for a service of systemd, or a job of cron; a user may have no entry in /etc/passwd."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(pw_dir=users[number]))

    assert path(environ) == Path(home, ".docker/config.json")
