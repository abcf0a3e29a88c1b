"""Which engine is found, and what is said of a configuration that Docker's SDK cannot read."""

from __future__ import annotations

import docker
import pytest
from docker.errors import DockerException

from images.host.errors import UserFault
from images.oci import engine

ENVIRON = {"HOME": "/nowhere", "PATH": "/nowhere"}


@pytest.mark.parametrize("error", [ValueError("secret"), TypeError(), AttributeError(), RecursionError()])
def test_a_configuration_that_the_sdk_cannot_read_is_named(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def from_env(**_: object) -> None:
        raise error

    monkeypatch.setattr(docker, "from_env", from_env)

    with pytest.raises(UserFault, match="Docker's configuration is damaged") as caught:
        engine.find(ENVIRON)
    assert caught.value.value == "/nowhere/.docker/config.json" and "secret" not in str(caught.value)
    assert not engine.answers(ENVIRON)


def test_a_daemon_that_does_not_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def from_env(**options: object) -> None:
        asked.append(options["environment"])
        raise DockerException("nobody there")

    monkeypatch.setattr(docker, "from_env", from_env)

    assert engine.find({**ENVIRON, "DOCKER_HOST": "unix:///nowhere"}) is None
    assert asked == [{**ENVIRON, "DOCKER_HOST": "unix:///nowhere"}]
