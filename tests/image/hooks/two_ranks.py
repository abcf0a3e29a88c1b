"""What two ranks agree on, in real trainings of the Trainer and beside them."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.device_mesh
import torch.distributed.tensor
from accelerate.state import AcceleratorState
from torch import nn
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.models.mixtral import modeling_mixtral

from multinode_image.hooks.step import mean_loss, router_loss
from multinode_image.hooks.step.mean_loss import EXAMPLES, LABELS, SUM, UNKNOWN, Batch
from multinode_image.hooks.trainer import best_model, directory, last_checkpoint
from multinode_image.programs import smoke

RANKS = (0, 1)
Ask = Callable[[Callable[[int], Any]], list[Any]]


@pytest.fixture
def ask(run_ranks: Any) -> Ask:
    """Return what lets both ranks do something, with what each is, and returns what has come of it."""

    def act(run: Callable[[int], Any]) -> Any:
        rank = dist.get_rank()
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
        os.environ.update({name: str(number) for name, number in place.items()})
        AcceleratorState._reset_state(True)
        return run(rank)

    return lambda run: run_ranks(partial(act, run))[0]


# Of parts with 1 and 5 labels, and 1 and 2 examples: the mean by labels, by examples, or the sum.
PARTS = [Batch(None, 6, 3), Batch(None, 1, 1), Batch(None, 5, 2)]


@pytest.mark.parametrize(
    ("losses", "kind"),
    [
        (((1.0, 6.0, 0.0), (1.0, 6.0, 0.0)), LABELS),
        (((1.0, 1.0, 1.0), (2.0, 6.0, 0.0)), EXAMPLES),  # the first rank alone would take it for a mean by labels
        (((1.0, 1.0, 1.0), (6.0, 6.0, 0.0)), UNKNOWN),
        (((6.0, 6.0, 0.0), (6.0, 5.0, 1.0)), SUM),
        (((1.0, 6.0, 0.0), (float("nan"),) * 3), UNKNOWN),
    ],
)
def test_ranks_agree_on_what_a_loss_is(ask: Ask, losses: tuple[tuple[float, ...], ...], kind: str) -> None:
    def tell(rank: int) -> str:
        return mean_loss.tell(lambda part, _: losses[rank][PARTS.index(part)], PARTS, False)

    assert [rank.result for rank in ask(tell)] == [kind, kind]


def test_a_rank_that_is_alone_asks_nobody(ask: Ask) -> None:
    done = ask(lambda rank: [directory.gather(rank, size) for size in (1, 2)])

    assert [rank.result for rank in done] == [[[0], [0, 1]], [[1], [0, 1]]]


def draw(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


LOGITS = (draw(2, 3, 8), draw(2, 5, 8))  # of each rank: layers x tokens x experts
MASKS = (torch.tensor([[1, 1, 0]]), torch.tensor([[1, 0, 1, 1, 1]]))
FUNCTION = modeling_mixtral.load_balancing_loss_func


def balance(function: Any, logits: Any, mask: Any, **more: Any) -> tuple[float, Any]:
    """Return a loss of routers, and its gradients."""
    layers = logits.clone().requires_grad_()
    loss = function(tuple(layers), 8, 2, mask, **more)
    if not loss.requires_grad:
        return float(loss), None
    loss.backward()
    return float(loss), layers.grad.tolist()


@pytest.mark.parametrize("masked", [True, False])
def test_a_loss_of_routers_is_that_of_all_tokens_with_the_gradients_of_each_rank(ask: Ask, masked: bool) -> None:
    """DDP takes the mean of gradients, so that those of a rank are times ranks."""
    masks: Any = MASKS if masked else (None, None)

    ranks = ask(lambda rank: balance(router_loss.share(FUNCTION), LOGITS[rank], masks[rank]))

    whole = torch.cat(LOGITS, 1)
    loss, gradients = balance(FUNCTION, whole, torch.cat(MASKS, 1) if masked else None)
    assert [rank.result[0] for rank in ranks] == pytest.approx([loss, loss])
    halves = torch.cat([torch.tensor(rank.result[1]) for rank in ranks], 1)
    assert torch.allclose(halves, 2 * torch.tensor(gradients), atol=1e-6)


def test_what_is_no_loss_of_a_training_is_that_of_a_rank(ask: Ask) -> None:
    def evaluate(rank: int) -> list[float]:
        function = router_loss.share(FUNCTION)
        with torch.no_grad():
            loss = float(function(tuple(LOGITS[rank]), 8, 2))
        return [loss, float(function(None, 8, 2))]

    for rank, done in enumerate(ask(evaluate)):
        assert done.result == pytest.approx([balance(FUNCTION, LOGITS[rank], None)[0], 0])
    shared = router_loss.share(FUNCTION)  # without a group
    assert balance(shared, LOGITS[0], None) == balance(FUNCTION, LOGITS[0], None)


def test_routers_of_a_model_are_shared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_mixtral, router_loss.NAME, FUNCTION)
    norm = modeling_mixtral.MixtralRMSNorm(2)

    assert not router_loss.share_routers(nn.Linear(2, 1))
    assert modeling_mixtral.load_balancing_loss_func is FUNCTION
    for _ in range(2):
        assert router_loss.share_routers(nn.Sequential(nn.Linear(2, 1), norm))
        assert modeling_mixtral.load_balancing_loss_func.__wrapped__ is FUNCTION


class Model(nn.Module):
    """A model of three weights."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.line(x)[:, 0] - labels).square().mean()}


