"""What an agent of torchrun says and refuses by the configuration that torchrun has read."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from multinode_image.errors import Refusal
from multinode_image.hooks.ends import agents
from multinode_image.hooks.ends.options import TORCHRUN, describe_master, tell
from multinode_image.hooks.ends.ranks import Ranks, TorchrunConfig, hand_on
from multinode_image.settings import PLANNED, TRAINING
from tests.support.starts import SMOKE, make_facts, make_plan


def config(nodes: tuple[int, int] = (2, 2), backend: str = "c10d") -> Any:
    least, most = nodes
    return SimpleNamespace(
        min_nodes=least, max_nodes=most, rdzv_backend=backend, rdzv_endpoint="node_0:29400", run_id="18233"
    )


def leave(code: int) -> None:
    """Stand for the end of a process."""
    raise SystemExit(code)


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (config(), "--nnodes 2, --rdzv_endpoint node_0:29400, --rdzv_id 18233"),
        (config((1, 4)), "--nnodes 1:4, --rdzv_endpoint node_0:29400, --rdzv_id 18233"),
        (config(backend="static"), "--nnodes 2, --master_addr and --master_port node_0:29400, and another --node_rank"),
    ],
)
def test_an_agent_names_what_all_nodes_need(given: Any, same: str) -> None:
    assert f"All need the same {same}" in agents.describe_wait(given)


@pytest.mark.parametrize(("met", "said"), [([], True), ([2], False)])
def test_an_agent_that_has_met_nobody_says_what_it_waits_for(
    met: list[int], said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(agents, "MET", met)

    agents.remind_later("All need the same", seconds=0).join(60)

    assert ("All need the same" in capsys.readouterr().err) is said


@pytest.mark.parametrize(
    ("is_torchrun", "nodes", "environ", "ends"),
    [
        (True, (1, 1), {"PMI_SIZE": "2"}, True),
        (True, (1, 1), {"PET_NNODES": "2"}, True),
        (True, (2, 2), {"PET_NNODES": "2"}, False),
        (False, (1, 1), {"PET_NNODES": "2"}, False),  # a rank that starts processes of its own (meeting.py)
    ],
)
def test_an_agent_that_would_train_by_itself_is_ended_before_it_starts(
    is_torchrun: bool, nodes: tuple[int, int], environ: dict[str, str], ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PMI_SIZE", "PET_NNODES", "MULTINODE_APART", "MULTINODE_MEMBER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**environ, TRAINING: "7"}.items():
        monkeypatch.setenv(name, value)
    if is_torchrun:
        monkeypatch.setitem(sys.modules, TORCHRUN, ModuleType(TORCHRUN))
    module = SimpleNamespace(launch_agent=lambda config, *words, **options: (config.max_nodes, words, options))

    monkeypatch.setattr("os._exit", leave)
    agents.watch_launch(module)
    if ends:
        with pytest.raises(SystemExit):
            module.launch_agent(config(nodes), "python3", ["train.py"])
    else:
        launched = module.launch_agent(config(nodes), "python3", ["train.py"], health=1)
        assert launched == (nodes[1], ("python3", ["train.py"]), {"health": 1})
        assert os.environ[TRAINING] == ("on" if is_torchrun else "7")


@pytest.mark.parametrize(
    ("training", "more", "asked"),
    [
        ("on", {}, True),
        ("its own number", {}, True),  # a pod has the variables of a rank
        ("on", {PLANNED: "1"}, False),  # the entrypoint has started it with all that was decided
        ("7", {}, False),  # a rank that starts a torchrun of its own
    ],
)
def test_a_typed_torchrun_is_asked_once_it_has_read_its_options(
    training: str, more: dict[str, str], asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = str(os.getpid()) if training == "its own number" else training
    given = config()
    given.rdzv_configs, given.nproc_per_node, given.max_restarts = {"timeout": 900}, 8, 0
    options = {"PET_RDZV_ID": "mine", "PET_LOCAL_ADDR": "10.0.0.2", "PET_RDZV_CONF": "is_host=true"}
    plans: list[TorchrunConfig] = []

    def plan(parsed: TorchrunConfig, environ: Mapping[str, str]) -> Ranks:
        plans.append(parsed)
        return Ranks({TRAINING: environ[TRAINING], "OMP_NUM_THREADS": "2"}, "/opt/multinode/rank", ["x.py"], 2, options)

    monkeypatch.setattr(agents, "plan_ranks", plan)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setitem(sys.modules, TORCHRUN, ModuleType(TORCHRUN))
    module = SimpleNamespace(launch_agent=lambda config, program, words: ([program, *words], dict(os.environ)))
    agents.watch_launch(module)
    with mock.patch.dict(os.environ, {TRAINING: training, "OMP_NUM_THREADS": "8", **more}, clear=True):
        started, environ = module.launch_agent(given, "python3", ["-u", "train.py"])
        after = dict(os.environ)

    # The script that has called it goes on with its variables.
    assert after == {TRAINING: "on", "OMP_NUM_THREADS": "8", **more}
    if not asked:
        assert (started, plans, given.nproc_per_node) == (["python3", "-u", "train.py"], [], 8)
        assert environ == {TRAINING: "on", "OMP_NUM_THREADS": "8"}
        return
    described = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "8", "PET_RDZV_ID": "18233", "PET_RDZV_BACKEND": "c10d",
                 "PET_RDZV_ENDPOINT": "node_0:29400"}  # fmt: skip
    assert plans == [TorchrunConfig(described, "python3", ["-u", "train.py"])]
    assert (started, environ) == (["/opt/multinode/rank", "x.py"], {TRAINING: "on", "OMP_NUM_THREADS": "2"})
    assert (given.nproc_per_node, given.run_id, given.local_addr) == (2, "mine", "10.0.0.2")
    assert given.rdzv_configs == {"timeout": 900, "is_host": "true"}


@pytest.mark.parametrize(
    ("is_its_own", "training", "asked"),
    [(True, "on", [(sys.executable, ["train.py", "--seed", "1"])]), (False, "on", []), (True, "7", [])],
)
def test_a_function_is_planned_if_it_is_that_of_run_path(
    is_its_own: bool, training: str, asked: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    torchrun, plans = ModuleType(TORCHRUN), list[tuple[str, list[str]]]()
    monkeypatch.setattr(torchrun, "run_script_path", print, raising=False)
    monkeypatch.setitem(sys.modules, TORCHRUN, torchrun)
    monkeypatch.setattr(agents, "plan_and_tell", lambda config, program, words: plans.append((program, words)))
    monkeypatch.setenv(TRAINING, training)
    monkeypatch.delenv(PLANNED, raising=False)
    program = print if is_its_own else str  # of a notebook
    given = config()

    assert agents.prepare_agent(given, program, ["train.py", "--seed", "1"])[0] is program
    assert plans == asked


def test_ranks_get_what_is_planned_and_torchrun_what_it_has_not_read() -> None:
    environ = {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "auto", "PET_MASTER_ADDR": "m", "A": "1"}
    described = {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "auto"}

    ranks = hand_on(TorchrunConfig(described, "python3", ["x.py"]), make_plan(SMOKE, make_facts(environ)), environ)

    assert ranks._replace(environ={}) == Ranks({}, "python3", ["x.py"], 2, {"PET_MASTER_ADDR": "m"})
    assert {**environ, "OMP_NUM_THREADS": "28", PLANNED: "1"}.items() <= ranks.environ.items()


@pytest.mark.parametrize(
    ("nodes", "typed", "index", "node"),
    [
        ((2, 2), None, "1", "1"),
        ((2, 2), 0, "1", "0"),
        ((2, 2), None, "", "0"),
        ((1, 1), None, "1", "0"),  # it trains alone
        ((1, 1), 2, "1", "2"),
    ],
)
def test_a_pod_of_an_indexed_job_has_its_number_where_none_is_typed(
    nodes: tuple[int, int], typed: int | None, index: str, node: str
) -> None:
    given = config(nodes, "static")
    given.rdzv_endpoint, given.rdzv_configs = "m:7", {"rank": typed or 0}
    options = SimpleNamespace(master_addr="m", rdzv_endpoint="", node_rank=typed)

    described = describe_master(given, options, {"JOB_COMPLETION_INDEX": index})
    tell(given, Ranks({}, "python3", [], 2, {}), described["PET_NODE_RANK"])

    assert described == {"PET_MASTER_ADDR": "m", "PET_MASTER_PORT": "7", "PET_NODE_RANK": node}
    assert given.rdzv_configs == {"rank": int(node)}


@pytest.mark.parametrize(
    ("typed", "error", "ends"),
    [
        ("torchrun", Refusal("a fact", "a value", "a remedy"), 2), ("train.py", Refusal("a", "b", "c", 1), 1),
        ("torchrun", KeyboardInterrupt(), 130), ("train.py", KeyboardInterrupt(), None),
    ],
)  # fmt: skip
def test_what_is_refused_before_ranks_start_ends_torchrun_without_a_traceback(
    typed: str, error: BaseException, ends: int | None, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A script that calls torchrun has a key as ever."""
    monkeypatch.setattr("os._exit", leave)
    monkeypatch.setattr(sys, "argv", [typed])
    monkeypatch.setattr(agents, "ask_parser", lambda: None)
    monkeypatch.setattr(agents, "describe", lambda *_: {})
    monkeypatch.setattr(agents, "plan_ranks", mock.Mock(side_effect=error))
    with pytest.raises(KeyboardInterrupt if ends is None else SystemExit) as ended:
        agents.plan_and_tell(config(), "python3", ["train.py"])

    assert ends is None or (isinstance(ended.value, SystemExit) and ended.value.code == ends)
    assert capsys.readouterr().err == (f"{error}\n" if isinstance(error, Refusal) else "")


