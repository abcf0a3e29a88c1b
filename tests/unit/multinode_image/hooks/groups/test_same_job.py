"""Two jobs that meet at one port; torch's agent and its stores are made up."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.groups.same_job import KEY, WORDS, compare, watch_agents, watch_rendezvous
from multinode_image.hooks.job import one_job
from multinode_image.hooks.job.place import AGENT

ALPHA, BETA, COPY = (
    "11111111 train.py --corpus alpha",
    "22222222 train.py --corpus beta",
    "33333333 train.py --corpus beta",
)


class Store:
    def __init__(self, there: str = "") -> None:
        self.values = {KEY: there} if there else {}

    def set(self, name: str, text: str) -> None:
        self.values[name] = text

    def wait(self, names: list[str], _: object) -> None:
        if names[0] not in self.values:
            raise RuntimeError("wait timeout after 30000ms")

    def get(self, name: str) -> bytes:
        return self.values[name].encode()


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_job, "TOLD", [])


@pytest.mark.parametrize(
    ("there", "mine", "ends"),
    [
        pytest.param(ALPHA, BETA, True, id="other words"),
        pytest.param(COPY, BETA, True, id="another file of that name"),
        pytest.param(BETA, BETA, False, id="one job"),
        pytest.param("", BETA, False, id="node 0 says nothing"),
        pytest.param(ALPHA, "", False, id="nobody knows what this is"),
    ],
)
def test_a_node_of_another_job_ends(there: str, mine: str, ends: bool) -> None:
    fault = compare(Store(there), 1, 2, {WORDS: mine, "PET_NNODES": "2"})

    assert (fault is not None) == ends
    assert fault is None or "another PET_MASTER_PORT" in fault.remedy
    assert fault is None or ("a file of that name differs" in fault.value) == (there == COPY)


def test_rank_0_says_what_it_was_asked_for_and_one_alone_nothing() -> None:
    store, alone = Store(), Store()
    compare(store, 0, 2, {WORDS: ALPHA})
    compare(alone, 0, 1, {WORDS: ALPHA})

    assert (store.values, alone.values) == ({KEY: ALPHA}, {})


@pytest.mark.parametrize("is_tuple", [False, True], ids=["a value", "a tuple of older releases"])
def test_an_agent_compares_before_it_counts_as_one_that_has_come(
    is_tuple: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WORDS, BETA)
    store, counted = Store(ALPHA), list[str]()

    class Agent:
        def _rendezvous(self, group: Any) -> None:
            group.spec.rdzv_handler.next_rendezvous()
            counted.append("come")

    met: Any = (store, 1, 2) if is_tuple else SimpleNamespace(store=store, rank=1, world_size=2)
    handler = SimpleNamespace(next_rendezvous=lambda: met)
    watch_agents(SimpleNamespace(SimpleElasticAgent=Agent))
    made: Any = Agent()

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(SystemExit):
        made._rendezvous(SimpleNamespace(spec=SimpleNamespace(rdzv_handler=handler)))
    assert counted == [] and handler.next_rendezvous() is met, "the handler is as it was"


@pytest.mark.parametrize(("agent", "ends"), [("", True), ("True", False)])
def test_ranks_compare_where_no_agent_has(agent: str, ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORDS, BETA)
    monkeypatch.setenv(AGENT, agent)
    store = Store(ALPHA)
    module = SimpleNamespace(rendezvous=lambda url: iter([(store, 1, 2)]))
    watch_rendezvous(module)

    if ends:
        with pytest.raises(SystemExit):
            next(module.rendezvous("env://"))
    else:
        assert next(module.rendezvous("env://")) == (store, 1, 2)
