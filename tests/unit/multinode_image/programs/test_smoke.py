"""What `smoke` trains, checks and prints, with a Trainer that is made up; image tests have the real one."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

NAME = "multinode_image.programs.smoke"
OTHERS = ("multinode_image.programs.leave", "multinode_image.exchange.origins")
FLOAT, LOW = "torch.float32", "torch.bfloat16"


class Dist(ModuleType):
    """torch.distributed of a rank, whose other ranks say the same, but for `others`."""

    def __init__(self) -> None:
        super().__init__("torch.distributed")
        self.size, self.rank, self.others = 2, 0, dict[str, Any]()

    def is_initialized(self) -> bool:
        return self.size > 1

    def get_world_size(self) -> int:
        return self.size

    def get_rank(self) -> int:
        return self.rank

    def get_backend(self) -> str:
        return "gloo"

    def all_gather_object(self, found: list[Any], mine: Any) -> None:
        found[:] = [mine] * self.rank + [mine] + [self.others.get(str(mine), mine)] * (self.size - self.rank - 1)


class Child:
    """The first part of a model, which tells its hooks that it is called."""

    def __init__(self) -> None:
        self.hooks = list[Callable[..., None]]()

    def register_forward_pre_hook(self, hook: Callable[..., None]) -> None:
        self.hooks.append(hook)


class Model:
    """A model that evaluates before and after its training."""

    def __init__(self) -> None:
        self.training, self.child = False, Child()

    def children(self) -> Iterator[Child]:
        return iter([self.child])


class Trainer:
    """A Trainer of three steps, which calls what it is given."""

    made: list[Trainer]

    def __init__(self, model: Model, args: Any, train_dataset: Any, callbacks: list[Any]) -> None:
        self.model, self.args, self.rows, self.callbacks = model, args, train_dataset, callbacks
        self.state = SimpleNamespace(global_step=3, is_world_process_zero=True)
        self.removed = list[Any]()
        type(self).made.append(self)

    def remove_callback(self, kind: Any) -> None:
        self.removed.append(kind)

    def train(self) -> None:
        [clock] = self.callbacks
        clock.on_train_begin()
        for self.model.training in (False, True):
            for hook in self.model.child.hooks:
                hook(self.model.child, ())
        for step in (1, 2, 3):
            state = SimpleNamespace(global_step=step, is_world_process_zero=self.state.is_world_process_zero)
            clock.on_step_end(None, state)
        clock.on_train_end()


@pytest.fixture
def dist() -> Dist:
    return Dist()


@pytest.fixture
def smoke(dist: Dist, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    torch, data, transformers = (ModuleType(name) for name in ("torch", "torch.utils.data", "transformers"))
    vars(torch).update(dict.fromkeys(("float64", "float16", "Tensor"), object), distributed=dist)
    vars(torch).update(float32=FLOAT, bfloat16=LOW, no_grad=lambda: lambda call: call)
    vars(torch).update(is_autocast_enabled=lambda _: True, get_autocast_dtype=lambda _: LOW)
    names = ("DistilBertConfig", "DistilBertForQuestionAnswering", "HfArgumentParser", "PrinterCallback", "set_seed",
             "TrainingArguments")  # fmt: skip
    Trainer.made = []
    vars(transformers).update(dict.fromkeys(names, object), Trainer=Trainer, TrainerCallback=object)
    vars(data)["Dataset"] = type("Dataset", (), {"__class_getitem__": classmethod(lambda cls, _: object)})
    stand_ins = {"torch": torch, "torch.distributed": dist, "torch.utils": ModuleType("torch.utils"),
                 "torch.utils.data": data, "transformers": transformers}  # fmt: skip
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "TRANSFORMERS_VERBOSITY"):
        monkeypatch.delenv(name, raising=False)
    with mock.patch.dict(sys.modules, stand_ins), mock.patch.dict(os.environ):
        for name in (NAME, *OTHERS):
            sys.modules.pop(name, None)
        yield importlib.import_module(NAME)
    for name in (NAME, *OTHERS):
        sys.modules.pop(name, None)


def prepare(smoke: Any, patch: pytest.MonkeyPatch) -> None:
    """Let a training be of no weights, and take a quarter of a second."""
    losses, times = iter([3.5, 0.25]), iter([10.0, 10.25])
    patch.setattr(smoke, "make_model", Model)
    patch.setattr(smoke, "measure_loss", lambda _: next(losses))
    patch.setattr(smoke, "digest_weights", lambda _: "d" * 64)
    patch.setattr(smoke, "Questions", lambda count, seed: (count, seed))
    patch.setattr(smoke.time, "perf_counter", lambda: next(times))
    patch.setattr(smoke, "age", lambda: 8.06)
    patch.setattr(smoke.SEEN, "waited", 0.125)


ARGUMENTS = {"world_size": 2, "per_device_train_batch_size": 8, "train_batch_size": 8}


@pytest.mark.parametrize("size", [1, 2])
def test_a_job_is_summed_up_in_one_line(
    smoke: Any, dist: Dist, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    prepare(smoke, monkeypatch)
    dist.size = size
    dist.others = {"{'bfloat16'}": {"float32"}}

    said = smoke.run(
        SimpleNamespace(**{**ARGUMENTS, "world_size": size}), "gloo" if size > 1 else "none", {"WORLD_SIZE": str(size)}
    )

    types = "bfloat16+float32" if size > 1 else "bfloat16"
    backend = "gloo" if size > 1 else "none"
    assert said == (
        f"world_size={size} backend={backend} dtype={types} loss_before=3.5000 loss_after=0.2500 "
        f"samples_per_second={3 * 8 * size * 4} seconds=0.25 all_reduce_seconds=0.12 weights={'d' * 16}"
    )
    assert capsys.readouterr().err == "smoke: first step done 8.1 s after the start\n"
    [trainer] = Trainer.made
    assert trainer.rows == (4096, smoke.SEED) and trainer.removed == [smoke.PrinterCallback]


@pytest.mark.parametrize(
    ("others", "environ", "backend", "said"),
    [
        ({}, {"WORLD_SIZE": "2"}, "gloo", None),
        ({}, {"WORLD_SIZE": "3"}, "gloo", "the world is smaller than asked for: 2 instead of 3"),
        ({"2": "3"}, {"WORLD_SIZE": "2"}, "gloo", "2 instead of 3, as rank 1 was told"),
        ({"": "theirs"}, {"WORLD_SIZE": "2"}, "gloo", "rank 1: theirs"),
        ({}, {"WORLD_SIZE": "2"}, "ccl", "the backend is gloo, planned was ccl"),
        ({str(("d" * 64, 3.5, 0.25)): ("e" * 64, 3.5, 0.25)}, {"WORLD_SIZE": "2"}, "gloo", "the weights differ"),
    ],
)
def test_ranks_that_have_not_trained_together_fail(
    smoke: Any, dist: Dist, monkeypatch: pytest.MonkeyPatch, others: dict[str, Any], environ: dict[str, str],
    backend: str, said: str | None,
) -> None:  # fmt: skip
    prepare(smoke, monkeypatch)
    dist.others = others

    if said is None:
        assert smoke.run(SimpleNamespace(**ARGUMENTS), backend, environ)
        return
    with pytest.raises(smoke.Failed, match=said):
        smoke.run(SimpleNamespace(**ARGUMENTS), backend, environ)


def test_only_the_first_rank_says_that_the_first_step_is_done(smoke: Any, capsys: pytest.CaptureFixture[str]) -> None:
    clock = smoke.Clock()
    clock.on_step_end(None, SimpleNamespace(global_step=1, is_world_process_zero=False))

    assert capsys.readouterr().err == "" and (clock.began, clock.seconds) == (0.0, 0.0)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(("typed", "planned"), [(None, "ccl"), ("gloo", "gloo")])
def test_smoke_ends_with_the_code_of_what_failed_and_rank_0_says_it(
    smoke: Any, dist: Dist, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    rank: int, fails: bool, typed: str | None, planned: str,
) -> None:  # fmt: skip
    dist.rank, asked, places = rank, list[Any](), list[str]()
    (tmp_path / "stack.json").write_text(json.dumps({"backend": "ccl"}))

    class Parser:
        def __init__(self, kind: Any) -> None:
            pass

        def parse_args_into_dataclasses(self, words: list[str], return_remaining_strings: bool) -> list[Any]:
            assert return_remaining_strings
            asked.append(words)
            return [SimpleNamespace(ddp_backend=typed), []]

    def flags(output: str, backend: str, fields: Any) -> list[str]:
        places.append(output)
        assert Path(output).is_dir()
        return [f"--backend {backend}"]

    def run(arguments: Any, backend: str, environ: Any) -> str:
        asked.append(backend)
        if fails:
            raise smoke.Failed("no")
        return "all is well"

    vars(smoke)["TrainingArguments"] = SimpleNamespace(__dataclass_fields__={})
    monkeypatch.setattr(smoke, "HfArgumentParser", Parser)
    monkeypatch.setattr(smoke, "default_flags", flags)
    monkeypatch.setattr(smoke.checks, "check_flags", lambda left: asked.append(left))
    monkeypatch.setattr(smoke, "run", run)
    monkeypatch.setattr(smoke, "leave", lambda code: asked.append(code))

    smoke.main(["--bf16"], {"WORLD_SIZE": "2"}, str(tmp_path))

    code = smoke.Failed("no").code if fails else 0
    assert asked == [["--backend ccl", "--bf16"], [], planned, code] and (code != 0) is fails
    out = capsys.readouterr()
    assert out.out == ("smoke: passed: all is well\n" if rank == 0 and not fails else "")
    assert out.err == ("smoke: failed: no\n" if rank == 0 and fails else "")
    assert not Path(places[0]).exists()
    smoke.main([], {}, str(tmp_path / "outside an image"))
    assert asked[4] == ["--backend "]
    assert {os.environ[name] for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")} == {"1"}
