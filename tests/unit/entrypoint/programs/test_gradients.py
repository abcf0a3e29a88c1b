"""Smaller gradients: which models get the hook, and when; that they are sent so is a test of the image."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

from entrypoint.programs import gradients
from entrypoint.tuning import variables

SOURCE = """
class DistributedDataParallel:
    def __init__(self, module, process_group=None):
        self.process_group, self.hooks, self.waiting = process_group, [], []

    def register_forward_pre_hook(self, hook):
        self.waiting.append(hook)
        return self

    def remove(self):
        self.waiting.clear()

    def register_comm_hook(self, state, hook):
        if self.hooks:
            raise RuntimeError("can only be called once")
        self.hooks.append((state, hook))

    def __call__(self):
        for hook in list(self.waiting):
            hook(self, ())
"""


@pytest.fixture
def module() -> Any:
    """Return a module like torch's."""
    made = ModuleType("stand_in_for_ddp")
    exec(SOURCE, made.__dict__)
    return made


def hooks(module: Any, own: str = "") -> list[Any]:
    """Return the hooks of a model that is made after the change, and used twice; `own` is one of its script."""
    model: Any = module.DistributedDataParallel("a model", process_group="a group")
    if own:
        model.register_comm_hook(None, own)
    model()
    model()
    found: list[Any] = model.hooks
    return found


def test_every_model_gets_the_hook_of_its_group(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gradients.change(module, {"MULTINODE_GRADIENTS": "bf16"})

    assert hooks(module) == [("a group", gradients.average)]
    assert capsys.readouterr().err == "multinode: gradients are sent as bfloat16\n"


def test_only_rank_0_says_so(module: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    gradients.change(module, {"MULTINODE_GRADIENTS": "bf16"})

    assert hooks(module) == [("a group", gradients.average)]
    assert capsys.readouterr().err == ""


def test_a_hook_of_the_script_stays(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gradients.change(module, {"MULTINODE_GRADIENTS": "bf16"})

    assert hooks(module, own="its own") == [(None, "its own")]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("environ", [{}, {"MULTINODE_GRADIENTS": ""}, {"MULTINODE_GRADIENTS": "fp8"}])
def test_nothing_changes_where_nobody_asks(module: Any, environ: dict[str, str]) -> None:
    gradients.change(module, environ)

    assert hooks(module) == []


BUCKETS = """
class DistributedDataParallel:
    def __init__(self, module, bucket_cap_mb=None, gradient_as_bucket_view=False, static_graph=False):
        self.view = gradient_as_bucket_view
"""


@pytest.mark.parametrize(
    ("words", "options", "view"),
    [
        ((), {}, True),
        ((25,), {"static_graph": True}, True),
        ((), {"gradient_as_bucket_view": False}, False),
        ((25, False), {}, False),
        ((25, True, True), {}, True),
    ],
)
def test_gradients_lie_in_their_buckets_unless_the_script_says_otherwise(
    words: tuple[Any, ...], options: dict[str, Any], view: bool
) -> None:
    module: Any = ModuleType("stand_in_for_ddp")
    exec(BUCKETS, module.__dict__)
    gradients.change(module, {})

    assert module.DistributedDataParallel("a model", *words, **options).view == view


def test_a_torch_without_that_option_is_left_alone(module: Any) -> None:
    gradients.change(module, {})

    assert module.DistributedDataParallel("a model").process_group is None


def make_ranks(values: tuple[str, ...]) -> None:
    """Make a model on each rank, which has a value of the variable: none is ready before all have begun."""

    class Model:
        def __init__(self) -> None:
            if values[1:]:
                make_ranks(values[1:])

        def register_forward_pre_hook(self, hook: object) -> None: ...

    module = ModuleType("stand_in_for_ddp")
    module.__dict__["DistributedDataParallel"] = Model
    gradients.change(module, {"MULTINODE_GRADIENTS": values[0]})
    Model()


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        (("bf16", "bf16"), False),
        (("", ""), False),
        (("bf16", ""), True),
        (("", "bf16"), True),
        (("", "bf16", ""), True),
    ],
)
def test_ranks_that_send_otherwise_are_found_before_they_train(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], values: tuple[str, ...], refused: bool
) -> None:
    counts = [0]

    def count(more: int) -> int:
        counts.append(more)
        return sum(counts)

    monkeypatch.setattr(gradients, "count_others", count)
    if not refused:
        return make_ranks(values)
    with pytest.raises(SystemExit) as ended:
        make_ranks(values)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "do not send their gradients as bfloat16: MULTINODE_GRADIENTS=bf16 on rank 0\n  try: export" in said


def test_a_program_without_a_store_trains(module: Any) -> None:
    gradients.change(module, {})
    assert (hooks(module), gradients.count_others(1)) == ([], 0)


def test_torch_finds_no_types_of_the_hook_to_compare() -> None:
    parameters = inspect.signature(gradients.average).parameters

    assert [each.annotation for each in parameters.values()] == [inspect.Parameter.empty] * 2


def test_the_entrypoint_knows_the_same_words() -> None:
    assert (variables.GRADIENTS, variables.BF16) == (gradients.VARIABLE, gradients.BF16)
