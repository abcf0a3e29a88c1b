"""Whatever is in the configuration of pip and of Docker, it is read or refused by a Fault that shows no secret."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images import pip_config
from images.deliver import docker, logins
from images.host.errors import Fault
from images.store.store import default_root
from tests.support import hostile
from tests.support.hostile import watched

SECRET = "hunter2"
AUTH = base64.b64encode(f"me:{SECRET}".encode()).decode()
BARE = base64.b64encode(SECRET.encode()).decode()
HOSTS = [
    "registry",
    "https://registry/v1/",
    "http://registry",
    "",
    "docker.io",
    "https://index.docker.io/v1/",
    "[::1",
    "a/b",
]
DOCKER_WORDS = st.sampled_from([
    *HOSTS, "auths", "credHelpers", "credsStore", "auth", "username", "password", "identitytoken", "HttpHeaders",
    "currentContext", "../../beside/precious", "desktop", "a b; c", "--version", "x\0y", "\ud800",
])  # fmt: skip
docker_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | DOCKER_WORDS | st.text(max_size=5)
    | st.sampled_from([AUTH, BARE, "!!", "=", "\u00fc"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(DOCKER_WORDS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
docker_configs = st.fixed_dictionaries(
    {"auths": docker_values | st.dictionaries(st.sampled_from(HOSTS), docker_values, max_size=3)},
    optional={"credHelpers": docker_values, "credsStore": docker_values, "currentContext": docker_values},
).map(lambda value: json.dumps(value).encode())

lines = st.sampled_from([
    "[global]", "[install]", "[download]", "[:env:]", "[", "[]", "[a]b", "[DEFAULT]", "\ufeff[global]", "; comment",
    "#", f"index-url = https://me:{SECRET}@host/", "index-url", "=",
    f"extra-index-url =\n  https://a\n  https://me:{SECRET}@b",
    "  continued", "find-links = ~ ~/a ~nobody /b", "no-index = maybe", "no-index = yes", "cert = ", "cert = a\0b",
    "index_url: x", "--index-url = x", "%(a)s = %(b", "\t", "\x85", "\u2028", "a" * 70_000, "pypi-url = x",
    "index-url = \ud800",
])  # fmt: skip
pip_files = st.lists(lines | st.text(max_size=9), max_size=9).map(
    lambda rows: "\n".join(rows).encode(errors="surrogatepass")
)


def read_docker(directory: Path) -> None:
    (directory / "config.json").write_bytes((directory / "it").read_bytes())
    environ = {"DOCKER_CONFIG": str(directory), "PATH": ""}
    with patch.dict(os.environ, environ):
        for host in ("registry", "docker.io"):
            assert logins.of_helper(host, environ) is None
        docker.connect_docker({**environ, "DOCKER_HOST": "unix:///nowhere"}, 1)


def ask(sources: pip_config.Sources) -> None:
    """Ask what a download asks of a configuration."""
    for url in sources.places:
        sources.login(url), sources.is_secure(url), pip_config.without_login(url)
    sources.refuse_insecure()


def read_pip(directory: Path) -> None:
    environ = {"HOME": str(directory / "home"), "PIP_CONFIG_FILE": str(directory / "it"), "XDG_CONFIG_DIRS": "/none"}
    ask(pip_config.read_sources(environ, str(directory)))


def answer(read: Callable[[Path], None], data: bytes, directory: Path) -> None:
    (directory / "it").write_bytes(data)
    try:
        read(directory)
    except Fault as fault:
        assert fault.value and fault.remedy
        assert SECRET not in str(fault) and BARE not in str(fault)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("any")
    with watched(directory, memory=1 << 30) as scratch:  # what is imported once is not counted as memory
        answer(read_docker, b'{"auths": {"registry": {"auth": "YTpi"}}}', scratch)
        answer(read_pip, b"[global]\nindex-url = https://a\n", scratch)
    return directory


@given(data=docker_configs | docker_values.map(lambda value: json.dumps(value).encode()))
def test_any_configuration_of_docker_is_read_or_refused(place: Path, data: bytes) -> None:
    with watched(place) as scratch:
        answer(read_docker, data, scratch)


@given(data=pip_files)
def test_any_configuration_of_pip_is_read_or_refused(place: Path, data: bytes) -> None:
    with watched(place) as scratch:
        answer(read_pip, data, scratch)


@given(data=st.binary(max_size=99), at=hostile.changes)
@pytest.mark.parametrize("read", [read_docker, read_pip])
def test_any_bytes_are_read_or_refused(
    place: Path, read: Callable[[Path], None], data: bytes, at: list[hostile.Change]
) -> None:
    sound: dict[Callable[[Path], None], bytes] = {
        read_docker: json.dumps({"auths": {"registry": {"auth": AUTH}}, "credsStore": "x"}).encode(),
        read_pip: f"[global]\nindex-url = https://me:{SECRET}@host/\nno-index = no\n[install]\ncert = /\n".encode(),
    }
    with watched(place) as scratch:
        answer(read, data, scratch)
        answer(read, hostile.changed(sound[read], at), scratch)


ADDRESSES = st.sampled_from(
    [
        "https://[::1",
        "http://[::1]:99999/",
        "https://a:b@c:d/",
        "http://\u2100/",
        "https://a@b@c/",
        "file://host/x",
        "//a",
        "https://%zz/",
        "http://127.0.0.1:x",
        "HTTP://a",
        "https://\ud800/",
        "http:// /",
        "https://a:\u0661/",
    ]
)
variables = st.dictionaries(
    st.sampled_from(["PIP_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_", "HOME", "PIP_TRUSTED_HOST"]),
    ADDRESSES | st.text(st.characters(exclude_characters="\0"), max_size=9)
    | st.sampled_from(["~", "~/x", "::", "/dev/null", "."]),
)  # fmt: skip


@given(environ=variables)
def test_any_variables_of_pip_are_read_or_refused(environ: Mapping[str, str]) -> None:
    try:
        ask(pip_config.make_sources(pip_config.merged([], environ), Path("/home")))
        assert all(path != Path(os.devnull) for path in pip_config.list_files({"HOME": "/home", **environ}, "/none"))
    except Fault as fault:
        assert fault.value and fault.remedy


HOSTILE = {
    "lists within lists": (read_docker, b"[" * 100_000),
    "lists within a login": (read_docker, b'{"auths": {"registry": ' + b"[" * 900 + b"]" * 900 + b"}}"),
    "lists within a helper": (read_docker, b'{"credsStore": ' + b"[" * 900 + b"]" * 900 + b"}"),
    "a number of 5000 digits": (read_docker, b'{"auths": ' + b"9" * 5000 + b"}"),
    "a name of half a character": (read_docker, b'{"auths": {"registry": {"username": "\\ud800", "password": "a"}}}'),
    "a helper with a zero byte": (read_docker, b'{"credsStore": "a\\u0000b"}'),
    "a helper elsewhere": (read_docker, b'{"credHelpers": {"registry": "../../../bin/sh"}}'),
    "a context of half a character": (read_docker, b'{"currentContext": "\\ud800"}'),
    "a helper that is a table": (read_docker, b'{"credsStore": {"password": "hunter2"}}'),
    "a login whose @ is missing": (read_pip, b"[global]\nindex-url = https://me:hunter2host/\n"),
    "a continued section": (read_pip, b"[global]\n  index-url\n  x = y\n"),
}


@pytest.mark.parametrize(("read", "data"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_configuration_is_read_or_refused(place: Path, read: Callable[[Path], None], data: bytes) -> None:
    with watched(place) as scratch:
        answer(read, data, scratch)


def test_who_has_no_home_has_no_files_of_pip_there() -> None:
    nobody = {"HOME": "~nobody-of-that-name", "XDG_CACHE_HOME": "/cache"}

    assert Path("/.config/pip/pip.conf") in pip_config.list_files(nobody, "/none")
    assert default_root(nobody) == Path("/cache/multinode")
