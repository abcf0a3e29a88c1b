"""Which parts of a bucket are sent how, in which order, and who has chosen it; torch is made up."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.step.gradients import Seen
from multinode_image.tuning.gradients import VARIABLE
from tests.support.torch_exchange import BF16, FLOAT, HALF, Flags, Torch, Weight, bucket, loaded


@pytest.fixture
def torch() -> Torch:
    return Torch()


@pytest.fixture
def modules(torch: Torch) -> Iterator[SimpleNamespace]:
    with loaded(torch) as modules:
        yield modules


class Module:
    """A module of torch with these weights of its own."""

    def __init__(self, *weights: Weight, parts: tuple[Module, ...] = (), **fields: Any) -> None:
        self.weights, self.parts = weights, parts
        vars(self).update(fields)

    def modules(self) -> list[Module]:
        return [self, *(inner for part in self.parts for inner in part.modules())]

    def parameters(self, recurse: bool = True) -> Iterator[Weight]:
        return iter([weight for part in (self.modules() if recurse else [self]) for weight in part.weights])


class Parallel(Module):
    """A DistributedDataParallel."""

    reducer: Any

    def __init__(self, module: Module, **fields: Any) -> None:
        super().__init__(parts=(module,), module=module, process_group="group", reducer=Module(), **fields)
        self._join_config = SimpleNamespace(enable=False)


LARGE = 1 << 20  # numbers, of four bytes


def test_large_embeddings_are_sent_by_their_rows(modules: Any) -> None:
    table, small, tied, vector, sparse = (
        Weight(LARGE),
        Weight(LARGE - 1),
        Weight(LARGE),
        Weight(LARGE, dims=1),
        Weight(LARGE),
    )
    plain = Weight(LARGE)
    embeddings = [Module(weight, num_embeddings=9) for weight in (table, small, tied, vector)]
    model = Module(parts=(*embeddings, Module(sparse, num_embeddings=9, sparse=True), Module(plain, tied)))

    assert modules.hook.find_tables(model) == {id(table)}
    assert modules.hook.list_ids(model) == [*map(id, (table, small, tied, vector, sparse, plain, tied))]


def record(log: list[str], name: str, *yields: bool) -> Iterator[bool]:
    """Return a transfer that says when it goes on."""
    for number, more in enumerate(yields):
        log.append(f"{name}{number}")
        yield more
    log.append(f"{name} is there")


@pytest.mark.parametrize("choice", ["", "float32"])
def test_a_bucket_goes_on_when_two_others_have_come_and_all_at_the_last_one(
    modules: Any, torch: Torch, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    hook, log, seen = modules.hook, list[str](), Seen()
    now = iter(range(100))
    monkeypatch.setattr(hook.time, "perf_counter", lambda: next(now))
    parallel = Parallel(Module(Weight()))
    exchange = hook.Exchange(parallel, choice, seen)
    monkeypatch.setattr(
        exchange,
        "list_transfers",
        lambda given: [record(log, f"{given.index()}", True, False), record(log, "x", False)],
    )
    futures = [exchange(None, bucket(4, number=number, last=number == 3)) for number in range(4)]

    assert log == [
        "00", "x0", "10", "x0", "20", "x0", "01", "30", "x0", "11",
        "0 is there", "x is there", "1 is there", "x is there", "21", "x is there", "31", "x is there",
        "2 is there", "3 is there",
    ]  # fmt: skip
    assert [future.result.numel() for future in futures] == [4] * 4 and exchange.total_bytes == 64
    assert (exchange.steps, seen.waited, seen.sent) == (1, 1, "float32")
    assert (exchange.in_progress, exchange.futures) == ([], [])


@pytest.mark.parametrize(("rank", "steps", "said"), [(0, 3, 1), (0, 2, 0), (0, 4, 1), (1, 3, 0)])
def test_what_is_sent_is_said_once_by_rank_0(
    modules: Any, torch: Torch, monkeypatch: pytest.MonkeyPatch, rank: int, steps: int, said: int
) -> None:
    notes, torch.rank, torch.size = list[tuple[Any, ...]](), rank, 4

    def describe(*given: Any) -> str:
        notes.append(given)
        return "said"

    monkeypatch.setattr(modules.hook, "describe_sent", describe)
    monkeypatch.setattr(modules.hook, "print_note", lambda text: notes.append((text,)))
    parallel = Parallel(Module(Weight()))
    exchange = modules.hook.Exchange(parallel, "bf16", Seen())
    monkeypatch.setattr(exchange, "list_transfers", lambda _: [])

    for _ in range(steps):
        exchange(None, bucket(4, number=0))
        exchange(None, bucket(6, number=1, last=True))

    assert notes == [("bf16", 0, 0, 2 * 3 * 40 // 4), ("said",)] * said


def test_a_pass_that_failed_leaves_nothing_and_an_uneven_end_is_refused(modules: Any, torch: Torch) -> None:
    parallel = Parallel(Module(Weight()))
    exchange = modules.hook.Exchange(parallel, "float32", Seen())
    exchange.in_progress, exchange.futures, exchange.total_bytes = [[]], [()], 9
    exchange.begin()
    assert (exchange.in_progress, exchange.futures, exchange.total_bytes) == ([], [], 0)

    parallel._join_config.enable = True
    exchange.begin()
    vars(parallel)["_divide_by_initial_world_size"] = False
    with pytest.raises(RuntimeError, match="divide_by_initial_world_size=False"):
        exchange.begin()
    parallel._join_config.enable = False
    exchange.begin()


def test_parts_of_a_bucket_are_the_embeddings_and_all_between_them(
    modules: Any, torch: Torch, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = modules.hook.Exchange(Parallel(Module()), "float32", Seen())
    exchange.ranks = None
    given = bucket(1, 2, 3, 4, 5, 6)
    parameters = given.parameters()
    exchange.tables = {id(parameters[place]) for place in (1, 4, 5)}
    given.gradients()[4].in_one_piece = False  # as a channels-last view has it
    monkeypatch.setattr(exchange, "send", lambda _, pieces: [piece.gradient.count for piece in pieces])
    monkeypatch.setattr(exchange, "send_rows", lambda _, piece: piece.gradient.count)
    monkeypatch.setattr(modules.hook, "average", lambda part, _: f"all {part.count}")

    assert [*exchange.list_transfers(given)] == [[1], 2, [3, 4, 5], 6]
    monkeypatch.setattr(exchange.agreement, "expects", lambda ids: ids == [id(parameters[3])])
    assert [*exchange.list_transfers(given)] == [[1], 2, [3], [4], [5], 6]
    given.parameters = lambda: parameters[:2]
    assert [*exchange.list_transfers(given)] == ["all 21"]


@pytest.mark.parametrize(
    ("choice", "steps", "size", "dtype", "sent"),
    [
        ("float32", 0, 2, FLOAT, "average"),
        ("bf16", 0, 2, FLOAT, "low (5,)"),
        ("bf16", 0, 7, FLOAT, "low (5,)"),
        ("bf16", 0, 8, FLOAT, "shares (2, 8, 1)"),
        ("bf16", 0, 2, HALF, "average"),
        ("int8", 0, 2, FLOAT, "average"),
        ("int8", 1, 2, FLOAT, "eight 5 of 2"),
        ("int8", 1, 2, HALF, "average"),
        ("", 0, 2, FLOAT, "average"),
    ],
)
def test_gradients_are_sent_as_it_was_chosen(
    modules: Any,
    torch: Torch,
    monkeypatch: pytest.MonkeyPatch,
    choice: str,
    steps: int,
    size: int,
    dtype: str,
    sent: str,
) -> None:
    hook, torch.size = modules.hook, size
    exchange = hook.Exchange(Parallel(Module()), choice, Seen())
    exchange.steps, exchange.ranks = steps, modules.codecs.Ranks("group")
    monkeypatch.setattr(hook, "average", lambda part, _: ("average", part.at))
    monkeypatch.setattr(hook, "average_low", lambda part, _, scratch, holds: (f"low {scratch[1]}", part.at, holds()))
    monkeypatch.setattr(
        hook, "average_shares", lambda part, _, scratch, holds: (f"shares {scratch[1]}", part.at, holds())
    )
    monkeypatch.setattr(modules.codecs, "Memory", lambda length, ranks: f"{length} of {ranks}")
    monkeypatch.setattr(modules.codecs, "average_eight_bits", lambda part, _, memory: (f"eight {memory}", part.at))
    given = bucket(3, 1, 4)
    given.buffer().dtype = dtype
    pieces = [modules.origins.Piece(3, Weight(1), Weight(1)), modules.origins.Piece(4, Weight(4), Weight(4))]

    name, at, *holds = exchange.send(given, pieces)

    assert (name, at, holds) == (sent, 12, [True] * (choice == "bf16" and dtype == FLOAT))
    if sent.startswith("low"):
        assert exchange.send(given, pieces)[0] == sent and len(exchange.memories) == 1
        assert exchange.send(given, pieces[1:])[0] == "low (4,)" and len(exchange.memories) == 2
        made = [exchange.recall((0, 3, shape), lambda shape=shape: [shape]) for shape in (5, 5, 6)]
        assert made[0] is made[1] == [5] and made[2] == [6]


@pytest.mark.parametrize(
    ("dtype", "in_bf16", "sent"), [(FLOAT, True, BF16), (FLOAT, False, FLOAT), (HALF, True, HALF), (HALF, False, HALF)]
)
def test_rows_of_an_embedding_are_sent_in_a_type(
    modules: Any, torch: Torch, monkeypatch: pytest.MonkeyPatch, dtype: str, in_bf16: bool, sent: str
) -> None:
    exchange = modules.hook.Exchange(Parallel(Module()), "bf16", Seen())
    exchange.ranks = None
    monkeypatch.setattr(exchange, "send", lambda _, pieces: pieces)
    monkeypatch.setattr(exchange.agreement, "expects", lambda _: in_bf16)
    monkeypatch.setattr(exchange.agreement, "holds", lambda _: False)
    monkeypatch.setattr(modules.hook, "average_rows", lambda *given: given)
    piece = modules.origins.Piece(0, Weight(4, dtype), Weight(4))

    table, _, kind, otherwise, holds = exchange.send_rows(None, piece)

    assert (table, kind, otherwise()) == (("rows", piece.gradient), sent, [piece])
    assert holds() is (sent != BF16)  # what goes as it is holds in any case


def test_waiting_is_counted_once_for_each_pass(modules: Any, torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    queued, passes, now = list[Any](), iter([1, 1, 2, 2]), iter([1.0, 3.5, 10.0, 11.0])
    current = [0]
    engine = SimpleNamespace(queue_callback=queued.append)
    vars(torch)["autograd"] = SimpleNamespace(Variable=SimpleNamespace(_execution_engine=engine))
    monkeypatch.setattr(modules.hook.time, "perf_counter", lambda: next(now))
    frozen, one, two = Weight(), Weight(), Weight()
    frozen.requires_grad = False
    parallel, seen = Parallel(Module(frozen, one, two)), Seen()

    modules.hook.count_waiting(parallel, seen)
    assert not one.hooks  # of a torch that does not tell passes apart
    vars(torch)["_C"] = SimpleNamespace(_current_graph_task_id=lambda: current[0])
    modules.hook.count_waiting(parallel, seen)
    assert [len(weight.hooks) for weight in (frozen, one, two)] == [0, 1, 1]
    for current[0] in passes:
        for weight in (one, two):
            weight.hooks[0](None)
        while queued:
            queued.pop(0)()
    assert seen.waited == 2.5 + 1.0


# Who has chosen it.


@pytest.mark.parametrize(
    ("value", "others", "fields", "chosen"),
    [
        ("", [""], {}, ""),
        (" bf16 ", ["bf16"], {}, "bf16"),
        ("bf16", ["int8"], {}, f"{VARIABLE}=bf16 on rank 0, {VARIABLE}=int8 on rank 1"),
        ("", ["bf16"], {}, f"{VARIABLE}=(not set) on rank 0, {VARIABLE}=bf16 on rank 1"),
        ("", ["", "bf16", "bf16"], {}, f"{VARIABLE}=(not set) on rank 0, {VARIABLE}=bf16 on rank 2"),
        ("gzip", ["gzip"], {}, "gzip"),
        ("bf16", [""], {"size": 1}, None),
        ("bf16", ["bf16"], {"device": "cuda"}, None),
        ("bf16", ["bf16"], {"reducer": None}, None),
        ("bf16", ["bf16"], {"old": True}, "off"),
    ],
)
def test_what_was_chosen_is_one_thing_on_all_ranks(
    modules: Any, torch: Torch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str,
    others: list[str], fields: dict[str, Any], chosen: str | None,
) -> None:  # fmt: skip
    choice = modules.choice
    torch.size, torch.others = fields.get("size", 1 + len(others)), [Flags(text.encode().ljust(32)) for text in others]
    monkeypatch.setenv(VARIABLE, value)
    weight = Weight()
    weight.device.type = fields.get("device", "cpu")
    parallel = Parallel(Module(weight))
    if "reducer" in fields:
        del parallel.reducer
    if "old" in fields:
        torch.GradBucket = SimpleNamespace()

    if chosen not in (None, "", "bf16", "off"):
        with pytest.raises(SystemExit) as ended:
            choice.choose(parallel)
        assert ended.value.code == 2 and str(chosen) in capsys.readouterr().err
        return
    choice.choose(parallel)
    assert choice.CHOSEN.get(parallel) == chosen


def theirs() -> None:
    """Be a hook of the script's."""