def count_all(text: str) -> int:
    return 56 if text == "auto" else int(text)


@pytest.mark.parametrize("name", ["determine_local_world_size", "parse_min_max_nnodes"])
@pytest.mark.parametrize(("text", "count"), [("gpu", 56), ("AUTO", 56), ("", 56), ("4", 4), ("four", None)])
def test_a_number_that_torchrun_cannot_read_is_said_in_words(
    text: str, count: int | None, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os._exit", leave)
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/torchrun"])
    module = SimpleNamespace(determine_local_world_size=count_all, parse_min_max_nnodes=count_all)
    agents.watch_numbers(module)
    read = getattr(module, name)
    if count is not None:
        assert read(text) == count
        return
    with pytest.raises(SystemExit) as ended:
        read(text)
    assert (ended.value.code, f": {text!r}\n" in capsys.readouterr().err) == (2, True)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    with pytest.raises(ValueError, match=text):  # a script has torchrun's own error
        read(text)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"num_processes": 2, "num_machines": 1}, "--num_processes 2"),
        ({"num_processes": 4, "num_machines": 2}, "--num_processes 4 --num_machines 2"),
        ({"num_processes": 1, "num_machines": 3}, "--num_machines 3"),
        ({"num_processes": 1, "num_machines": 1}, ""),
        ({"num_processes": 0, "num_machines": None}, ""),
        ({"num_processes": 2, "mpirun_hostfile": "hosts"}, ""),
        ({}, ""),  # of another release
    ],
)
def test_accelerate_starts_one_process_on_a_cpu(
    args: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = SimpleNamespace(simple_launcher=lambda given: given)
    agents.watch_accelerate(module)
    if said:
        with pytest.raises(SystemExit) as ended:
            module.simple_launcher(SimpleNamespace(**args))
        assert ended.value.code == 2 and f"however many are asked for: {said}\n" in capsys.readouterr().err
    else:
        assert vars(module.simple_launcher(SimpleNamespace(**args))) == args
