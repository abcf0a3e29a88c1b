"""Whether ranks train on the same data, and which process ends that has lost a batch."""

from __future__ import annotations

import json
import os
import random
import signal
from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.data import same_data
from multinode_image.hooks.data.lost_batch import WORKER, end_worker
from multinode_image.hooks.data.same_data import (
    Known,
    compare,
    watch_batches,
    watch_datasets,
    watch_lists,
    watch_loaders,
    watch_sampler,
    watch_split,
)
from multinode_image.hooks.job.messenger import Message
from multinode_image.hooks.job.place import Job


@pytest.mark.parametrize(
    ("worker", "text", "sent"),
    [
        (SimpleNamespace(_worker_info="this one"), "/torch_1>: No space left on device (28)", signal.SIGBUS),
        (SimpleNamespace(_worker_info="this one"), "Too many open files", signal.SIGKILL),
        (SimpleNamespace(_worker_info=None), "No space left on device", None),
        (None, "No space left on device", None),
    ],
)
def test_only_a_worker_of_a_dataloader_ends(worker: object, text: str, sent: int | None) -> None:
    ends: list[tuple[int, int]] = []

    end_worker(RuntimeError(text), {WORKER: worker}, lambda *words: ends.append(words))

    assert ends == ([(os.getpid(), sent)] if sent else [])


LOADER = SimpleNamespace(dataset=range(9))
JOB = Job(0, 2, "pod0", 29500, "0")


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
    monkeypatch.setattr(same_data, "KNOWN", Known())
    monkeypatch.setattr(same_data, "know", lambda: ranks)
    monkeypatch.setattr(same_data, "find_job", lambda _: ranks.job)
    monkeypatch.setattr(same_data, "end_soon", ranks.ended.append)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.delenv("MULTINODE_APART", raising=False)
    return ranks


class Subset:
    def __init__(self, indices: list[int]) -> None:
        self.indices = indices


