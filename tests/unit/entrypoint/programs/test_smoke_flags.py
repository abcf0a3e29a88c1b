"""The defaults of `smoke` are flags of every release of transformers."""

from __future__ import annotations

import pytest

from entrypoint.programs.smoke_flags import default_flags, known_flags
from tests.support.trainer_fields import HISTORY


@pytest.mark.parametrize("release", HISTORY)
@pytest.mark.parametrize("backend", ["", "gloo"])
def test_every_default_is_a_flag_of_the_release(release: tuple[int, int], backend: str) -> None:
    words = list(default_flags("/tmp/x", backend, HISTORY[release]))
    names = [word.removeprefix("--") for word in words if word.startswith("--")]
    assert set(names) <= HISTORY[release]
    assert ("use_cpu" in names) != ("no_cuda" in names)
    assert ("ddp_backend" in names) is bool(backend)
    assert {"output_dir", "max_steps", "seed"} <= set(names)


def test_the_oldest_releases_have_another_flag_for_the_backend() -> None:
    assert list(default_flags("/tmp/x", "ccl", {"xpu_backend"}))[-2:] == ["--xpu_backend", "ccl"]


@pytest.mark.parametrize(
    ("accelerate", "taken"),
    [("1.0.1", False), ("0.34.2", False), ("1.1.0", True), ("1.15.0", True), ("2.0.0rc1", True)],
)
def test_a_data_seed_needs_an_accelerate_that_takes_it(accelerate: str, taken: bool) -> None:
    """What transformers 4.46.0 says to accelerate 1.0.1: NotImplementedError: data_seed requires Accelerate 1.1.0."""
    known = known_flags(("seed", "data_seed"), accelerate)

    assert ("data_seed" in known) is taken
    assert ("--data_seed" in default_flags("/out", "", known)) is taken
    assert "--seed" in default_flags("/out", "", known)
