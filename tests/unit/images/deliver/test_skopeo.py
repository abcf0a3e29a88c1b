"""How skopeo is called, and what it is handed."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from images.deliver import skopeo
from images.host.context import Access
from images.host.errors import WorldFault
from images.host.store import Store
from images.oci.reference import Place

PLACE = Place("registry.example:5000", "team/image", plain=False)


def prepared(tmp_path: Path, config: str) -> skopeo.Server:
    """Make a server with this configuration of Docker's."""
    (tmp_path / "config.json").write_text(config)
    access = Access(environ={"DOCKER_CONFIG": str(tmp_path), "PATH": ""})
    return skopeo.Server(PLACE, Store(tmp_path / "store"), access, tmp_path)


def test_only_the_login_of_this_registry_is_handed_over_in_a_private_file(tmp_path: Path) -> None:
    entries = {host: {"auth": base64.b64encode(b"me:secret").decode()} for host in (PLACE.host, "other.example")}
    server = prepared(tmp_path, json.dumps({"auths": entries}))

    option, name = server._login
    file = tmp_path / name

    assert option == "--authfile"

    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["auths"].keys() == {PLACE.host}


def test_nobody_is_logged_in_where_the_configuration_names_no_login(tmp_path: Path) -> None:
    assert prepared(tmp_path, "{}")._login == ()


def test_a_machine_without_skopeo_is_told_what_to_install() -> None:
    with pytest.raises(WorldFault) as found:
        skopeo.require({"PATH": ""}, "registry.example/team/image")

    assert found.value.remedy == skopeo.INSTALL
