"""What is computed in where bf16 is asked for: by autocast, FSDP, the Trainer, ipex, and weights themselves."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import transformers
from torch import nn
from torch.amp import autocast_mode
from torch.distributed import distributed_c10d, fsdp
from torch.optim import optimizer as optimizers
from transformers import Trainer, TrainingArguments, training_args

from multinode_image.hooks.compute import bf16_units
from multinode_image.hooks.compute.bf16_units import Known
from multinode_image.settings import BF16

LOW, HALF, FLOAT = torch.bfloat16, torch.float16, torch.float32
NOBODY = "trains in float32, because this processor has none of"


@pytest.fixture(params=[False, True], ids=["a unit", "no unit"])
def lacks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Begin as a rank of a processor that has a unit, or none; what hooks change of torch goes back."""
    monkeypatch.setattr(bf16_units, "KNOWN", Known())
    monkeypatch.setattr(bf16_units, "read_units", lambda: frozenset(() if request.param else ("avx512_bf16",)))
    for name in (BF16, "RANK"):
        monkeypatch.delenv(name, raising=False)
    policies = [getattr(fsdp, name) for name in ("MixedPrecision", "MixedPrecisionPolicy") if hasattr(fsdp, name)]
    changed = [
        (autocast_mode.autocast, "__enter__"), (Trainer, "evaluation_loop"), *((kind, "__init__") for kind in policies),
    ]  # fmt: skip
    for owner, name in changed:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(optimizers, "_global_optimizer_post_hooks", OrderedDict())
    return bool(request.param)


