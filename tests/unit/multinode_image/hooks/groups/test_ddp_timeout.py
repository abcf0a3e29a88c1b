"""How long ranks wait for each other, as arguments of a Trainer say; torch and transformers are made up."""

from __future__ import annotations

import functools
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.groups.ddp_timeout import watch_arguments, watch_groups

HOUR, OTHER = timedelta(hours=1), timedelta(seconds=7)


class Property(property):
    """A property that older releases keep the value of."""


@pytest.mark.parametrize("kind", [functools.cached_property, Property])
@pytest.mark.parametrize(
    ("words", "options", "given"),
    [
        pytest.param(("gloo",), {"rank": 0}, HOUR, id="none is given"),
        pytest.param(("gloo",), {"timeout": OTHER}, OTHER, id="one is given"),
        pytest.param(("gloo", "env://", OTHER), {}, None, id="one is given by its place"),
    ],
)
def test_a_group_of_a_trainer_waits_as_long_as_was_said(kind: Any, words: Any, options: Any, given: Any) -> None:
    formed: list[Any] = []
    torch = SimpleNamespace(init_process_group=lambda *words, **options: formed.append(options.get("timeout")))
    watch_groups(torch)

    class Arguments:
        ddp_timeout = 3600

        def _setup_devices(self) -> str:
            torch.init_process_group(*words, **options)
            return "cpu"

    _setup_devices = Arguments._setup_devices
    cached: Any = kind(_setup_devices)
    if hasattr(cached, "__set_name__"):
        cached.__set_name__(Arguments, "_setup_devices")
    Arguments._setup_devices = cached  # type: ignore[method-assign]
    watch_arguments(SimpleNamespace(TrainingArguments=Arguments))
    made: Any = Arguments()

    assert made._setup_devices == "cpu" and formed == [given]
    torch.init_process_group("gloo")
    assert formed[-1] is None, "a group of the script's own"
