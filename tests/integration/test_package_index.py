"""The table of versions and an index on loopback, which is read as pip is configured; and what pip says of that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from images import pip_config
from images.plan import catalog
from scripts import update_versions
from tests.support.web import serving

JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
BASIC = "Basic dXNlcjpzZWNyZXQ="  # user:secret


FILES = {  # of each project the one file of its page, and its day
    "torch": ("torch-9.0-cp312-cp312-manylinux_2_28_x86_64.whl", "2030-01-01"),
    "impi-rt": ("impi_rt-2026.1-py3-none-manylinux_2_28_x86_64.whl", "2026-01-01"),
    "intel-openmp": ("intel_openmp-2026.1-py3-none-manylinux_2_28_x86_64.whl", "2026-01-01"),
    "transformers": ("transformers-99.0.0.tar.gz", "2026-11-20"),
}


def page(project: str, name: str, day: str) -> bytes:
    """Write a project page as PEP 691 and PEP 700 have it."""
    file = {"filename": name, "url": f"../../files/{name}", "hashes": {}, "upload-time": f"{day}T01:02:03.000000Z"}
    return json.dumps({"meta": {"api-version": "1.1"}, "name": project, "versions": [], "files": [file]}).encode()


@pytest.mark.parametrize("write", [[], ["--write"]])
def test_the_whole_way_from_pips_configuration_to_the_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write: list[str]
) -> None:
    table = tmp_path / "versions.toml"
    table.write_text(catalog.TABLE.read_text())
    with serving() as server:
        server.headers, server.login = JSON, BASIC
        server.pages = {f"/simple/{project}/": page(project, *file) for project, file in FILES.items()}
        index = f"{server.url}/simple".replace("//", "//user:secret@")
        environ = {"PIP_INDEX_URL": index, "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}
        code = update_versions.main(["--table", str(table), *write], environ)

    said = capsys.readouterr()
    assert code == 0
    assert '+"99.0.0" = 2026-11-20' in said.out and "secret" not in said.out + said.err
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
