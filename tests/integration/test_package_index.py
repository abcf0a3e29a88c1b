"""A package index on loopback, read as pip is configured: its address, certificate, and passwords."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from packaging.version import Version

from images import pip_config
from images.host import limits
from images.host.errors import WorldFault
from images.pip_config import Sources
from images.plan import catalog
from scripts import update_versions
from scripts.versions import package_index
from tests.support.web import Server, serving

JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
HTML = {"Content-Type": "text/html"}
BASIC = "Basic dXNlcjpzZWNyZXQ="  # user:secret


def row(name: str, day: str | None, yanked: str | bool = False) -> dict[str, object]:
    dated = {"upload-time": f"{day}T01:02:03.000000Z"} if day else {}
    return {"filename": name, "url": f"../../files/{name}", "hashes": {}, "yanked": yanked, **dated}


def page(name: str, *files: dict[str, object]) -> bytes:
    """Write a project page as PEP 691 and PEP 700 have it."""
    answer = {"meta": {"api-version": "1.1"}, "name": name, "versions": [], "files": files}
    return json.dumps(answer).encode()


TORCH = page(
    "torch",
    row("torch-9.0-cp311-cp311-manylinux_2_28_x86_64.whl", "2030-01-02"),
    row("torch-9.0-cp312-cp312-manylinux_2_28_x86_64.whl", "2030-01-01"),
    row("torch-9.1-cp312-cp312-manylinux_2_28_x86_64.whl", "2030-02-01", yanked="broken"),
    row("torch-9.2rc1-cp312-cp312-manylinux_2_28_x86_64.whl", "2030-03-01"),
    row("torch-odd.exe", "2030-03-01"),
)


@pytest.fixture
def server() -> Iterator[Server]:
    """Serve the page of torch."""
    with serving() as started:
        started.headers, started.pages["/simple/torch/"] = JSON, TORCH
        yield started


def read(url: str | None = None, sources: Sources | None = None, name: str = "torch") -> package_index.Releases:
    return package_index.releases(name, url, sources or Sources())


def test_final_releases_come_with_day_and_reason(server: Server) -> None:
    releases = read(f"{server.url}/simple/")

    assert set(releases) == {Version("9.0"), Version("9.1")}
    assert package_index.day(releases[Version("9.0")]) == date(2030, 1, 1)
    assert package_index.pythons(releases[Version("9.0")]) == ["3.11", "3.12"]
    assert package_index.yanked(releases[Version("9.0")]) is None
    assert package_index.yanked(releases[Version("9.1")]) == "broken"


def test_a_password_in_the_address_is_sent_and_not_shown(server: Server) -> None:
    server.login = BASIC
    index = f"{server.url}/simple".replace("//", "//user:secret@")

    assert Version("9.0") in read(index)
    with pytest.raises(WorldFault) as caught:
        read(index, name="none")

    assert "/simple/none/" in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("pages", "headers", "reason"),
    [
        ({}, JSON, "no such project"),
        ({"/simple/torch/": b"{"}, JSON, "Expecting property name"),
        ({"/simple/torch/": b"{}"}, JSON, "(/simple/torch/"),
        ({"/simple/torch/": page("torch", row("torch-odd.exe", "2030-03-01"))}, JSON, "names no file of a release"),
        ({"/simple/torch/": b"<html>Please log in</html>"}, HTML, "names no file of a release"),
        ({"/simple/torch/": page("torch", row("torch-9.0.tar.gz", None))}, JSON, "does not say when its files"),
        ({"/simple/torch/": b'<a href="/torch-9.0.tar.gz">t</a>'}, HTML, "does not say when its files"),
    ],
)
def test_what_cannot_be_read_is_named(
    server: Server, pages: dict[str, bytes], headers: dict[str, str], reason: str
) -> None:
    server.pages, server.headers = pages, headers

    with pytest.raises(WorldFault) as caught:
        read(f"{server.url}/simple")

    assert f"{server.url}/simple/torch/" in caught.value.value
    assert reason.strip("(") in caught.value.value
    assert caught.value.remedy


def test_a_page_has_an_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE", limits.Limit("", len(TORCH) - 1))

    with pytest.raises(WorldFault, match="too long"):
        read(f"{server.url}/simple")


@pytest.mark.parametrize("write", [[], ["--write"]])
def test_the_whole_way_from_pips_configuration_to_the_change(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], write: list[str]
) -> None:
    wheel = "{}-2026.1-py3-none-manylinux_2_28_x86_64.whl".format
    for name in ("impi-rt", "intel-openmp"):
        server.pages[f"/simple/{name}/"] = page(name, row(wheel(name.replace("-", "_")), "2026-01-01"))
    server.pages["/simple/transformers/"] = page("transformers", row("transformers-99.0.0.tar.gz", "2026-11-20"))
    table = tmp_path / "versions.toml"
    table.write_text(catalog.TABLE.read_text())

    environ = {"PIP_INDEX_URL": f"{server.url}/simple", "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}
    code = update_versions.main(["--table", str(table), *write], environ)

    assert code == 0
    assert '+"99.0.0" = 2026-11-20' in capsys.readouterr().out
    assert (Version("9.0") in catalog.load(table).torch) is bool(write)  # nothing is written unasked


def write_configuration(home: Path) -> dict[str, str]:
    """Write a file at each level that a user may write; return the environment in which pip reads them."""
    texts = {
        "system/pip/pip.conf": "[global]\ntimeout = 9\ncert = /ca.pem\nindex-url = https://system/simple\n",
        ".pip/pip.conf": "[global]\nindex_url = https://legacy/simple\ntrusted-host = a\n b:8\n",
        ".config/pip/pip.conf": (
            "[DEFAULT]\nproxy = http://proxy:3\n"
            "[global]\nextra-index-url =\n  https://a\n  # a note\n  https://b/%7Efoo\n"
            "[install]\nfind-links = /a\n   /b\n"
            "[download]\nindex-url =\n--retries = 5\n"
            "[freeze]\nindex-url = https://freeze\n"
        ),
        "named.conf": "[global]\nindex-url = https://named/simple\n; note\n[download]\nretries: 7\n",
    }
    for name, text in texts.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return {"HOME": str(home), "XDG_CONFIG_DIRS": str(home / "system"), "PATH": os.environ["PATH"]}


# `pip config list` shows a value of each file since pip 26; which of them counts is what commands ask for.
GET = """
import json, sys
from pip._internal.configuration import Configuration
configuration = Configuration(isolated=False)
configuration.load()
print(json.dumps({name: configuration.get_value(name) for name in sys.argv[1:]}))
"""


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"PIP_INDEX_URL": "", "PIP_FIND_LINKS": "/c"},
        {"PIP_CONFIG_FILE": "named.conf", "PIP_INDEX_URL": "https://variable"},
        {"PIP_CONFIG_FILE": "/dev/null"},
    ],
)
def test_pips_configuration_is_what_pip_says_it_is(tmp_path: Path, more: dict[str, str]) -> None:
    environ = {**write_configuration(tmp_path), **more}
    if "named.conf" in environ.get("PIP_CONFIG_FILE", ""):
        environ["PIP_CONFIG_FILE"] = str(tmp_path / "named.conf")
    listed = ask_pip(environ, "-m", "pip", "config", "list")
    values = json.loads(ask_pip(environ, "-c", GET, *{line.partition("=")[0] for line in listed.splitlines()}))
    expected = {
        name.rpartition(".")[2]: value
        for section in pip_config.SECTIONS
        for name, value in values.items()
        if name.rpartition(".")[0] == section and value  # an empty one is none
    }

    assert pip_config.merged(pip_config.list_files(environ, sys.prefix), environ) == expected


def ask_pip(environ: dict[str, str], *words: str) -> str:
    """Return what a Python with pip prints."""
    return subprocess.run([sys.executable, *words], env=environ, capture_output=True, text=True, check=True).stdout