class Dataset:
    """A dataset of datasets: which rows of a table it has."""

    def __init__(self, indices: list[int] | None = None) -> None:
        column = SimpleNamespace(to_numpy=lambda: array("q", indices or []))
        self._indices = SimpleNamespace(column=lambda _: column) if indices else None

    def train_test_split(
        self, test_size: Any = None, train_size: Any = None, shuffle: bool = True, stratify: Any = None, *rest: Any,
        **more: Any
    ) -> dict[str, Any]:  # fmt: skip
        return {"train": Dataset([1, 2]), "test": Dataset([3])}

    def shuffle(self, seed: int | None = None, generator: Any = None) -> Dataset:
        return Dataset([3, 1, 2])


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Make up the modules that are watched."""
    module = SimpleNamespace(
        Dataset=type("Dataset", (Dataset,), {}),
        random_split=lambda data, lengths, generator=None: [Subset([5, 1]), Subset([3])],
        prepare_data_loader=lambda loader, **options: prepare(loader.dataset),
        DistributedSampler=type("DistributedSampler", (Sampler,), {}),
    )
    for watch in (watch_split, watch_datasets, watch_loaders, watch_sampler):
        watch(module)
    return module


def prepare(dataset: Any) -> Any:
    """Share data among ranks, in batches of 8."""
    return range(len(dataset) // 8) if hasattr(dataset, "__len__") else iter(())


class Sampler:
    def __init__(self, dataset: Any, num_replicas: int = 2) -> None:
        self.num_replicas, self.count = num_replicas, len(dataset) // num_replicas

    def __len__(self) -> int:
        return self.count


@pytest.mark.parametrize(
    ("act", "name"),
    [
        pytest.param(lambda lib: lib.random_split(range(9), [2, 1]), "random_split", id="random_split"),
        pytest.param(lambda lib: lib.random_split(range(9), [2, 1], generator="of its own"), "", id="a generator"),
        pytest.param(lambda lib: lib.Dataset().train_test_split(0.25), "train_test_split", id="train_test_split"),
        pytest.param(lambda lib: lib.Dataset().train_test_split(0.25, seed=1), "", id="a seed"),
        pytest.param(lambda lib: lib.Dataset().train_test_split(0.25, generator="rng"), "", id="a generator there"),
        pytest.param(lambda lib: lib.Dataset().train_test_split(0.25, None, True, None, 7), "", id="by its place"),
        pytest.param(lambda lib: lib.Dataset().train_test_split(0.25, shuffle=False), "", id="in their order"),
    ],
)  # fmt: skip
def test_a_split_without_a_seed_is_compared(act: Any, name: str, world: World, library: Any) -> None:
    act(library)

    assert [message.key.split("/")[0] for message in world.sent] == [name] * bool(name)
    world.hear()
    assert world.ended == [], "both have the same"
    world.hear(lambda digest: [digest[0] + 1, *digest[1:]])
    assert len(world.ended) == bool(name)
    assert not name or (world.ended[0].value.startswith(f"{name} without a seed at test_data.py:"))


@pytest.mark.parametrize(
    ("options", "rows", "compared"),
    [
        ({}, [["b", "a"], ["c"]], True),
        ({"random_state": 42}, [["b", "a"], ["c"]], False),
        ({"shuffle": False}, [["b", "a"], ["c"]], False),
        ({}, [[object()], ["c"]], False),
    ],
)
def test_a_split_of_lists_is_compared_by_their_first_rows(
    options: Any, rows: Any, compared: bool, world: World
) -> None:
    module = SimpleNamespace(train_test_split=lambda *arrays, **options: rows)
    watch_lists(module)

    assert module.train_test_split(["a", "b", "c"], **options) is rows
    assert bool(world.sent) == compared
    world.hear(lambda digest: [0 for _ in digest])
    assert not compared or "random_state=42" in world.ended[0].remedy


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_shuffle_is_wrong_where_ranks_share_data_by_positions(
    shares: bool, first: bool, world: World, library: Any
) -> None:
    if shares and first:
        library.DistributedSampler(range(16))
    library.Dataset().shuffle()
    world.sent[-1:] and world.sent[-1].deliver([b"[7]"])  # type: ignore[misc]
    if shares and not first:
        library.prepare_data_loader(SimpleNamespace(dataset=range(16)))

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
    rows: int, batches: int, ends: bool, says: bool, world: World, library: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    library.prepare_data_loader(SimpleNamespace(dataset=range(64)))
    world.hear(lambda _: [rows, batches])

    assert bool(world.ended) == ends
    said = str(world.ended[0]) if ends else capsys.readouterr().err
    assert (f"64 on rank 0 and {rows} on rank 1, at test_data.py:" in said) == (ends or says)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda lib: lib.prepare_data_loader(SimpleNamespace(dataset={1: 2}.items)), id="no length"),
        pytest.param(lambda lib: lib.prepare_data_loader(LOADER, dispatch_batches=True), id="rank 0 reads"),
        pytest.param(lambda lib: lib.DistributedSampler(range(9), num_replicas=1), id="no ranks share it"),
        pytest.param(lambda lib: lib.random_split("data", [1]) and None, id="rows that nobody knows"),
    ],
)  # fmt: skip
def test_what_ranks_do_not_share_is_not_compared(act: Any, world: World, library: Any) -> None:
    library.random_split = lambda data, lengths: [object()]
    watch_split(library)
    act(library)

    assert world.sent == []


def test_each_line_has_keys_of_its_own(world: World) -> None:
    for _ in range(2):
        compare("rows", 1, print)
    compare("rows", 1, print)

    keys = [message.key for message in world.sent]
    assert len(set(keys)) == 3 and keys[0][:-1] == keys[1][:-1] != keys[2][:-1]
    assert world.sent[0].ring[:4] == ("pod0", 29500, "multinode/0/2/data", 0)


def test_what_was_found_before_a_group_is_sent_with_the_next(world: World) -> None:
    world.job = None
    compare("rows", 1, print)
    assert world.sent == []
    world.job = JOB
    compare("batches", 2, print)

    assert [message.key.split("/")[0] for message in world.sent] == ["rows", "batches"]


@pytest.mark.parametrize("name", ["off", "is_child"])
def test_who_is_no_rank_of_several_sends_nothing(name: str, world: World) -> None:
    setattr(world, name, True)
    compare("rows", 1, print)

    assert world.sent == []


class Tensor:
    """A tensor of made-up bytes."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    def numpy(self) -> Any:
        return SimpleNamespace(tobytes=lambda: self.text)

    def detach(self) -> Tensor:
        return self

    def reshape(self, _: int) -> Tensor:
        return self

    def __getitem__(self, part: slice) -> Tensor:
        return Tensor(self.text[part])

    def contiguous(self) -> Tensor:
        return self

    def view(self, _: object) -> Tensor:
        return self


