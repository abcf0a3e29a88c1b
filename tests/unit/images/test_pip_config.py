"""The certificates that other programs are given."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from images import pip_config
from images.host.errors import UserFault
from images.pip_config import Sources, trusted


@pytest.mark.parametrize(
    ("environ", "certificate", "file"),
    [
        ({}, None, None),
        ({"SSL_CERT_FILE": "/s"}, None, "/s"),
        ({"SSL_CERT_FILE": "/s", "CURL_CA_BUNDLE": "/c"}, None, "/c"),
        ({"SSL_CERT_FILE": "/s", "CURL_CA_BUNDLE": "/c", "REQUESTS_CA_BUNDLE": "/r"}, None, "/r"),
        ({"REQUESTS_CA_BUNDLE": "/r"}, "/pip", "/pip"),
        ({"REQUESTS_CA_BUNDLE": ""}, "ca.pem", f"{Path.cwd()}/ca.pem"),
    ],
)
def test_other_programs_trust_what_requests_and_pip_trust(
    environ: dict[str, str], certificate: str | None, file: str | None
) -> None:
    assert trusted(environ, certificate) == ({"SSL_CERT_FILE": file} if file else {})


def test_a_directory_of_certificates_is_handed_on_as_one(tmp_path: Path) -> None:
    assert trusted({}, str(tmp_path)) == {"SSL_CERT_DIR": str(tmp_path)}


# pip's configuration: which files are read, what they say together, and what is wrong in them.

GLOBAL = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf")]
USER = [Path("/home/me/.pip/pip.conf"), Path("/home/me/.config/pip/pip.conf")]
SITE = [Path("/venv/pip.conf")]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, GLOBAL + USER + SITE),
        ({"PIP_CONFIG_FILE": "/dev/null"}, []),
        ({"PIP_CONFIG_FILE": "/no/such.conf"}, [*GLOBAL, *USER, *SITE, Path("/no/such.conf")]),
        ({"PIP_CONFIG_FILE": __file__}, [*GLOBAL, *SITE, Path(__file__)]),
        (
            {"XDG_CONFIG_DIRS": "/a:/b"},
            [Path("/a/pip/pip.conf"), Path("/b/pip/pip.conf"), Path("/etc/pip.conf"), *USER, *SITE],
        ),
        ({"XDG_CONFIG_HOME": "/x"}, [*GLOBAL, USER[0], Path("/x/pip/pip.conf"), *SITE]),
    ],
)
def test_the_files_are_those_of_pip(environ: dict[str, str], expected: list[Path]) -> None:
    assert pip_config.list_files({"HOME": "/home/me", **environ}, "/venv") == expected


def written(place: Path, *texts: str) -> list[Path]:
    """Write configuration files, the first one to be read first."""
    paths = [place / f"{number}.conf" for number, _ in enumerate(texts)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def sources(place: Path, *texts: str, **environ: str) -> Sources:
    return pip_config.make_sources(pip_config.merged(written(place, *texts), environ), place)


def test_a_tilde_is_the_home_directory(tmp_path: Path) -> None:
    read = sources(tmp_path, "[global]\ncert=~/ca.pem\nclient-cert=~/me.pem\nfind-links=~/a /a a/~/b\n")

    assert (read.certificate, read.client_certificate) == (f"{tmp_path}/ca.pem", f"{tmp_path}/me.pem")
    assert read.links == (f"{tmp_path}/a", "/a", "a/~/b")


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("Yes", True), ("off", False), ("", False)])
def test_no_index_leaves_directories_only(tmp_path: Path, value: str, expected: bool) -> None:
    text = "[global]\nindex-url = https://a\nextra-index-url = https://b\nfind-links = /wheels\n"

    read = sources(tmp_path, text, PIP_NO_INDEX=value)

    assert read.no_index is expected
    assert (read.index, read.extra, read.links) == (
        (None, (), ("/wheels",)) if expected else ("https://a", ("https://b",), ("/wheels",))
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[global]\nindex-url = https://u:secret@a\nindex-url = https://b\n", "DuplicateOptionError"),
        ("[global]\n[install]\n[global]\nindex-url = https://u:secret@a\n", "DuplicateSectionError"),
        ("index-url = https://u:secret@a\n", "MissingSectionHeaderError"),
        ("[global]\n\nhttps//u.secret@a\n", "ParsingError"),
        ("[global]\nindex-url = \udcff\n", "byte 21 is not UTF-8"),
        ("[global]\nproxy = http://u:secret@a/\0\n", "a NUL byte"),
        ("", "(Is a directory)"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_without_its_lines(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "pip.conf"
    path.write_bytes(text.encode(errors="surrogateescape"))
    if not text:
        path.unlink()
        path.mkdir()

    with pytest.raises(UserFault, match="cannot read pip's configuration") as caught:
        pip_config.merged([path], {})

    assert str(path) in caught.value.value and where in caught.value.value
    assert "PIP_CONFIG_FILE" in caught.value.remedy
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "is_set"),
    [*((typed, True) for typed in ("y", "yes", "t", "True", "on", "1")),
     *((typed, False) for typed in ("n", "no", "f", "false", "OFF", "0"))],
)  # fmt: skip
def test_yes_and_no_are_said_as_pip_takes_them(tmp_path: Path, typed: str, *, is_set: bool) -> None:
    assert sources(tmp_path, PIP_NO_INDEX=typed).no_index is is_set


@pytest.mark.parametrize("scheme", ["http", "https", "socks4", "socks4a", "socks5", "socks5h"])
def test_a_proxy_speaks_http_or_socks(tmp_path: Path, scheme: str) -> None:
    assert sources(tmp_path, PIP_PROXY=f"{scheme}://proxy:1").proxy == f"{scheme}://proxy:1"


def test_a_value_that_is_neither_yes_nor_no_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserFault, match="neither yes nor no: no-index = maybe"):
        sources(tmp_path, PIP_NO_INDEX="maybe")


INDEXES = Sources(
    index="https://a:1@host/simple",
    extra=(
        "https://b:2%40@host/private/simple",
        "https://open/simple",
        "http://c:3@plain:8080/simple",
        "http://d:4@bare/simple",
    ),
    links=("https://token@links/page.html",),
)


@pytest.mark.parametrize(
    ("url", "login"),
    [
        ("https://host/files/a.whl", ("a", "1")),
        ("https://HOST:443/private/files/a.whl", ("b", "2@")),
        ("http://bare:80/a.whl", ("d", "4")),
        ("https://own:word@host/a.whl", ("own", "word")),
        ("http://host/files/a.whl", None),
        ("https://host:8443/a.whl", None),
        ("https://host.example/a.whl", None),
        ("https://open/a.whl", None),
        ("http://plain:8080/a.whl", ("c", "3")),
        ("https://links/a.whl", ("token", "")),
        ("file:///host/a.whl", None),
        ("/host/a.whl", None),
    ],
)
def test_a_file_has_the_login_of_the_index_on_its_server(url: str, login: tuple[str, str] | None) -> None:
    assert INDEXES.login(url) == login


@pytest.mark.parametrize(
    ("url", "is_secure"),
    [
        ("https://host/simple", True),
        ("http://localhost:3141/simple", True),
        ("http://127.1.2.3/simple", True),
        ("http://[::1]:80/simple", True),
        ("file:///simple", True),
        ("/wheels", True),
        ("http://host/simple", False),
        ("http://127.0.0.1.example/simple", False),
        ("http://user:secret@known.example/simple", True),
        ("http://KNOWN.example:8080/simple", True),
        ("http://port.example:8080/simple", True),
        ("http://port.example/simple", False),
    ],
)
def test_plain_http_is_for_this_machine_and_trusted_hosts(url: str, is_secure: bool) -> None:
    trusted = ("known.example", "port.example:8080")
    assert Sources(trusted=trusted).is_secure(url) is is_secure
    with nullcontext() if is_secure else pytest.raises(UserFault) as caught:
        Sources(index=url, extra=("http://x",), links=(url,), trusted=(*trusted, "x")).refuse_insecure()
    assert caught is None or caught.value.value == f"{url}, {url}"


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_PROXY"])
@pytest.mark.parametrize(
    "address",
    [
        "https://u:secret@[::1",
        "https://u:secret@host:port/x",
        "https://pypi..example/",
        f"https://{'a' * 64}/",
        '"https://u:secret@host/simple"',
        "'https://host/simple'",
        'https://host/simple"',
        "htps://u:secret@host/simple",
        "https:///simple",
        '"wheels"',
    ],
)
def test_what_is_no_address_is_named(tmp_path: Path, name: str, address: str) -> None:
    with pytest.raises(UserFault, match=r"not an address: [a-z-]+ ") as caught:
        sources(tmp_path, **{name: address})

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("variable", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"])
@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("mirror.invalid/simple", "mirror.invalid/simple"),
        ("file:///nonexistent/simple", "file:///nonexistent/simple"),
        (__file__, __file__),
        ("//u:secret@host/simple", "host/simple"),
        ("user:pa/secret@host/simple", "host/simple"),
        ("a" * 300, "a" * 300),
    ],
)
def test_an_index_that_is_no_directory_here_is_named(tmp_path: Path, variable: str, place: str, shown: str) -> None:
    """uv would leave it out."""
    with pytest.raises(UserFault, match="neither an address nor a directory") as caught:
        sources(tmp_path, **{variable: place})

    assert caught.value.value == f"{variable[4:].lower().replace('_', '-')} {shown}"
    assert sources(tmp_path, **{variable: str(tmp_path)}).places == (str(tmp_path),)


@pytest.mark.parametrize(
    ("named", "certificate"),
    [
        ({"SSL_CERT_FILE": "a.pem"}, "a.pem"),
        ({"SSL_CERT_FILE": "none", "REQUESTS_CA_BUNDLE": "b.pem"}, "b.pem"),
        ({"SSL_CERT_FILE": "none", "PIP_CERT": "c.pem"}, "c.pem"),
        ({"SSL_CERT_FILE": "none"}, None),
        ({"PIP_CERT": "none", "REQUESTS_CA_BUNDLE": "b.pem"}, None),
        ({"PIP_CLIENT_CERT": "none"}, None),
    ],
)
def test_the_certificates_of_the_environment_are_those_of_pip_and_have_to_be_there(
    tmp_path: Path, named: dict[str, str], certificate: str | None
) -> None:
    """Choosing packages and downloading them trust the same ones."""
    for name in ("a.pem", "b.pem", "c.pem"):
        (tmp_path / name).touch()
    environ = {variable: str(tmp_path / name) for variable, name in named.items()}
    refusal = pytest.raises(UserFault, match=f"no such certificates: {tmp_path}/none")

    with nullcontext() if certificate else refusal:
        read = pip_config.read_sources({"PIP_CONFIG_FILE": os.devnull, **environ})
        assert certificate and read.certificate == str(tmp_path / certificate)


@pytest.mark.parametrize("host", ["a:b", "[::1"])
def test_a_trusted_host_is_shown_as_it_is_typed(tmp_path: Path, host: str) -> None:
    with pytest.raises(UserFault, match=r"not an address: trusted-host [a\[]:") as caught:
        sources(tmp_path, PIP_TRUSTED_HOST=host)

    assert caught.value.remedy == "HOST or HOST:PORT"


def test_every_setting_of_pip_is_taken() -> None:
    values = {
        "index-url": " https://a/simple ", "extra-index-url": "https://b/simple\nhttps://c/simple", "no-index": "off",
        "find-links": "~/wheels https://page/x", "cert": "~/ca.pem", "client-cert": " /me.pem", "proxy": " http://p:1 ",
        "trusted-host": "a b:8443",
    }  # fmt: skip

    assert pip_config.make_sources(values, Path("/home/me")) == Sources(
        index="https://a/simple", extra=("https://b/simple", "https://c/simple"), no_index=False,
        links=("/home/me/wheels", "https://page/x"), certificate="/home/me/ca.pem", client_certificate="/me.pem",
        proxy="http://p:1", trusted=("a", "b:8443"),
    )  # fmt: skip
    assert pip_config.make_sources({}, Path("/home/me")) == Sources()
