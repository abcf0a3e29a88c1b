"""Who asks for bf16 computes in float32 where a processor has no unit for it, and is told so; torch is made up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.compute import bf16_units, threads
from multinode_image.hooks.compute.bf16_units import FULL_EVALUATION, Known
from multinode_image.settings import BF16

LOW, FLOAT = "bfloat16", "float32"
NOBODY = "this processor has none of"


@pytest.fixture(params=[False, True], ids=["a unit", "no unit"])
def lacks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Begin as a rank of a processor that has a unit, or none."""
    monkeypatch.setattr(bf16_units, "KNOWN", Known())
    monkeypatch.setattr(bf16_units, "read_units", lambda: frozenset(() if request.param else ("avx512_bf16",)))
    monkeypatch.setattr(bf16_units, "is_first", lambda _: True)
    monkeypatch.delitem(sys.modules, bf16_units.DISTRIBUTED, raising=False)
    monkeypatch.delenv(BF16, raising=False)
    return bool(request.param)


class Torch(ModuleType):
    """torch, with an autocast for the processor and hooks before a module is called."""

    bfloat16, float32 = LOW, FLOAT

    def __init__(self) -> None:
        super().__init__("torch")
        self.hooks, self.types, self.is_on = dict[int, Callable[..., None]](), list[tuple[str, ...]](), True
        module = SimpleNamespace(register_module_forward_pre_hook=self.register)
        self.nn = SimpleNamespace(modules=SimpleNamespace(module=module))

    def register(self, hook: Callable[..., None]) -> Any:
        number = len(self.types) + len(self.hooks)
        self.hooks[number] = hook
        return SimpleNamespace(remove=lambda: self.hooks.pop(number))

    def is_autocast_enabled(self, device: str) -> bool:
        return self.is_on

    def set_autocast_dtype(self, *given: str) -> None:
        self.types.append(given)


def weights(*types: str) -> Any:
    return SimpleNamespace(parameters=lambda: [SimpleNamespace(dtype=one) for one in types])


@pytest.mark.parametrize(
    ("device", "enabled", "dtype", "is_asked"),
    [("cpu", True, LOW, True), ("cpu", False, LOW, False), ("cpu", True, "float16", False), ("cuda", True, LOW, False)],
)
@pytest.mark.parametrize(
    ("types", "is_on", "restored"), [((FLOAT,), True, False), ((FLOAT, LOW), True, True), ((LOW,), False, False)]
)
def test_autocast_computes_in_float32_but_where_weights_are_bfloat16(
    lacks: bool, capsys: pytest.CaptureFixture[str], device: str, enabled: bool, dtype: str, is_asked: bool,
    types: tuple[str, ...], is_on: bool, restored: bool,
) -> None:  # fmt: skip
    torch, entered = Torch(), list[str]()

    class Autocast:
        fast_dtype, _enabled = dtype, enabled

        def __init__(self) -> None:
            self.device = device

        def __enter__(self) -> str:
            entered.append(self.fast_dtype)
            return "entered"

    module = SimpleNamespace(autocast=Autocast, torch=torch)
    bf16_units.watch_autocast(module)
    asked = module.autocast()
    assert asked.__enter__() == "entered"

    lowers = lacks and is_asked
    assert (entered, asked.fast_dtype) == ([FLOAT if lowers else dtype], dtype)
    assert len(torch.hooks) == lowers
    torch.is_on = is_on
    for hook in [*torch.hooks.values()]:
        hook(weights(*types), ())
    assert torch.types == ([("cpu", LOW)] if lowers and restored else []) and not torch.hooks
    said = capsys.readouterr().err
    assert (
        said.startswith(f"multinode: autocast in bfloat16: trains in float32, because {NOBODY}") if lowers else not said
    )


def test_autocast_of_an_older_torch_is_asked_by_its_functions() -> None:
    def takes_nothing() -> bool:
        raise AssertionError

    types = list[str]()
    for is_on in (True, False):
        old = SimpleNamespace(
            is_autocast_enabled=takes_nothing, is_autocast_cpu_enabled=lambda is_on=is_on: is_on,
            set_autocast_cpu_dtype=types.append,
        )  # fmt: skip
        assert bf16_units.is_enabled(old) is is_on
    bf16_units.set_type(old, LOW)
    assert types == [LOW]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


@pytest.mark.parametrize("name", ["MixedPrecision", "MixedPrecisionPolicy"])
@pytest.mark.parametrize(("compute", "is_asked"), [(LOW, True), ("float16", False)])
def test_policies_of_fsdp_compute_in_float32_and_send_what_was_chosen(
    lacks: bool, torch: Torch, capsys: pytest.CaptureFixture[str], name: str, compute: str, is_asked: bool
) -> None:
    class Policy:
        def __init__(self, param_dtype: str, reduce_dtype: str) -> None:
            self.param_dtype, self.reduce_dtype, self.output_dtype = param_dtype, reduce_dtype, param_dtype

    module = SimpleNamespace(**{name: Policy})
    bf16_units.watch_policies(module)
    policy = getattr(module, name)(compute, reduce_dtype=LOW)

    kept = None if lacks and is_asked else compute
    assert vars(policy) == {"param_dtype": kept, "reduce_dtype": LOW, "output_dtype": kept}
    assert ("FSDP in bfloat16" in capsys.readouterr().err) is (lacks and is_asked)


