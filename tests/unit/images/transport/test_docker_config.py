"""Docker's configuration, as far as it is a file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pwd
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from images.host.errors import Fault, UserFault
from images.host.text import shown
from images.transport.docker_config import SOCKET as USUAL
from images.transport.docker_config import Daemon, daemon, login, path
from images.transport.docker_config import denied as denied_socket

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


@pytest.mark.parametrize(
    "address",
    [
        "ssh://x",
        "tcp://[::1",
        "http://x:y",
        "tcp://x:99999",
        " ",
        "nonsense",
        "tcp://",
        "fd://x",
        "npipe:////./x",
        "x:\n",
    ],
)
def test_an_address_that_cannot_be_used_is_refused(address: str) -> None:
    with pytest.raises(UserFault, match="no address of a Docker daemon") as caught:
        daemon({"DOCKER_HOST": address})

    assert caught.value.value == shown(f"DOCKER_HOST {address!r}")
    assert "unix:///PATH or tcp://HOST:PORT" in caught.value.remedy


def test_a_password_in_an_address_is_refused_and_not_printed() -> None:
    with pytest.raises(UserFault) as caught:
        daemon({"DOCKER_HOST": "tcp://user:secret@host:1"})

    assert "secret" not in str(caught.value)


def context_of(directory: Path, name: str, meta: object) -> None:
    place = directory / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    place.mkdir(parents=True)
    (place / "meta.json").write_text(json.dumps(meta))


SOCKET = {"Endpoints": {"docker": {"Host": "unix:///run/user/1/docker.sock"}}}


@pytest.mark.parametrize(
    ("config", "more", "address"),
    [
        ({}, {}, None),
        ({}, {"DOCKER_HOST": ""}, None),
        ({}, {"DOCKER_HOST": "tcp://h:1", "DOCKER_CONTEXT": "mine"}, "tcp://h:1"),
        ({}, {"DOCKER_CONTEXT": "mine"}, "unix:///run/user/1/docker.sock"),
        ({"currentContext": "mine"}, {}, "unix:///run/user/1/docker.sock"),
        ({"currentContext": "mine"}, {"DOCKER_CONTEXT": "default"}, None),
        ({"currentContext": 3}, {}, None),
        ([], {}, None),
    ],
)
def test_the_daemon_is_the_one_of_dockers_own_command(
    tmp_path: Path, config: object, more: dict[str, str], address: str | None
) -> None:
    environ = configured(tmp_path, config)
    context_of(tmp_path, "mine", SOCKET)

    found = daemon({**environ, **more})

    assert (found.address if found else None) == address


@pytest.mark.parametrize("meta", [[], {"Endpoints": 3}, {"Endpoints": {"docker": {}}}, None])
def test_a_context_that_says_nothing_is_named(tmp_path: Path, meta: object) -> None:
    environ = configured(tmp_path, {})
    context_of(tmp_path, "odd", meta)

    for name in ("odd", "absent", "../../x", "\udcff"):
        with pytest.raises(UserFault, match="no such context"):
            daemon({**environ, "DOCKER_CONTEXT": name})


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_without_home_it_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    """As for a service of systemd, or a job of cron."""
    monkeypatch.delenv("HOME", raising=False)

    expected = Path(pwd.getpwuid(os.getuid()).pw_dir, ".docker/config.json")
    assert path(environ) == expected


def at(address: str, named_by: str) -> Daemon:
    return Daemon(address, named_by.format(address))


@pytest.mark.parametrize(("allowed", "is_denied"), [(os.F_OK | os.W_OK, False), (os.F_OK, True), (None, False)])
@pytest.mark.parametrize(
    ("named", "place", "remedy"),
    [
        (None, USUAL, "join the group docker"),
        (at(f"unix://{USUAL}", "DOCKER_HOST={}"), USUAL, "join the group docker"),
        (at("unix:///a/b.sock", "DOCKER_HOST={}"), "/a/b.sock", "chmod or chown it, or unset DOCKER_HOST"),
        (at("unix:///a/b.sock", "context x: {}"), "/a/b.sock", "chmod or chown it, or unset DOCKER_CONTEXT, or docker"),
        (at("tcp://host:2375", "DOCKER_HOST={}"), None, ""),
    ],
)
def test_a_socket_that_refuses_this_user_is_named(
    monkeypatch: pytest.MonkeyPatch, allowed: int | None, is_denied: bool, named: Daemon | None, place: str | None,
    remedy: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "access", lambda _, mode: allowed is not None and mode & ~allowed == 0)

    found = denied_socket(named)

    assert (found is not None) == (is_denied and place is not None)
    assert found is None or (found.why == f"permission denied on {place}" and found.remedy.startswith(remedy))
