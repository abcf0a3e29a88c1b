"""Hooks of the image with its torch and transformers, in one process: the tests of hooks/, by our pytest."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.support.harness import run

# What pytest consists of, all of it Python alone, so that any Python runs it.
PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
TESTS = Path(__file__).with_name("hooks")
DATA = Path(__file__).parents[1] / "data/torchrun.json"  # what is recorded of a torchrun
ENVIRONMENT = {
    "PYTHONPATH": "/tests/lib:/opt/multinode/lib", "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["image", pytest.param("ccl_image", marks=pytest.mark.slow)])  # torch 2.4
def test_hooks_do_with_torch_and_the_trainer_what_they_are_for(kind: str, request: pytest.FixtureRequest) -> None:
    options = ["--entrypoint", "python3", "--volume", f"{TESTS}:/tests/hooks:ro", "--workdir", "/tests/hooks"]
    options += ["--volume", f"{DATA}:/tests/data/{DATA.name}:ro"]
    for name in PYTEST:
        module = Path(importlib.import_module(name).__file__ or "")
        place = module.parent if module.stem == "__init__" else module
        options += ["--volume", f"{place}:/tests/lib/{place.name}:ro"]
    options += [word for name, value in ENVIRONMENT.items() for word in ("--env", f"{name}={value}")]
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "/tests/hooks"]

    done = run(
        request.getfixturevalue(kind), *words, *sorted(path.name for path in TESTS.glob("*.py")), options=options,
        seconds=600,
    )  # fmt: skip

    assert done.code == 0, done.out[-6000:]
