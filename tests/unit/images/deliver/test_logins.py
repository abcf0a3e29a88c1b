"""Where a login is found: as skopeo finds it (containers-auth.json(5)), in files of podman and Docker."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest
from docker.credentials.errors import CredentialsNotFound, StoreError

from images.deliver import logins
from images.deliver.logins import Entry
from images.host.errors import WorldFault
from images.oci.reference import Remote

REPOSITORY = Remote("host:1", "team/image")
PODMAN, DOCKER = "run/containers/auth.json", "docker/config.json"


def entry(user: str, **more: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:pass:word".encode()).decode(), **more}


def find(tmp_path: Path, files: Mapping[str, object], remote: Remote = REPOSITORY, **environ: str) -> Entry | None:
    """Look for a login where these files are."""
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps({"auths": content}))
    places = {"HOME": "home", "XDG_RUNTIME_DIR": "run", "DOCKER_CONFIG": "docker"}
    named = {name: str(tmp_path / path) for name, path in {**places, **environ}.items()}
    return logins.find(remote, {"PATH": "", **named})


@pytest.mark.parametrize(
    ("files", "user"),
    [
        ({}, None),
        ({DOCKER: {"host:1": entry("docker")}}, "docker"),
        ({DOCKER: {"https://host:1": entry("docker")}}, "docker"),
        ({DOCKER: {"https://host:1/v2/": entry("docker")}}, "docker"),
        ({DOCKER: {"http://host:1/any/path": entry("docker")}}, "docker"),
        ({DOCKER: {"https://host:1/v2/": entry("url"), "host:1": entry("host")}}, "host"),
        ({DOCKER: {"https://host:1/v2/": entry("url"), "host:1/team": entry("team")}}, "team"),
        ({DOCKER: {"host:1/v2/": entry("no scheme, and no part of it")}}, None),
        ({DOCKER: {"https://host:11/v2/": entry("another port")}}, None),
        ({PODMAN: {"host:1": entry("podman")}, DOCKER: {"host:1": entry("docker")}}, "podman"),
        ({PODMAN: {"host:2": entry("podman")}, DOCKER: {"host:1": entry("docker")}}, "docker"),
        ({PODMAN: {"host:1": entry("all"), "host:1/team": entry("team"), "host:1/te": entry("te")}}, "team"),
        ({"home/.config/containers/auth.json": {"host:1": entry("home")}}, "home"),
        ({PODMAN: "no JSON", DOCKER: {"host:1": entry("docker")}}, "docker"),
        ({DOCKER: {"host:1": {"auth": "no base64"}}}, None),
        ({DOCKER: {"host:1": {}}}, None),
        ({DOCKER: []}, None),
    ],
)
def test_the_first_file_with_a_login_for_the_longest_name_counts(
    tmp_path: Path, files: Mapping[str, object], user: str | None
) -> None:
    login = find(tmp_path, files)

    assert login == (entry(user) if user else None)
    with mock.patch.object(logins, "of_helper", lambda host, _: entry(f"helper of {host}")):
        assert find(tmp_path, files) == entry("helper of host:1")


def test_a_file_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    files = {DOCKER: {"host:1": entry("docker")}, "own.json": {}}

    assert find(tmp_path, files, REGISTRY_AUTH_FILE="own.json") is None


@pytest.mark.parametrize(
    "name", ["https://index.docker.io/v1/", "index.docker.io", "docker.io", "https://registry-1.docker.io/v2/"]
)
def test_docker_has_its_own_registry_by_several_names(tmp_path: Path, name: str) -> None:
    files = {DOCKER: {name: entry("docker")}}

    assert find(tmp_path, files, Remote("docker.io", "a/b")) == entry("docker")


def test_a_token_of_a_registry_stands_for_the_password(tmp_path: Path) -> None:
    known = entry("docker", identitytoken="given")

    assert find(tmp_path, {DOCKER: {"host:1": known}}) == known


class Helper:
    """A program of Docker's that knows logins, or fails as it is told to."""

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self.name = name

    def get(self, server: str) -> dict[str, str]:
        if self.name == "absent":
            raise CredentialsNotFound(server)
        if self.name == "broken":
            raise StoreError("S3CRET")
        if self.name == "odd":
            return {"Secret": "S3CRET"}
        return {"Username": "<token>" if self.name == "token" else self.name, "Secret": f"for {server}"}


def of_helper(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: object,
    host: str = "host:1",
    place: str | None = "/x",
    **more: str,
) -> Entry | None:
    monkeypatch.setattr(logins, "Store", Helper)
    monkeypatch.setattr(shutil, "which", lambda name, path: place if path == "/programs" else None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    return logins.of_helper(host, {"DOCKER_CONFIG": str(tmp_path), "PATH": "/programs", **more})


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ALL, ONE = {"credsStore": "all"}, {"credHelpers": {"host:1": "one"}}


@pytest.mark.parametrize(
    ("config", "host", "login"),
    [
        (ALL, "host:1", {"auth": encoded("all:for host:1")}),
        ({**ALL, **ONE}, "host:1", {"auth": encoded("one:for host:1")}),
        ({**ALL, **ONE}, "host:2", {"auth": encoded("all:for host:2")}),
        (ONE, "host:2", None),
        (ALL, "docker.io", {"auth": encoded("all:for https://index.docker.io/v1/")}),
        ({"credsStore": "token"}, "host:1", {"auth": encoded("<token>:"), "identitytoken": "for host:1"}),
        ({"credsStore": "absent"}, "host:1", None),
        ({"credsStore": "../all"}, "host:1", None),
        ({"credsStore": ["all"]}, "host:1", None),
        ({"credHelpers": ["host:1"]}, "host:1", None),
        ([], "host:1", None),
    ],
)
def test_a_helper_of_docker_is_asked_for_the_login_of_its_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: object, host: str, login: Entry | None
) -> None:
    assert of_helper(tmp_path, monkeypatch, config, host) == login
    assert of_helper(tmp_path, monkeypatch, config, host, REGISTRY_AUTH_FILE="mine") is None


@pytest.mark.parametrize(
    ("name", "path", "fact"),
    [("broken", "/x", "failed"), ("odd", "/x", "failed"), ("all", None, "missing"), ("broken", None, "missing")],
)
def test_a_helper_that_does_not_answer_is_named_and_its_words_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str | None, fact: str
) -> None:
    with pytest.raises(WorldFault, match=rf"a credential helper (is )?{fact}") as caught:
        of_helper(tmp_path, monkeypatch, {"credsStore": name}, place=path)

    assert caught.value.value == f"docker-credential-{name}" and caught.value.__suppress_context__ | (fact == "missing")
