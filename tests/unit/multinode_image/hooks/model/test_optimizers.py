"""Which steps are followed; test_one_model.py says what becomes of them."""

from __future__ import annotations

from multinode_image.hooks.model import optimizers
from tests.support.torch_stand_ins import Old


def test_the_profiler_of_an_old_torch_has_its_own_change_of_a_step() -> None:
    module = Old()
    optimizers.watch_optimizers(module)

    kind = type(module.Adam())

    assert kind.step.hooked and kind.step.follows_weights  # type: ignore[attr-defined]