class Told(TrainerCallback):
    """Tell one rank to end before its third step."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step == 2 and args.process_index == self.rank:
            signal.raise_signal(signal.SIGTERM)


def give(place: Path, **more: Any) -> TrainingArguments:
    usual: dict[str, Any] = {
        "use_cpu": True, "report_to": "none", "max_steps": 4, "save_strategy": "no", "logging_strategy": "no",
        "disable_tqdm": True,
    }  # fmt: skip
    return TrainingArguments(str(place), **{**usual, **more})


@pytest.mark.parametrize(("rank", "ends"), [(0, True), (1, True), (2, False)])
def test_all_ranks_save_and_end_where_one_was_told(
    ask: Ask, rank: int, ends: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def train(_: int) -> int:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        args = give(tmp_path, save_strategy="steps", save_steps=100, ddp_backend="gloo")
        rows = [{"x": torch.ones(2), "labels": torch.tensor(1.0)}] * 80
        trainer = Trainer(Model(), args, train_dataset=rows, callbacks=[last_checkpoint.LastCheckpoint(), Told(rank)])
        trainer.train()
        return int(trainer.state.global_step)

    ranks = ask(train)

    assert [done.result for done in ranks] == ([last_checkpoint.CODE] * 2 if ends else [4, 4])
    assert [path.name for path in tmp_path.glob("checkpoint-3")] == ["checkpoint-3"] * ends
    err = capfd.readouterr().err + "".join(done.said for done in ranks)
    assert err.count("saved at step 3;") == ends
    assert err.count("told to end") == (rank == 0)  # the first rank of a node says it


BEST: dict[str, Any] = {
    "load_best_model_at_end": True, "save_strategy": "steps", "eval_strategy": "steps", "save_steps": 1,
    "eval_steps": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "fields", "differ", "dtype", "sends"),
    [
        (BEST, {}, True, torch.float32, True),
        (BEST, {}, True, torch.bfloat16, True),
        (BEST, {}, False, torch.float32, False),
        ({}, {}, True, torch.float32, False),  # nobody wants it
        (BEST, {"fsdp": ["full_shard"]}, True, torch.float32, False),  # ranks have parts of a model
        (BEST, {"deepspeed": "zero.json"}, True, torch.float32, False),
    ],
)
def test_ranks_with_another_best_model_get_that_of_rank_0(
    ask: Ask, more: dict[str, Any], fields: dict[str, Any], differ: bool, dtype: Any, sends: bool, tmp_path: Path
) -> None:
    def end(rank: int) -> list[Any]:
        model = nn.Linear(2, 1).to(dtype)
        model.register_buffer("mean", torch.ones(3, 2).t())  # in no one piece
        model.register_buffer("nothing", torch.ones(0))
        tensors = [*model.parameters(), *model.buffers()]
        for tensor in tensors:
            nn.init.constant_(tensor, rank * differ)
        args = give(tmp_path, **more, ddp_backend="gloo")
        vars(args).update(fields)
        best_model.BestModel().on_train_end(args, TrainerState(), TrainerControl(), model=model)
        return [tensor.unique().tolist() for tensor in tensors]

    kept = float(differ and not sends)
    ranks = ask(end)
    assert [done.result for done in ranks] == [[[0.0], [0.0], [0.0], []], [[kept], [kept], [kept], []]]
    assert sum(done.said.count("rank 0 has sent it to them") for done in ranks) == sends


@pytest.mark.skipif(not hasattr(dist.tensor, "distribute_tensor"), reason="torch before 2.5 has it elsewhere")
def test_parts_of_a_model_stay_where_they_are(ask: Ask, tmp_path: Path) -> None:
    def end(rank: int) -> Any:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        model = nn.Linear(2, 1)
        nn.init.constant_(model.weight, rank)
        model.part = nn.Parameter(dist.tensor.distribute_tensor(torch.arange(2.0), mesh, [dist.tensor.Shard(0)]))
        args = give(tmp_path, **BEST, ddp_backend="gloo")
        best_model.BestModel().on_train_end(args, TrainerState(), TrainerControl(), model=model)
        return model.weight.tolist(), model.part.to_local().tolist()

    assert [done.result for done in ask(end)] == [([[0.0, 0.0]], [rank]) for rank in RANKS]


def test_a_rank_that_is_alone_asks_nobody_for_the_best_model(tmp_path: Path) -> None:
    best_model.BestModel().on_train_end(give(tmp_path, **BEST), TrainerState(), TrainerControl(), model=Model())


@pytest.mark.parametrize(
    ("words", "planned", "environs", "code", "said"),
    [
        (["--max_steps", "1"], "gloo", ({}, {}), 1, "the loss went from 3."),
        (["--max_steps", "1", "--ddp_backend", "gloo"], "mpi", ({}, {}), 1, "the loss went from 3."),  # it was typed
        ([], "gloo", ({"WORLD_SIZE": "3"},) * 2, 1, "the world is smaller than asked for: 2 instead of 3"),
        ([], "gloo", ({}, {"WORLD_SIZE": "3"}), 1, ".* 2 instead of 3, as rank 1 was told"),
        ([], "gloo", ({}, {"MULTINODE_JOB": "b"}), 1, "the ranks are of different jobs, .*rank 1: b;"),
        (["--no_flag"], "gloo", ({}, {}), 2, "not a flag of the Trainer: --no_flag"),
    ],
)
def test_smoke_ends_ranks_alike_and_the_first_one_says_it(
    ask: Ask, words: list[str], planned: str, environs: tuple[dict[str, str], ...], code: int, said: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "stack.json").write_text(json.dumps({"backend": planned}))
    monkeypatch.setattr(smoke, "leave", sys.exit)  # that of a process is tested where processes end

    ranks = ask(lambda rank: smoke.main(words, {"WORLD_SIZE": "2", **environs[rank]}, str(tmp_path)))

    assert [done.result for done in ranks] == [code] * 2
    err = "".join(done.said for done in ranks)
    assert len(re.findall(f"(?m)^smoke: failed: {said}", err)) == err.count("smoke: failed") == 1
    assert err.count("smoke: first step done ") == ("--max_steps" in words)
