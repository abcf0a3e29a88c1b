"""What an agent of torchrun says and refuses by the configuration that torchrun has read."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.ends import agents
from multinode_image.settings import TRAINING


def config(nodes: tuple[int, int] = (2, 2), backend: str = "c10d") -> Any:
    least, most = nodes
    return SimpleNamespace(
        min_nodes=least, max_nodes=most, rdzv_backend=backend, rdzv_endpoint="node_0:29400", run_id="18233"
    )


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
        monkeypatch.setitem(sys.modules, agents.TORCHRUN, ModuleType(agents.TORCHRUN))
    module = SimpleNamespace(launch_agent=lambda config, *words, **options: (config.max_nodes, words, options))

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    agents.watch_launch(module)
    if ends:
        with pytest.raises(SystemExit):
            module.launch_agent(config(nodes), "train.py")
    else:
        assert module.launch_agent(config(nodes), "train.py", health=1) == (nodes[1], ("train.py",), {"health": 1})
        assert os.environ[TRAINING] == ("on" if is_torchrun else "7")


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
