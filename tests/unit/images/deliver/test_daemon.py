"""Which Docker daemon is meant, how it is reached, and what is said where it is not."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from docker.errors import DockerException, TLSParameterError
from docker.tls import TLSConfig

from images.deliver import daemon
from images.deliver.daemon import Daemon, denied, named
from images.host.errors import UserFault
from images.host.text import shown


def configured(directory: Path, config: object) -> dict[str, str]:
    (directory / "config.json").write_text(json.dumps(config))
    return {"DOCKER_CONFIG": str(directory)}


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
        named({"DOCKER_HOST": address})

    assert caught.value.value == shown(f"DOCKER_HOST {address!r}")
    assert "unix:///PATH or tcp://HOST:PORT" in caught.value.remedy


def test_a_password_in_an_address_is_refused_and_not_printed() -> None:
    with pytest.raises(UserFault) as caught:
        named({"DOCKER_HOST": "tcp://user:secret@host:1"})

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

    found = named({**environ, **more})

    assert (found.address if found else None) == address


@pytest.mark.parametrize("meta", [[], {"Endpoints": 3}, {"Endpoints": {"docker": {}}}, None])
def test_a_context_that_says_nothing_is_named(tmp_path: Path, meta: object) -> None:
    environ = configured(tmp_path, {})
    context_of(tmp_path, "odd", meta)

    for name in ("odd", "absent", "../../x", "\udcff"):
        with pytest.raises(UserFault, match="no such context"):
            named({**environ, "DOCKER_CONTEXT": name})


def at(address: str, named_by: str) -> Daemon:
    return Daemon(address, named_by.format(address))


@pytest.mark.parametrize(("allowed", "is_denied"), [(os.F_OK | os.W_OK, False), (os.F_OK, True), (None, False)])
@pytest.mark.parametrize(
    ("known", "place", "remedy"),
    [
        (None, daemon.SOCKET, "join the group docker"),
        (at(f"unix://{daemon.SOCKET}", "DOCKER_HOST={}"), daemon.SOCKET, "join the group docker"),
        (at("unix:///a/b.sock", "DOCKER_HOST={}"), "/a/b.sock", "chmod or chown it, or unset DOCKER_HOST"),
        (at("unix:///a/b.sock", "context x: {}"), "/a/b.sock", "chmod or chown it, or unset DOCKER_CONTEXT, or docker"),
        (at("tcp://host:2375", "DOCKER_HOST={}"), None, ""),
    ],
)
def test_a_socket_that_refuses_this_user_is_named(
    monkeypatch: pytest.MonkeyPatch, allowed: int | None, is_denied: bool, known: Daemon | None, place: str | None,
    remedy: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "access", lambda _, mode: allowed is not None and mode & ~allowed == 0)

    found = denied(known)

    assert (found is not None) == (is_denied and place is not None)
    assert found is None or (found.why == f"permission denied on {place}" and found.remedy.startswith(remedy))


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
@pytest.mark.parametrize("verify", [True, False])
def test_certificates_of_other_servers_do_not_replace_those_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, verify: bool
) -> None:
    ca, cert, key = certificates(tmp_path, *daemon.FILES)
    monkeypatch.setenv(name, "/etc/ssl/others.pem")
    tls = TLSConfig(ca_cert=ca, client_cert=(cert, key), verify=verify)

    api = daemon.Client(base_url="tcp://h:1", tls=tls, version="1.41").api

    found = api.merge_environment_settings("https://h:1", {}, None, None, None)
    assert (found["verify"], found["cert"]) == (ca if verify else False, (cert, key))


def certificates(directory: Path, *names: str) -> list[str]:
    """Write files that stand for certificates."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch()
    return [str(directory / name) for name in names]


class Answering:
    """A client of a daemon that answers."""

    asked: ClassVar = list[dict[str, Any]]()

    def __init__(self, **options: Any) -> None:
        self.asked[:] = [options]

    def ping(self) -> None:
        """Answer."""


