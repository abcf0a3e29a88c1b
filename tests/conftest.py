"""The images of the test session: built once, by build.py, as a user would."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.support.harness import EXAMPLES, built, has_docker

# How long an example takes says something about the machine, which may be busy, and nothing about the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session")
def engine() -> None:
    """Skip, and say how not to, where no Docker daemon answers."""
    if not has_docker():
        pytest.skip("no Docker daemon: start one, or run scripts/test as root")


@pytest.fixture(scope="session")
def image(engine: None) -> str:
    """Build the default image, with examples of our own in the layout of the real ones."""
    return str(built("--examples", str(EXAMPLES), "--tag", "multinode:test")["image"])


@pytest.fixture(scope="session")
def bare_image(engine: None) -> str:
    """Build the same without examples."""
    return str(built("--examples", "none", "--tag", "multinode:test-bare")["image"])
