"""Whether ranks train on the same data: what is told the others of splits, samplers, loaders and wrapped models."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from accelerate import data_loader
from accelerate.state import PartialState
from torch.nn.parallel import distributed
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, dataset
from torch.utils.data import distributed as samplers

from multinode_image.hooks.data import same_data
from multinode_image.hooks.data.same_data import Known
from multinode_image.hooks.job.messenger import Message
from multinode_image.hooks.job.place import Job

JOB = Job(0, 2, "pod0", 29500, "0")
WATCHED = [
    (dataset, "random_split"), (data_loader, "prepare_data_loader"), (DistributedSampler, "__init__"),
    (distributed.DistributedDataParallel, "__init__"),
]  # fmt: skip


class World:
    """Make up the job of this rank: what it sends, what ends it, what it says, and what the other rank says."""

    def __init__(self) -> None:
        self.off = self.is_child = False
        self.job: Job | None = JOB
        self.sent: list[Message] = []
        self.ended: list[Any] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def hear(self, other: Callable[[Any], Any] = lambda value: value) -> None:
        """Let the other rank say of each message what this one says, or something else."""
        for message in self.sent:
            assert message.deliver is not None
            message.deliver([json.dumps(other(json.loads(message.text))).encode()])


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    ranks = World()
    monkeypatch.setattr(PartialState, "_shared_state", {})
    PartialState(cpu=True)  # before there are variables of a rank
    monkeypatch.setattr(same_data, "KNOWN", Known())
    monkeypatch.setattr(same_data, "know", lambda: ranks)
    monkeypatch.setattr(same_data, "find_job", lambda _: ranks.job)
    monkeypatch.setattr(same_data, "end_soon", ranks.ended.append)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.delenv("MULTINODE_APART", raising=False)
    return ranks


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch as in the image; what is changed goes back."""
    for owner, name in WATCHED:
        monkeypatch.setattr(owner, name, vars(owner)[name])
    same_data.watch_split(dataset)
    same_data.watch_loaders(data_loader)
    same_data.watch_sampler(samplers)
    same_data.watch_batches(distributed)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a table of datasets, which is watched."""

    def make() -> Any:
        module = pytest.importorskip("datasets.arrow_dataset")
        for name in ("train_test_split", "shuffle"):
            monkeypatch.setattr(module.Dataset, name, getattr(module.Dataset, name))
        same_data.watch_datasets(module)
        return module.Dataset.from_dict({"x": list(range(16))})

    return make


def load(rows: Any, **options: Any) -> None:
    """Share rows among ranks as accelerate does, in batches of 4."""
    place: dict[str, Any] = {"num_processes": 2, "process_index": 0, "device": torch.device("cpu")}
    data_loader.prepare_data_loader(DataLoader(rows, batch_size=4), **place, **options)


def split(**options: Any) -> None:
    dataset.random_split(range(9), [6, 3], **options)  # type: ignore[arg-type,unused-ignore]


def seed() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize(
    ("act", "name"),
    [
        pytest.param(lambda _: split(), "random_split", id="random_split"),
        pytest.param(lambda _: split(generator=seed()), "", id="a generator"),
        pytest.param(lambda table: table().train_test_split(0.25), "train_test_split", id="train_test_split"),
        pytest.param(lambda table: table().train_test_split(0.25, seed=1), "", id="a seed"),
        pytest.param(lambda table: table().train_test_split(0.25, None, True, None, 7), "", id="by its place"),
        pytest.param(lambda table: table().train_test_split(0.25, shuffle=False), "", id="in their order"),
    ],
)
def test_a_split_without_a_seed_is_compared(act: Any, name: str, world: World, table: Any) -> None:
    act(table)

    assert [message.key.split("/")[0] for message in world.sent] == [name] * bool(name)
    world.hear()
    assert world.ended == [], "both have the same"
    world.hear(lambda digest: [digest[0] + 1, *digest[1:]])
    assert len(world.ended) == bool(name)
    assert not name or (world.ended[0].value.startswith(f"{name} without a seed at one_data.py:"))


@pytest.mark.parametrize(
    ("options", "rows", "compared"),
    [
        ({}, ["a", "b", "c"], True),
        ({"random_state": 42}, ["a", "b", "c"], False),
        ({"shuffle": False}, ["a", "b", "c"], False),
        ({}, [object(), object(), object()], False),
    ],
)
def test_a_split_of_lists_is_compared_by_their_first_rows(
    options: Any, rows: Any, compared: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("sklearn.model_selection._split")
    monkeypatch.setattr(module, "train_test_split", module.train_test_split)
    same_data.watch_lists(module)

    assert [*map(len, module.train_test_split(rows, **options))] == [2, 1]
    assert bool(world.sent) == compared
    world.hear(lambda digest: [0 for _ in digest])
    assert not compared or "random_state=42" in world.ended[0].remedy


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_shuffle_is_wrong_where_ranks_share_data_by_positions(
    shares: bool, first: bool, world: World, table: Any
) -> None:
    if shares and first:
        DistributedSampler(range(16), 2, 0)  # type: ignore[arg-type,unused-ignore]
    table().shuffle()
    message = world.sent[-1]
    assert message.deliver is not None
    message.deliver([b"[7]"])
    if shares and not first:
        load(range(16))

    assert len(world.ended) == shares


@pytest.mark.parametrize(
    ("rows", "batches", "ends", "says"),
    [
        (64, 8, False, False),
        (64, 7, False, False),  # of accelerate without even_batches
        (56, 7, True, False),
        (65, 8, False, True),
        (0, 0, True, False),
    ],
)
def test_ranks_have_as_many_rows(
    rows: int, batches: int, ends: bool, says: bool, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    load(range(64))
    world.hear(lambda _: [rows, batches])

    assert bool(world.ended) == ends
    said = str(world.ended[0]) if ends else capsys.readouterr().err
    assert (f"64 on rank 0 and {rows} on rank 1, at one_data.py:" in said) == (ends or says)


class Stream(IterableDataset):  # type: ignore[type-arg,unused-ignore]
    """Rows without a number."""

    def __iter__(self) -> Any:
        return iter(range(9))


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda: load(Stream()), id="no length"),
        pytest.param(lambda: load(range(9), dispatch_batches=True, put_on_device=True), id="rank 0 reads"),
        pytest.param(lambda: DistributedSampler(range(9), 1, 0), id="no ranks share it"),  # type: ignore[arg-type,unused-ignore]
    ],
)
def test_what_ranks_do_not_share_is_not_compared(act: Any, world: World) -> None:
    act()

    assert world.sent == []


def train(batches: list[int], training: bool, shared: bool, world: World) -> Callable[[], Any]:
    """Return what trains on some batches, and returns what has been sent, and whether a model has a hook then."""

    def act() -> Any:
        group = None if shared else [torch.distributed.new_group([rank]) for rank in (0, 1)]
        words = {} if group is None else {"process_group": group[torch.distributed.get_rank()]}
        model = distributed.DistributedDataParallel(Lines(), **words).train(training)
        for number in batches:
            model(torch.full((2, 1), float(number)), more=[{"labels": torch.ones(1)}], length=7)
        return [json.loads(message.text) for message in world.sent], len(model._forward_pre_hooks)

    return act


class Lines(torch.nn.Linear):
    """A model that takes more than a tensor."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    def forward(self, x: torch.Tensor, more: object, length: int) -> torch.Tensor:
        return super().forward(x)


@pytest.mark.parametrize(
    ("batches", "training", "shared", "count", "hooks"),
    [
        pytest.param([1, 2, 3, 4], True, True, 1, 0, id="they are compared once, and later steps pay nothing"),
        pytest.param([1, 2], True, True, 0, 1, id="too few"),
        pytest.param([1, 2, 3, 4], False, True, 0, 1, id="evaluation"),
        pytest.param([1, 2, 3, 4], True, False, 0, 0, id="a group of some ranks"),
    ],
)
def test_the_first_batches_of_a_model_are_compared(
    batches: list[int], training: bool, shared: bool, count: int, hooks: int, world: World, run_ranks: Any
) -> None:
    for rank in run_ranks(train(batches, training, shared, world))[0]:
        (sent, left) = rank.result
        assert len(sent) == count and left == hooks
        assert all(len(set(digests)) == len(digests) == 3 for digests in sent)
