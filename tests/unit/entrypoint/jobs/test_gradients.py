"""Smaller gradients: which models get the hook, and when; that they are sent so is a test of the image."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrypoint.jobs import gradients
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
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the name of a module like torch's; what was put in front of Python's own finders goes again."""
    (tmp_path / "stand_in_for_ddp.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gradients, "MODULE", "stand_in_for_ddp")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield "stand_in_for_ddp"
    sys.modules.pop("stand_in_for_ddp", None)


def hooks(name: str, own: str = "") -> list[Any]:
    """Return the hooks of a model that is made after an import, and used twice; `own` is one of its script."""
    model: Any = __import__(name).DistributedDataParallel("a model", process_group="a group")
    if own:
        model.register_comm_hook(None, own)
    model()
    model()
    found: list[Any] = model.hooks
    return found


def test_every_model_gets_the_hook_of_its_group(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    gradients.start({"MULTINODE_GRADIENTS": "bf16"})

    assert hooks(name) == [("a group", gradients.average)]
    assert capsys.readouterr().err == "multinode: gradients are sent as bfloat16\n"


def test_only_rank_0_says_so(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    gradients.start({"MULTINODE_GRADIENTS": "bf16"})

    assert hooks(name) == [("a group", gradients.average)]
    assert capsys.readouterr().err == ""


def test_a_hook_of_the_script_stays(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    gradients.start({"MULTINODE_GRADIENTS": "bf16"})

    assert hooks(name, own="its own") == [(None, "its own")]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("environ", [{}, {"MULTINODE_GRADIENTS": ""}, {"MULTINODE_GRADIENTS": "fp8"}])
def test_nothing_changes_where_nobody_asks(name: str, environ: dict[str, str]) -> None:
    before = list(sys.meta_path)
    gradients.start(environ)

    assert sys.meta_path == before
    assert hooks(name) == []


def test_the_finder_goes_with_the_import(name: str) -> None:
    before = list(sys.meta_path)
    gradients.start({"MULTINODE_GRADIENTS": "bf16"})
    assert sys.meta_path != before

    hooks(name)

    assert sys.meta_path == before


def test_a_torch_without_that_module_fails_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "MODULE", "no_such_stand_in")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    gradients.start({"MULTINODE_GRADIENTS": "bf16"})

    with pytest.raises(ModuleNotFoundError, match="no_such_stand_in"):
        __import__("no_such_stand_in")


def test_torch_finds_no_types_of_the_hook_to_compare() -> None:
    parameters = inspect.signature(gradients.average).parameters

    assert [each.annotation for each in parameters.values()] == [inspect.Parameter.empty] * 2


def test_the_entrypoint_knows_the_same_words() -> None:
    assert (variables.GRADIENTS, variables.BF16) == (gradients.VARIABLE, gradients.BF16)