@pytest.mark.parametrize(
    ("choice", "fields", "sent", "registers", "counts", "said"),
    [
        ("bf16", {}, "", True, False, ""),
        ("", {}, "", True, False, ""),
        ("off", {}, "off", False, True, ""),
        ("bf16", {"_comm_hooks": [(theirs, None)]}, "own", False, True, "theirs"),
        ("off", {"_comm_hooks": [(theirs, None)]}, "own", False, True, ""),
        ("bf16", {"taken": True}, "own", False, True, "torch's"),
        ("bf16", {"_use_python_reducer": True}, "", False, False, ""),
        (None, {}, "", False, False, ""),
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_our_hook_is_registered_unless_the_script_has_one_or_wants_none(
    modules: Any, torch: Torch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], choice: str | None,
    fields: dict[str, Any], sent: str, registers: bool, counts: bool, said: str, rank: int,
) -> None:  # fmt: skip
    counted, seen, torch.rank = list[Any](), Seen(), rank
    parallel = Parallel(Module(Weight()), **{name: value for name, value in fields.items() if name != "taken"})
    vars(parallel.reducer)["taken"] = fields.get("taken", False)
    monkeypatch.setattr(modules.choice, "count_waiting", lambda *given: counted.append(given))
    if choice is not None:
        modules.choice.CHOSEN[parallel] = choice

    modules.choice.attach(parallel, seen)

    assert (seen.sent, bool(torch.registered), len(counted)) == (sent, registers, counts)
    assert (parallel.reducer in modules.choice.HOOKS) is registers and parallel not in modules.choice.CHOSEN
    err = capsys.readouterr().err
    assert (f"has registered, {said}" in err) if said and rank == 0 else not err


@pytest.mark.parametrize(("by_all", "choice", "sent"), [(True, "bf16", ""), (False, "bf16", "off"), (False, None, "")])
def test_ranks_that_run_out_of_batches_leave_it_to_ddp_where_gradients_are_not_those_of_all(
    modules: Any, torch: Torch, by_all: bool, choice: str | None, sent: str
) -> None:
    parallel, seen = Parallel(Module(Weight())), Seen()
    if choice:
        modules.choice.CHOSEN[parallel] = choice

    modules.choice.attach_to_join(parallel, seen, by_all)

    assert (seen.sent, len(torch.registered)) == (sent, bool(choice and by_all))


@pytest.mark.parametrize(
    ("words", "gives_way", "said"),
    [
        (("state", lambda state, given: (state, given)), True, "lambda"),
        ((SimpleNamespace(name="BF16_COMPRESS"),), True, "torch's"),
        ((SimpleNamespace(name="ALLREDUCE"),), False, ""),
    ],
)
def test_a_hook_that_the_script_registers_takes_the_place_of_ours(
    modules: Any, torch: Torch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: tuple[Any, ...], gives_way: bool, said: str,
) -> None:  # fmt: skip
    built_in = SimpleNamespace(bf16_compress_hook=lambda state, given: (state, given))
    monkeypatch.setattr(modules.choice.importlib, "import_module", lambda _: built_in)
    parallel, seen = Parallel(Module(Weight())), Seen()
    assert not modules.choice.give_way(parallel.reducer, seen, *words)  # it has none of ours
    modules.choice.CHOSEN[parallel] = "float32"
    modules.choice.attach(parallel, seen)

    assert modules.choice.give_way(parallel.reducer, seen, *words) is gives_way
    assert said in capsys.readouterr().err and seen.sent == ("own" if gives_way else "")
    if gives_way:
        exchange = torch.registered[0][2]
        assert exchange(None, "bucket") == ("state" if len(words) == 2 else "group", "bucket")
        assert not modules.choice.give_way(parallel.reducer, seen, *words)  # torch refuses a third
