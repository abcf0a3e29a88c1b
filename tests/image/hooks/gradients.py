"""When a hook is registered, when a training is seen to compute in bfloat16, and which labels a batch has."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.amp import autocast_mode
from torch.nn.parallel import DistributedDataParallel, distributed

from multinode_image.hooks.model import one_model
from multinode_image.hooks.step import gradients, mean_loss


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Form a group of this process alone."""
    dist.init_process_group("gloo", f"file://{tmp_path_factory.mktemp('group')}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> gradients.Seen:
    """Begin with nothing that is known of a training, and with torch as it is; what hooks change of it goes back."""
    seen = gradients.Seen()
    monkeypatch.setattr(gradients, "SEEN", seen)
    changed = [
        (autocast_mode.autocast, "__enter__"), (torch.autograd, "backward"),
        *((DistributedDataParallel, name) for name in ("__init__", "_lazy_init", "join_hook")),
        *((dist, name) for name in gradients.REGISTER),
    ]  # fmt: skip
    for owner, name in changed:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    return seen


@pytest.fixture
def choice(seen: gradients.Seen, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Watch DistributedDataParallel; return what is asked of the choice how gradients are exchanged."""
    choice = mock.Mock(**{"give_way.return_value": False})
    monkeypatch.setattr(gradients, "load_choice", lambda: choice)
    gradients.watch_parallel(distributed)
    return choice


@pytest.mark.parametrize(
    ("device", "enabled", "dtype", "keeps", "entered"),
    [
        ("cpu", True, torch.bfloat16, True, {torch.bfloat16}), ("cuda", True, torch.bfloat16, True, set()),
        ("cpu", False, torch.bfloat16, True, {None}), ("cpu", True, torch.float16, True, {torch.float16}),
        ("cpu", True, torch.bfloat16, False, set()),
    ],
)  # fmt: skip
def test_only_what_has_gradients_counts(
    seen: gradients.Seen, device: str, enabled: bool, dtype: Any, keeps: bool, entered: set[Any]
) -> None:
    gradients.watch_autocast(autocast_mode)

    with torch.set_grad_enabled(keeps), torch.autocast(device, dtype, enabled):
        computed = (torch.ones(2, 2) @ torch.ones(2, 2)).dtype

    assert seen.entered == entered
    seen.entered = set()
    with torch.autocast("cpu", torch.float16):
        assert seen.in_bf16 is (torch.bfloat16 in entered)  # it was once
    assert computed == (dtype if enabled and device == "cpu" else torch.float32)


def test_a_model_chooses_when_it_is_made_and_gets_a_hook_when_it_runs(seen: gradients.Seen, choice: Any) -> None:
    parallel = DistributedDataParallel(torch.nn.Linear(2, 1))
    assert choice.mock_calls == [mock.call.choose(parallel)]

    for _ in range(2):
        parallel(torch.ones(1, 2)).sum().backward()

    assert choice.mock_calls[1:] == [mock.call.attach(parallel, seen)]


@pytest.mark.parametrize("by_all", [True, False])
def test_a_rank_without_batches_gets_a_hook_where_it_joins(seen: gradients.Seen, choice: Any, by_all: bool) -> None:
    parallel = DistributedDataParallel(torch.nn.Linear(2, 1))

    with parallel.join(divide_by_initial_world_size=by_all):
        parallel(torch.ones(1, 2)).sum().backward()

    assert mock.call.attach_to_join(parallel, seen, by_all) in choice.mock_calls


@pytest.mark.parametrize("gives_way", [True, False])
def test_a_hook_of_the_script_comes_in_the_place_of_ours(seen: gradients.Seen, choice: Any, gives_way: bool) -> None:
    buckets = []
    choice.give_way.return_value = gives_way
    parallel = DistributedDataParallel(torch.nn.Linear(2, 1))

    def exchange(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buckets.append(state)
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    exchange.__annotations__.clear()  # they are strings here, which torch refuses
    parallel.register_comm_hook("state", exchange)
    parallel(torch.ones(1, 2)).sum().backward()

    assert mock.call.give_way(mock.ANY, seen, "state", mock.ANY) in choice.mock_calls
    assert buckets == ([] if gives_way else ["state"])


def test_a_pass_is_looked_at_once_somebody_asks_and_ends_however_it_ends(seen: gradients.Seen, choice: Any) -> None:
    origins = mock.Mock(within=False)
    seen.entered.add(torch.bfloat16)
    loss = torch.ones(1, requires_grad=True).square()

    loss.backward(retain_graph=True)
    assert seen.watch(lambda: origins) is origins is seen.watch(mock.Mock)
    loss.backward()
    with pytest.raises(RuntimeError):
        loss.backward()

    assert [call[0] for call in origins.mock_calls] == ["begin", "end", "begin", "end"]
    assert not seen.entered


@pytest.mark.parametrize(("inside", "wrapped"), [((), False), ((0,), False), ((0, 1), True)])
def test_an_optimizer_is_wrapped_where_all_that_it_trains_is(
    inside: tuple[int, ...], wrapped: bool, seen: gradients.Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_model, "WRAPPED", weakref.WeakSet())
    one_model.watch_parallel(distributed)
    layers = [torch.nn.Linear(2, 1, bias=False) for _ in range(2)]
    optimizer = torch.optim.SGD([layer.weight for layer in layers])
    parallel = [DistributedDataParallel(layers[place]) for place in inside]

    training = one_model.begin(one_model.State({}), optimizer, "SGD", lambda owner: owner.param_groups[0]["params"])

    assert (training.wrapped, training.name) == (wrapped, "SGD of 2 parameters")
    assert {*one_model.WRAPPED} == {*parallel}


def labels(*numbers: int) -> torch.Tensor:
    return torch.tensor([numbers])


@pytest.mark.parametrize(
    ("inputs", "shifts", "count"),
    [
        ({"labels": labels(1, 2, -100, 4)}, False, 3),
        ({"labels": labels(1, 2, -100, 4)}, True, 2),  # the first one is no label of a model that shifts them
        ({"labels": labels(-100, 2, -100, 4)}, True, 2),
        ({"shift_labels": labels(1, 2, 3)}, True, 3),  # shifted already
        ({"shift_labels": labels(1, 2, 3), "labels": labels(1)}, True, 3),
        ({"labels": [1, 2]}, False, 0),
        ({}, True, 0),
    ],
)
def test_labels_are_counted_as_the_trainer_does(inputs: dict[str, Any], shifts: bool, count: int) -> None:
    assert mean_loss.count_labels(SimpleNamespace(_loss_shifts_labels=shifts), inputs) == count
