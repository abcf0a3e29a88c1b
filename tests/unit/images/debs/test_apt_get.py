"""What apt-get is given, and what its failures mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from images.debs.apt_get import answers, configuration
from images.host import process
from images.host.disk.faults import Unwritable
from images.host.store import Store


def test_apt_writes_below_the_folder_only_and_keeps_the_machines_proxies() -> None:
    lines = configuration(Path("/aside/x")).splitlines()

    settings = dict(re.fullmatch(r'(\S+) "(.*)";', row).groups() for row in lines if not row.startswith("#clear"))  # type: ignore[union-attr,misc]
    places = {key: value for key, value in settings.items() if key.startswith("Dir")}
    assert {"Dir::State", "Dir::State::status", "Dir::Cache", "Dir::Etc::sourcelist"} <= places.keys()
    assert all(value.startswith("/aside/x/") or value == "/dev/null" for value in places.values())
    assert not places.keys() & {"Dir", "Dir::Etc", "Dir::Etc::main", "Dir::Etc::parts", "Dir::Etc::netrc"}
    assert not [key for key in settings if key.startswith(("Acquire::http", "Acquire::https"))]
    assert lines.index("#clear APT::Architectures;") < lines.index('APT::Architectures:: "amd64";')


@pytest.mark.parametrize("name", ["APT::Get::AllowUnauthenticated", "Acquire::AllowInsecureRepositories"])
def test_apt_takes_nothing_without_a_signature_whatever_the_machine_says(name: str) -> None:
    assert f'{name} "false";' in configuration(Path("/aside")).splitlines()


@pytest.mark.parametrize(
    ("code", "err", "found"),
    [
        (0, "", True),
        (100, "E: Could not resolve 'debian'", False),
        (100, "E: The following signatures were invalid: BADSIG 0E98404D386FA1D9", False),
        (100, "E: Write error - write (28: No space left on device)", Unwritable),
    ],
)
def test_a_mirror_is_asked_once_and_shortly_whether_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, err: str, found: bool | type[Exception]
) -> None:
    ran: list[Sequence[str]] = []

    def run(command: Sequence[str], *_: object, **__: object) -> process.Result:
        ran.append(command)
        return process.Result(code, "", err)

    monkeypatch.setattr(process, "run", run)
    with nullcontext() if isinstance(found, bool) else pytest.raises(found):
        assert answers(Store(tmp_path), "deb http://debian x main\n", {}) is found

    ((*_, retries, seconds, _, no_lists),) = ran
    assert (retries, seconds) == ("--option=Acquire::Retries=0", "--option=Acquire::http::Timeout=5")
    assert no_lists.endswith("Packages::DefaultEnabled=false")
    assert not list((tmp_path / "aside").iterdir())