class Model:
    """A wrapped model, with hooks."""

    training = True

    def __init__(self, ranks: int = 2) -> None:
        self.process_group = SimpleNamespace(size=lambda: ranks)
        self.hooks: list[Any] = []

    def register_forward_pre_hook(self, hook: Any, *, with_kwargs: bool) -> Any:
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def __call__(self, *words: Any, **options: Any) -> None:
        for hook in [*self.hooks]:
            hook(self, words, options)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(same_data.sys.modules, "torch", SimpleNamespace(uint8=None))  # type: ignore[attr-defined]
    kind = type("DistributedDataParallel", (Model,), {})
    watch_batches(SimpleNamespace(DistributedDataParallel=kind))
    return kind


@pytest.mark.parametrize(
    ("batches", "same", "said"),
    [
        pytest.param([b"a", b"b", b"c", b"d"], True, True, id="the same"),
        pytest.param([b"a", b"b", b"c", b"d"], False, False, id="others"),
        pytest.param([b"a", b"a", b"a"], True, False, id="one batch all the time"),
        pytest.param([b"a", b"b"], True, False, id="too few"),
    ],
)
def test_ranks_that_take_the_same_batches_are_told_of_the_sampler(
    batches: list[bytes], same: bool, said: bool, world: World, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = model()
    for text in batches:
        trained(input_ids=Tensor(text), more=[{"labels": Tensor(b"x")}], length=7)
    world.hear(lambda seen: seen if same else [random.random() for _ in seen])

    line = capsys.readouterr().err
    assert ("the first 3 of rank 0 are those of rank 1" in line and "DistributedSampler" in line) == said
    assert trained.hooks == [] or len(batches) < 3, "later steps pay nothing"


@pytest.mark.parametrize(("training", "ranks"), [(False, 2), (True, 1)], ids=["evaluation", "a group of some ranks"])
def test_other_batches_are_not_looked_at(training: bool, ranks: int, world: World, model: Any) -> None:
    trained = model(ranks)
    trained.training = training
    for _ in range(4):
        trained(Tensor(os.urandom(8)))

    assert world.sent == []


@pytest.mark.parametrize(
    ("others", "rank", "ends", "said"),
    [
        ({1: [16, 2]}, "0", "", ""),
        ({1: [16, 3]}, "0", "", ""),  # other batches of as many rows are meant
        ({1: [17, 2]}, "0", "", "16 on rank 0 and 17 on rank 1, at a.py:1"),
        ({1: [17, 2]}, "2", "", ""),
        ({1: [17, 2], 2: [1800, 3]}, "0", "16 on rank 0 and 1,800 on rank 2, at a.py:1", ""),
        ({1: [15, 1], 2: [18, 2]}, "3", "16 on rank 3 and 15 on rank 1, at a.py:1", ""),
    ],
)
def test_a_rank_with_other_batches_ends_the_job_and_one_with_other_rows_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], others: dict[int, list[int]],
    rank: str, ends: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("RANK", rank)

    same_data.judge_rows([16, 2], "a.py:1", others)

    assert [fault.value for fault in world.ended] == [ends] * bool(ends)
    err = capsys.readouterr().err
    assert said in err and bool(err) is bool(said)
