"""The defaults of `smoke` are flags of every release of transformers."""

from __future__ import annotations

import pytest

from entrypoint.jobs.smoke_flags import default_flags
from tests.support.history import HISTORY


@pytest.mark.parametrize("release", HISTORY)
@pytest.mark.parametrize("backend", ["", "gloo"])
def test_every_default_is_a_flag_of_the_release(release: tuple[int, int], backend: str) -> None:
    words = list(default_flags("/tmp/x", backend, HISTORY[release]))
    names = [word.removeprefix("--") for word in words if word.startswith("--")]
    assert set(names) <= HISTORY[release]
    assert ("use_cpu" in names) != ("no_cuda" in names)
    assert ("ddp_backend" in names) is bool(backend)
    assert {"output_dir", "max_steps", "seed"} <= set(names)


def test_the_backend_of_the_oldest_releases() -> None:
    assert list(default_flags("/tmp/x", "ccl", {"xpu_backend"}))[-2:] == ["--xpu_backend", "ccl"]
