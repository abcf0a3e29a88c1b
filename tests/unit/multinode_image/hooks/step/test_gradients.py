"""When a hook is registered and when a training is seen to compute in bfloat16; with stand-ins for torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

NAME = "multinode_image.hooks.step.gradients"


@pytest.fixture
def program() -> Iterator[Any]:
    with mock.patch.dict(sys.modules):
        sys.modules.pop(NAME, None)
        yield importlib.import_module(NAME)


def of_torch(enabled: bool) -> Any:
    return SimpleNamespace(bfloat16="bfloat16", is_grad_enabled=lambda: enabled)


@pytest.mark.parametrize(
    ("device", "enabled", "dtype", "keeps", "entered"),
    [
        ("cpu", True, "bfloat16", True, {"bfloat16"}), ("cuda", True, "bfloat16", True, set()),
        ("cpu", False, "bfloat16", True, {None}), ("cpu", True, "float16", True, {"float16"}),
        ("cpu", True, "bfloat16", False, set()),
    ],
)  # fmt: skip
def test_only_what_has_gradients_counts(
    program: Any, device: str, enabled: bool, dtype: str, keeps: bool, entered: set[str | None]
) -> None:
    class Autocast:
        def __init__(self) -> None:
            self.device, self._enabled, self.fast_dtype = device, enabled, dtype

        def __enter__(self) -> str:
            return "entered"

        def __exit__(self, *_: object) -> None:
            pass

    program.watch_autocast(SimpleNamespace(autocast=Autocast, torch=of_torch(keeps)))

    with Autocast() as result:
        assert result == "entered"
    assert program.SEEN.entered == entered
    assert program.SEEN.in_bf16 is ("bfloat16" in entered)


def of_parallel(kind: Any, **dist: Any) -> Any:
    """Return the module of a DistributedDataParallel."""
    torch = SimpleNamespace(autograd=SimpleNamespace(backward=mock.Mock(side_effect=[None, RuntimeError])))
    return SimpleNamespace(DistributedDataParallel=kind, dist=SimpleNamespace(**dist), torch=torch)


class Eager:
    """A DistributedDataParallel of torch before 2.0."""

    def __init__(self, module: str) -> None:
        self.module = module

    def forward(self, word: str) -> str:
        return f"{self.module} {word}"


class Lazy(Eager):
    """One of a later torch."""

    def __init__(self, module: str) -> None:
        super().__init__(module)
        self.begun = False

    def _lazy_init(self) -> None:
        self.begun = True

    def forward(self, word: str) -> str:
        if not self.begun:
            self._lazy_init()
        return super().forward(word)


@pytest.mark.parametrize("base", [Eager, Lazy])
def test_a_model_chooses_when_it_is_made_and_gets_a_hook_when_it_runs(program: Any, base: type) -> None:
    kind: Any = type("Parallel", (base,), {})
    choice = mock.Mock()

    with mock.patch.object(program, "load_choice", lambda: choice):
        program.watch_parallel(of_parallel(kind))
        parallel = kind(module="a model")
        assert [each[0] for each in choice.mock_calls] == ["choose"]
        assert parallel.forward("runs") == "a model runs"

    assert choice.mock_calls == [mock.call.choose(parallel), mock.call.attach(parallel, program.SEEN)]


@pytest.mark.parametrize(("options", "by_all"), [({}, True), ({"divide_by_initial_world_size": False}, False)])
def test_a_rank_without_batches_gets_a_hook_where_it_joins(
    program: Any, options: dict[str, bool], by_all: bool
) -> None:
    choice, shadow = mock.Mock(), mock.Mock(return_value="a hook")
    kind: Any = type("Parallel", (Lazy,), {"join_hook": lambda self, **given: shadow(**given)})

    with mock.patch.object(program, "load_choice", lambda: choice):
        program.watch_parallel(of_parallel(kind))
        parallel = kind(module="a model")
        assert parallel.join_hook(**options) == "a hook"

    assert choice.mock_calls[1:] == [mock.call.attach_to_join(parallel, program.SEEN, by_all)]
    assert shadow.mock_calls == [mock.call(**options)]


@pytest.mark.parametrize("gives_way", [True, False])
def test_a_hook_of_the_script_comes_in_the_place_of_ours(program: Any, gives_way: bool) -> None:
    choice, register = mock.Mock(**{"give_way.return_value": gives_way}), mock.Mock()
    module = of_parallel(type("Parallel", (Lazy,), {}), _register_comm_hook=lambda *words: register(*words))

    with mock.patch.object(program, "load_choice", lambda: choice):
        program.watch_parallel(module)
        module.dist._register_comm_hook("reducer", "state", "hook")

    assert choice.mock_calls == [mock.call.give_way("reducer", program.SEEN, "state", "hook")]
    assert register.mock_calls == [] if gives_way else [mock.call("reducer", "state", "hook")]


def test_a_pass_is_looked_at_once_somebody_asks_and_ends_however_it_ends(program: Any) -> None:
    module, origins = of_parallel(type("Parallel", (Lazy,), {})), mock.Mock(within=False)
    plain = module.torch.autograd.backward
    program.watch_parallel(module)
    program.SEEN.entered.add("bfloat16")

    module.torch.autograd.backward("loss")
    assert program.SEEN.watch(lambda: origins) is origins is program.SEEN.watch(mock.Mock)
    with pytest.raises(RuntimeError):
        module.torch.autograd.backward("loss", retain_graph=True)

    assert plain.mock_calls == [mock.call("loss"), mock.call("loss", retain_graph=True)]
    assert [call[0] for call in origins.mock_calls] == ["begin", "end"]
    assert not program.SEEN.entered