@pytest.mark.parametrize("name", ["evaluation_loop", "prediction_loop"])
@pytest.mark.parametrize("asked", [True, False])
def test_a_trainer_evaluates_in_float32_and_its_arguments_stay(lacks: bool, name: str, asked: bool) -> None:
    def loop(self: Any, *words: Any) -> Any:
        if words == ("fails",):
            raise ZeroDivisionError
        return getattr(self.args, FULL_EVALUATION), words

    module = SimpleNamespace(Trainer=type("Trainer", (), {name: loop}))
    bf16_units.watch_evaluation(module)
    trainer = module.Trainer()
    trainer.args = SimpleNamespace(**{FULL_EVALUATION: asked})

    assert getattr(trainer, name)(1, 2) == (asked and not lacks, (1, 2))
    with pytest.raises(ZeroDivisionError):
        getattr(trainer, name)("fails")
    assert getattr(trainer.args, FULL_EVALUATION) is asked


@pytest.mark.parametrize(("dtype", "is_asked"), [(LOW, True), (None, False), ("float16", False)])
def test_ipex_keeps_weights_in_float32(lacks: bool, torch: Torch, dtype: str | None, is_asked: bool) -> None:
    module = SimpleNamespace(optimize=lambda *words, **options: (words, options))
    bf16_units.watch_ipex(module)

    kept = FLOAT if lacks and is_asked else dtype
    assert module.optimize("model", dtype, 1, a=2) == (("model", kept, 1), {"a": 2})


@pytest.mark.parametrize(("types", "is_said"), [((FLOAT, LOW), True), ((FLOAT,), False), ((), False)])
def test_weights_in_bfloat16_are_said_at_the_first_step_of_an_optimizer(
    lacks: bool, capsys: pytest.CaptureFixture[str], types: tuple[str, ...], is_said: bool
) -> None:
    class Optimizer:
        def __init__(self) -> None:
            self.looks = 0

        @property
        def param_groups(self) -> list[dict[str, Any]]:
            self.looks += 1
            return [{"params": [SimpleNamespace(dtype=one)]} for one in types]

    hooks, optimizer = list[Any](), Optimizer()
    bf16_units.watch_optimizers(SimpleNamespace(torch=Torch(), register_optimizer_step_post_hook=hooks.append))
    bf16_units.watch_optimizers(SimpleNamespace(torch=Torch()))  # before 2.0
    for hook in 2 * hooks:
        hook(optimizer)

    assert (len(hooks), optimizer.looks) == (lacks, lacks)
    said = capsys.readouterr().err
    assert ("the weights are bfloat16: this processor" in said) is (lacks and is_said) and said.count("\n") in (0, 2)


def test_that_of_another_rank_is_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bf16_units, "KNOWN", Known())
    monkeypatch.setattr(bf16_units, "computes", lambda: True)
    monkeypatch.setattr(bf16_units, "find_lacking", lambda: 3)
    for first in (False, True, True):
        monkeypatch.setattr(bf16_units, "is_first", lambda _, first=first: first)
        bf16_units.say_float32("autocast")
    assert capsys.readouterr().err == ""  # said, but not here

    monkeypatch.setattr(bf16_units, "KNOWN", Known())
    for _ in range(2):
        bf16_units.say_float32("autocast")
    assert capsys.readouterr().err.count("because the processor of rank 3 has none of") == 1


# The threads of a rank.


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "SAID", [])
    monkeypatch.setattr(threads, "is_first", lambda _: True)
    for name in threads.OTHERS:
        monkeypatch.delenv(name, raising=False)
    yield


@pytest.mark.parametrize(
    ("given", "count", "others", "text"),
    [
        ("4", 4, {"MKL_NUM_THREADS": "4"}, ""),
        ("4", 1, {"MKL_NUM_THREADS": "1", "OMP_DYNAMIC": ""}, "torch has 1 thread(s) in each rank, not the 4 of "
                                                             "OMP_NUM_THREADS: MKL_NUM_THREADS=1"),
        ("4", 2, {}, "torch has 2 thread(s) in each rank, not the 4 of OMP_NUM_THREADS: its OpenMP has fewer"),
        ("", 1, {}, None), ("4,2", 1, {}, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_another_number_of_threads_is_said_once_for_the_job(
    said: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: str, count: int,
    others: dict[str, str], text: str | None, first: bool,
) -> None:  # fmt: skip
    for name, value in {threads.GIVEN: given, **others}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(threads, "is_first", lambda _: first)
    changed = list[int]()
    module = SimpleNamespace(get_num_threads=lambda: count, set_num_threads=changed.append)

    threads.compare(module)
    for number in (4, 8, 8):
        module.set_num_threads(number)

    assert changed == [4, 8, 8]
    script = "torch.set_num_threads(8) in this script: each rank has cores for 4 (--explain)"
    lines = [] if text is None or not first else [*([text] if text else []), script]
    assert capsys.readouterr().err.splitlines() == [f"multinode: {line}" for line in lines]
