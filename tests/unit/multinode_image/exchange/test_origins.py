"""Which gradients come from computing in bfloat16, and what ranks agree on; torch is made up."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.torch_exchange import (
    BF16,
    FLOAT,
    HALF,
    OTHER,
    BackwardCFunction,
    Flags,
    Torch,
    Weight,
    bucket,
    loaded,
)  # fmt: skip

LOW = (BF16,)


@pytest.fixture
def torch() -> Torch:
    return Torch()


@pytest.fixture
def modules(torch: Torch) -> Iterator[SimpleNamespace]:
    with loaded(torch) as modules:
        yield modules


# Which gradients come from bfloat16.


class Node:
    """A node of a graph that takes gradients of these types, and hands on to others."""

    def __init__(self, *following: Any, types: Sequence[str] = (FLOAT,), name: str = "", variable: Any = None) -> None:
        self.next_functions = [one if isinstance(one, tuple) else (one, 0) for one in following]
        self._input_metadata = [SimpleNamespace(dtype=one) for one in types]
        self.called = name
        if variable is not None:
            self.variable = variable

    def name(self) -> str:
        return self.called


class Python(Node, BackwardCFunction):
    """A function of Python."""


def leaf(name: object, **more: Any) -> Node:
    return Node(variable=name, **more)


A, B = leaf("a"), leaf("b")
OLD = leaf("old")
del OLD._input_metadata
GRAPHS = {
    "nothing": (None, [], []),
    "float32": (Node(A, Node(B)), ["b", "a"], ["b", "a"]),
    "bfloat16": (Node(Node(A, types=LOW), Node(B, types=LOW)), [], []),
    "bfloat16 at once": (Node(A, types=LOW), [], []),
    "bfloat16 on one of two ways": (Node(Node(A, types=LOW), Node(A), B), ["b", "a"], ["b", "a"]),
    "bfloat16 on the way that is looked at first": (Node(B, Node(A, types=LOW), None), ["b"], ["b"]),
    "two ways": (Node(Node(A), Node(A)), ["a"], ["a"]),
    "a place among several": (Node((Node(A, types=(FLOAT, BF16)), 1), (Node(B, types=(BF16, FLOAT)), 1)), ["b"], ["b"]),
    "another type": (Node(A, types=(HALF,)), ["a"], ["a"]),
    "no type": (Node((A, 1)), ["a"], ["a"]),
    "a function of Python": (Node(Python(A), B), ["b"], None),
    "one in bfloat16": (Node(Python(A, types=LOW), B), ["b"], ["b"]),
    "an older torch": (Node(OLD, B), ["b"], None),
    "what DDP puts between": (Node((Node(A, B, types=(FLOAT, FLOAT), name="_DDPSinkBackward"), 1)), ["b"], ["b"]),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("uniform", [True, False])
def test_a_gradient_is_kept_where_a_path_has_no_bfloat16(modules: Any, graph: str, uniform: bool) -> None:
    node, *expected = GRAPHS[graph]
    tensors = [SimpleNamespace(grad_fn=node, output_nr=0)]

    kept = modules.origins.find_kept(tensors, uniform)

    assert kept == expected[not uniform]


@pytest.mark.parametrize(
    ("entered", "autocast", "uniform"),
    [([BF16], None, True), ([BF16, None], BF16, False), ([HALF], BF16, False), ([], BF16, True), ([], None, False),
     ([], HALF, False)],
)  # fmt: skip
def test_a_pass_is_uniform_where_all_that_was_entered_is_bfloat16(
    modules: Any, torch: Torch, entered: list[Any], autocast: Any, uniform: bool
) -> None:
    torch.autocast = autocast

    assert modules.origins.is_uniform(entered) is uniform


def test_autocast_is_asked_as_torch_before_2_4_has_it(modules: Any, torch: Torch) -> None:
    def takes_nothing() -> bool:
        raise AssertionError

    vars(torch).update(is_autocast_enabled=takes_nothing, get_autocast_cpu_dtype=lambda: BF16)
    for enabled, expected in ((True, BF16), (False, None)):
        vars(torch)["is_autocast_cpu_enabled"] = lambda enabled=enabled: enabled
        assert modules.origins.read_autocast() == expected


@pytest.mark.parametrize(
    ("in_bf16", "tensors", "unknown", "kept"),
    [
        (True, lambda weight: SimpleNamespace(grad_fn=Node(leaf(weight)), output_nr=0), False, True),
        (True, lambda weight: (SimpleNamespace(grad_fn=Node(leaf(weight)), output_nr=0),), False, True),
        (True, lambda weight: SimpleNamespace(grad_fn=Node(leaf(weight), types=LOW), output_nr=0), False, False),
        (True, lambda weight: SimpleNamespace(grad_fn=Python(leaf(weight)), output_nr=0), True, False),
        (True, lambda weight: SimpleNamespace(), True, False),
        (False, lambda weight: SimpleNamespace(grad_fn=Node(leaf(weight)), output_nr=0), True, False),
    ],
)
def test_what_is_known_of_a_pass(modules: Any, in_bf16: bool, tensors: Any, unknown: bool, kept: bool) -> None:
    origins, weight = modules.origins.Origins(), Weight()
    origins.passes = 4

    origins.begin(tensors(weight), in_bf16, [])
    assert (origins.passes, origins.within, origins.unknown) == (5, True, 5 if unknown else 0)
    assert origins.is_kept(id(weight)) is kept and not origins.is_kept(7)
    origins.end()
    assert not origins.within
    origins.forget([id(weight), 7])
    assert not origins.is_kept(id(weight))


def test_a_parameter_that_is_gone_has_left_its_id_to_another(modules: Any) -> None:
    origins, weight = modules.origins.Origins(), Weight()
    origins.begin(SimpleNamespace(grad_fn=leaf(weight), output_nr=0), True, [])
    identity = id(weight)
    assert origins.is_kept(identity)

    del weight
    gc.collect()
    assert not origins.is_kept(identity)


def test_ranks_send_what_the_last_pass_allows_and_keep_what_this_one_does_not(modules: Any, torch: Torch) -> None:
    origins, one, two = modules.origins.Origins(), Weight(), Weight()
    ids, torch.others = [id(one), id(two)], [Flags([1, 1])]
    agreement = modules.origins.Agreement(ids, origins)

    def exchange(*kept: Weight, in_bf16: bool = True, joined: bool = False, within: bool = True) -> list[Any]:
        if within:
            start = Node(*(leaf(weight) for weight in kept)) if kept else Node(types=LOW)
            origins.begin(SimpleNamespace(grad_fn=start, output_nr=0), in_bf16, [])
        agreement.ask(None, joined=joined)
        told = [[agreement.expects([identity]) for identity in ids], [agreement.holds([identity]) for identity in ids]]
        assert agreement.work.waited == 1
        origins.end()
        return [*told, agreement.conclude()]

    yes, no = [True, True], [False, False]
    assert exchange() == [no, yes, True]  # the first pass
    assert exchange() == [yes, yes, True]
    assert not agreement.holds([7]) and agreement.holds([]) and not agreement.expects([id(one), 7])
    assert exchange(two) == [yes, [True, False], True]
    assert exchange() == [[True, False], yes, True]  # what was kept has been exchanged
    assert exchange(in_bf16=False) == [yes, no, False]
    origins.begin(None, False, [])  # a pass without an exchange, of which nothing is known
    assert exchange() == [no, no, False]
    assert exchange() == [no, yes, True]
    assert exchange(within=False) == [yes, no, False]
    assert exchange(within=False, joined=True) == [no, yes, True]
    torch.others = [Flags([0, 1])]
    assert exchange(joined=True) == [yes, [False, True], True]


@pytest.mark.parametrize(("within", "expects"), [(True, False), (False, True)])
def test_a_pass_that_goes_on_where_ranks_begin_to_agree_counts(modules: Any, within: bool, expects: bool) -> None:
    origins, weight = modules.origins.Origins(), Weight()
    origins.begin(None, False, [])
    origins.within = within
    agreement = modules.origins.Agreement([id(weight)], origins)
    origins.within = True
    agreement.ask(None, joined=False)

    assert agreement.holds([id(weight)]) is expects


@pytest.mark.parametrize("in_bf16", [True, False])
def test_what_was_chosen_counts_for_all_gradients(modules: Any, in_bf16: bool) -> None:
    fixed = modules.origins.Fixed(in_bf16)
    fixed.ask(None, joined=False)

    assert [fixed.expects([1]), fixed.holds([1]), fixed.conclude()] == [in_bf16] * 3


@pytest.mark.parametrize(
    ("changes", "starts"),
    [
        ({}, [0, 3]),
        ({"is_sparse": True}, None),
        ({"dtype": OTHER}, None),
        ({"dtype": HALF}, [0, 3]),
        ({"count": 9}, None),
        ({"parameters": []}, None),
        ({"at": 8}, None),
        ({"shape": (7,)}, None),
        ({"type": HALF}, None),
    ],
)
def test_a_bucket_is_understood_where_its_gradients_are_all_of_it(
    modules: Any, changes: dict[str, Any], starts: list[int] | None
) -> None:
    given = bucket(3, 0, 5)
    buffer, gradients = given.buffer(), given.gradients()
    gradients[1].at = 999
    for name in ("is_sparse", "dtype", "count"):
        setattr(buffer, name, changes.get(name, getattr(buffer, name)))
    gradients[2].at = changes.get("at", gradients[2].at)
    gradients[2].shape = changes.get("shape", gradients[2].shape)
    gradients[2].dtype = changes.get("type", gradients[2].dtype)
    if "parameters" in changes:
        given.parameters = lambda: given.gradients()[:2]

    pieces = modules.origins.list_pieces(given)

    assert (pieces and [piece.start for piece in pieces]) == starts
    assert pieces is None or [piece.end for piece in pieces] == [3, 8]