@pytest.mark.parametrize(
    ("files", "skips", "expected"),
    [
        ((), False, None),
        ((), True, (None, None, False)),
        (("ca.pem",), False, ("ca.pem", None, True)),
        (("cert.pem", "key.pem"), False, (None, ("cert.pem", "key.pem"), True)),
        (daemon.FILES, False, ("ca.pem", ("cert.pem", "key.pem"), True)),
        (daemon.FILES, True, ("ca.pem", ("cert.pem", "key.pem"), False)),
        (("ca.pem", "cert.pem"), False, ("ca.pem", None, True)),
    ],
)
def test_a_context_brings_its_own_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], skips: bool,
    expected: tuple[str | None, tuple[str, str] | None, bool] | None,
) -> None:  # fmt: skip
    """What `docker context create` writes: SkipTLSVerify in meta.json, the files in contexts/tls/ID/docker."""
    environ = {**configured(tmp_path, {"currentContext": "far"}), "DOCKER_CERT_PATH": "/not/this", "HOME": "/nowhere"}
    endpoint = {"Host": "tcp://far:2376", "SkipTLSVerify": skips}
    context_of(tmp_path, "far", {"Name": "far", "Metadata": {}, "Endpoints": {"docker": endpoint}})
    certificates(tmp_path / "contexts/tls" / hashlib.sha256(b"far").hexdigest() / "docker", *files)
    monkeypatch.setattr(daemon, "Client", Answering)

    daemon.connect(named(environ), environ, 10)

    [options] = Answering.asked
    assert (options["base_url"], options["timeout"]) == ("tcp://far:2376", 10)
    tls = options["tls"]
    found = tls and (name_of(tls.ca_cert), tls.cert and tuple(map(name_of, tls.cert)), tls.verify)
    assert (found or None) == expected


def name_of(path: str | None) -> str | None:
    """Return the name of a file."""
    return path and Path(path).name


def test_dockers_own_variables_say_the_tls_of_another_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ca, cert, key = certificates(tmp_path, *daemon.FILES)
    environ = {"DOCKER_HOST": "tcp://h:1", "DOCKER_CERT_PATH": str(tmp_path), "DOCKER_TLS_VERIFY": "1"}
    monkeypatch.setattr(daemon, "Client", Answering)

    daemon.connect(named(environ), environ, 10)

    [options] = Answering.asked
    assert (options["base_url"], options["tls"].ca_cert, options["tls"].cert) == ("tcp://h:1", ca, (cert, key))


def caused(error: Exception) -> DockerException:
    """Return an error of the SDK as it wraps one of the connection."""
    try:
        try:
            raise error
        except OSError as cause:
            raise DockerException(f"Error while fetching server API version: {cause}") from cause
    except DockerException as wrapped:
        return wrapped


@pytest.mark.parametrize(
    ("error", "environ", "expected"),
    [
        (caused(ConnectionRefusedError(111, "Connection refused")), {}, "[Errno 111] Connection refused"),
        (TLSParameterError("x"), {"DOCKER_CERT_PATH": "/no"}, "not all of ca.pem, cert.pem, key.pem in /no"),
        (TLSParameterError("x"), {}, "not all of ca.pem, cert.pem, key.pem in ~/.docker"),
    ],
)
def test_why_a_daemon_was_not_reached_is_short(error: Exception, environ: dict[str, str], expected: str) -> None:
    assert daemon.silence(at("tcp://h:1", "DOCKER_HOST={}"), error, environ) == f"DOCKER_HOST=tcp://h:1 ({expected})"
    assert not daemon.silence(None, error, environ)


def test_a_directory_of_certificates_that_is_not_there_is_named() -> None:
    environ = {"DOCKER_HOST": "tcp://h:1", "DOCKER_CERT_PATH": "/no", "DOCKER_TLS_VERIFY": "1"}

    with pytest.raises(TLSParameterError):
        daemon.connect(named(environ), environ, 1)


ENGINE = [{"Name": "Engine", "Version": "20.10.24+dfsg1"}]


@pytest.mark.parametrize(
    ("parts", "compression", "warned"),
    [
        (ENGINE, "zstd", True),
        (ENGINE, "none", True),
        (ENGINE, "gzip", False),
        ([{"Name": "Engine", "Version": "23.0.0"}], "zstd", False),
        ([{"Name": "Engine", "Version": "dev"}], "zstd", False),
        ([{"Name": "Podman Engine", "Version": "4.3.1"}], "zstd", False),
        (None, "zstd", False),
    ],
)
def test_a_docker_that_cannot_pull_what_is_pushed_is_said(
    parts: list[dict[str, str]] | None, compression: str, warned: bool
) -> None:
    said: list[str] = []

    daemon.warn_of_zstd(SimpleNamespace(version=lambda: {"Components": parts}), compression, said.append)

    assert [("20.10.24+dfsg1" in each and "--compression gzip" in each) for each in said] == [True] * warned


def test_where_no_docker_was_asked_nothing_is_said_of_it() -> None:
    daemon.warn_of_zstd(None, "zstd", pytest.fail)