@pytest.mark.parametrize(
    ("device", "enabled", "dtype", "weights", "computed", "alone"),
    [
        ("cpu", True, LOW, FLOAT, FLOAT, LOW),
        ("cpu", True, LOW, LOW, LOW, LOW),  # its types would not meet
        ("cpu", False, LOW, FLOAT, FLOAT, FLOAT),
        ("cpu", True, HALF, FLOAT, HALF, HALF),
        ("xpu", True, LOW, FLOAT, FLOAT, FLOAT),
    ],
)
def test_autocast_computes_in_float32_but_where_weights_are_bfloat16(
    lacks: bool, device: str, enabled: bool, dtype: Any, weights: Any, computed: Any, alone: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """computed: the type without a unit; alone: that of torch, also of what is entered next."""
    bf16_units.watch_autocast(autocast_mode)
    model, values = nn.Linear(2, 1).to(weights), torch.ones(1, 2, dtype=weights)

    for _ in range(2):
        context = torch.autocast(device, dtype, enabled)
        with context:
            assert model(values).dtype == (computed if lacks else alone)
        assert context.fast_dtype == dtype
    with torch.autocast("cpu", HALF):  # what was looked at is no more
        nn.Linear(2, 1).to(LOW)(torch.ones(1, 2))
        assert nn.Linear(2, 1)(torch.ones(1, 2)).dtype == HALF

    asked = lacks and device == "cpu" and enabled and dtype is LOW
    assert capsys.readouterr().err.count(f"multinode: autocast in bfloat16: {NOBODY}") == asked


@pytest.mark.parametrize("name", ["MixedPrecision", "MixedPrecisionPolicy"])
@pytest.mark.parametrize(("dtype", "asked"), [(LOW, True), (HALF, False), (None, False)])
def test_policies_of_fsdp_compute_in_float32_and_send_what_was_chosen(
    lacks: bool, name: str, dtype: Any, asked: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = getattr(fsdp, name, None)
    if kind is None:
        pytest.skip("this release has no such policy")
    bf16_units.watch_policies(fsdp)

    policy = kind(param_dtype=dtype, reduce_dtype=LOW)

    assert (policy.param_dtype, policy.reduce_dtype) == (None if lacks and asked else dtype, LOW)
    assert ("FSDP in bfloat16" in capsys.readouterr().err) is (lacks and asked)


class Model(nn.Module):
    """A model that keeps which type its weights had."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.types = nn.Linear(2, 1), list[Any]()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        self.types.append(self.line.weight.dtype)
        if x.sum() < 0:
            raise ZeroDivisionError
        return {"loss": self.line(x.to(self.line.weight.dtype)).mean()}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_trainer_evaluates_in_float32_and_its_arguments_stay(
    lacks: bool, asked: bool, fails: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bf16_units.watch_evaluation(transformers.trainer)
    args = TrainingArguments(str(tmp_path), use_cpu=True, report_to="none", disable_tqdm=True, bf16_full_eval=asked)
    row = {"x": torch.ones(2) * (-1 if fails else 1), "labels": torch.tensor(1.0)}
    model = Model()
    trainer = Trainer(model, args, eval_dataset=[row])

    if fails:
        with pytest.raises(ZeroDivisionError):
            trainer.evaluate()
    else:
        trainer.evaluate()

    assert model.types == [LOW if asked and not lacks else FLOAT]
    assert args.bf16_full_eval is asked
    assert capsys.readouterr().err.count(f"multinode: bf16_full_eval: {NOBODY}") == (lacks and asked)


@pytest.mark.parametrize(("dtype", "kept"), [(LOW, FLOAT), (None, None), (HALF, HALF)])
def test_ipex_keeps_weights_in_float32(lacks: bool, dtype: Any, kept: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Its only release is in no environment of these tests."""
    ipex = SimpleNamespace(optimize=lambda *words, **options: (words, options))
    bf16_units.watch_ipex(ipex)

    assert ipex.optimize("model", dtype, 1, a=2) == (("model", kept if lacks else dtype, 1), {"a": 2})
    assert capsys.readouterr().err.count(f"multinode: IPEX in bfloat16: {NOBODY}") == (lacks and dtype is LOW)


@pytest.mark.parametrize(("types", "said"), [((FLOAT, LOW), True), ((FLOAT, HALF), False)])
def test_weights_in_bfloat16_are_said_at_the_first_step_of_an_optimizer(
    lacks: bool, types: tuple[Any, ...], said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    bf16_units.watch_optimizers(optimizers)
    several = [torch.optim.SGD([nn.Parameter(torch.ones(1, dtype=dtype)) for dtype in types]) for _ in range(2)]
    assert capsys.readouterr().err == ""
    for optimizer in several * 2:
        optimizer.step()

    line = "multinode: the weights are bfloat16: this processor has none of"
    assert capsys.readouterr().err.count(line) == (lacks and said)


WITH, WITHOUT, UNKNOWN = frozenset({"amx_bf16"}), frozenset[str](), None


def form(units: frozenset[str] | None, place: Path) -> bool:
    """Form a group anew on a processor with these units; return whether this rank has to use float32."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    vars(bf16_units)["read_units"] = lambda: units
    distributed_c10d.init_process_group("gloo", f"file://{place}", rank=rank, world_size=size)
    with mock.patch.object(bf16_units, "ask_ranks", wraps=bf16_units.ask_ranks) as ask:
        answers = {bf16_units.must_use_float32() for _ in range(2)}
    dist.barrier()  # a rank that leaves while another one connects to it fails that one
    assert ask.call_count <= 1, "each group is asked once"
    return answers == {True}


@pytest.mark.parametrize(
    ("units", "float32"),
    [
        ([WITH, WITH], False), ([WITH, WITH, WITHOUT], True), ([WITH, WITHOUT, WITH], True), ([UNKNOWN, WITHOUT], True),
        ([WITHOUT, WITH], True), ([UNKNOWN, WITH], False), ([WITH], False),
    ],
)  # fmt: skip
def test_all_ranks_compute_in_what_every_one_of_them_can(
    units: list[frozenset[str] | None], float32: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_ranks: Any
) -> None:
    monkeypatch.setattr(bf16_units, "KNOWN", Known())
    monkeypatch.delenv(BF16, raising=False)

    def act() -> list[bool]:
        bf16_units.watch_groups(distributed_c10d)
        return [form(units[dist.get_rank()], tmp_path / "first"), form(WITH, tmp_path / "second")]

    done = run_ranks(act, size=len(units))[0]

    assert [rank.result for rank in done] == [[float32, False]] * len(units)


def test_a_rank_that_says_nothing_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_ranks: Any
) -> None:
    monkeypatch.setattr(bf16_units, "KNOWN", Known())
    monkeypatch.setattr(bf16_units, "LONGEST", timedelta(milliseconds=50))

    def act() -> bool:
        if dist.get_rank() == 0:
            bf16_units.watch_groups(distributed_c10d)
        return form(WITH, tmp_path / "first")

    assert [rank.result for rank in run_ranks(act)[0]] == [False, False]


@pytest.mark.parametrize(("units", "taken"), [(WITH, True), (WITHOUT, True), (UNKNOWN, False)])
def test_the_trainer_takes_bf16_without_use_cpu(
    units: frozenset[str] | None, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bf16_units, "read_units", lambda: units)
    monkeypatch.setattr(training_args, "is_torch_bf16_gpu_available", training_args.is_torch_bf16_gpu_available)

    bf16_units.allow_bf16(training_args)

    assert training_args.is_torch_bf16_gpu_available() is taken  # whom some releases ask
    assert not taken or TrainingArguments(str(tmp_path), report_to="none", bf16=True).bf16
