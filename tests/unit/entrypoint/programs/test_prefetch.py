"""What of a model is fetched, and what is said at the end."""

from __future__ import annotations

import errno
import json
import os
from types import SimpleNamespace
from unittest import mock

import pytest

from entrypoint.programs.prefetch import choose_files, explain, main

SMALL = ["config.json", "vocab.txt", "modeling_own.py"]


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (["model.safetensors", "pytorch_model.bin", "tf_model.h5", "onnx/model.onnx"], ["model.safetensors"]),
        (["pytorch_model.bin", "flax_model.msgpack"], ["pytorch_model.bin"]),
        (["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "pytorch_model.bin"],
         ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]),
        (["adapter_model.safetensors"], ["adapter_model.safetensors"]),
        (["model.gguf", "original/params.json"], []),
    ],
)  # fmt: skip
def test_one_form_of_the_weights_is_fetched(there: list[str], chosen: list[str]) -> None:
    assert choose_files([*SMALL, *there], weights=True) == [*SMALL, *chosen]
    assert choose_files([*SMALL, *there], weights=False) == SMALL


@pytest.mark.parametrize(("whole", "offline"), [(True, True), (False, False)])
def test_only_what_is_whole_is_said_to_run_offline(
    whole: bool, offline: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with mock.patch.dict(os.environ):  # it tells the libraries what their bars are to do
        plan = {"task": "qa", "wanted": [], "whole": whole, "caches": ["/models", "/data"]}
        assert main([json.dumps(plan)], {"HF_HOME": "/hf"}, "/") == 0
    last = capsys.readouterr().out
    assert "/models and /data; " in last and ("HF_HUB_OFFLINE=1" in last) is offline


class GatedRepoError(Exception):
    """Named as that of huggingface_hub."""


class DatasetNotFoundError(FileNotFoundError):
    """Named as that of datasets."""


def answered(status: int, kind: type[Exception] = Exception) -> Exception:
    """Return an error that carries an answer."""
    error = kind("said")
    error.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
    return error


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "fact", "remedy", "code"),
    [
        (answered(403, GatedRepoError), "gives no such thing", "ask for access on https://hub", 2),
        (caused(DatasetNotFoundError("x"), answered(401, GatedRepoError)), "gives no such thing", "HF_TOKEN", 2),
        (DatasetNotFoundError("x"), "gives no such thing", "check name", 2),
        (caused(DatasetNotFoundError("x"), answered(503)), "cannot be fetched", "run it again", 1),
        (caused(RuntimeError("x"), OSError(errno.ENOSPC, "No space left", "/hf/a")), "disk", "larger volume", 1),
        (ValueError("no config x\nmore"), "cannot be fetched", "configuration", 1),
    ],
)
def test_only_what_the_user_can_mend_is_not_tried_again(error: Exception, fact: str, remedy: str, code: int) -> None:
    """A Job of Kubernetes ends for good at exit code 2."""
    refusal = explain(error, "model ours/bert", "https://hub")
    assert fact in refusal.fact and remedy in refusal.remedy and refusal.code == code
    assert refusal.value.startswith("model ours/bert") and "\n" not in refusal.value
