"""What of a model is fetched, and what is said at the end."""

from __future__ import annotations

import json
import os
from unittest import mock

import pytest

from entrypoint.errors import WORLD, Refusal
from entrypoint.programs import prefetch
from entrypoint.programs.prefetch import choose_files, main

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
    assert "qa is in /models and /data; " in last and ("HF_HUB_OFFLINE=1" in last) is offline


def test_an_end_that_nobody_can_read_is_an_error_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(text: str) -> None:
        raise Refusal("cannot write the output", "No space left on device", "another place", WORLD)

    monkeypatch.setattr(prefetch, "print_output", refuse)
    with mock.patch.dict(os.environ):
        plan = {"task": "qa", "wanted": [], "whole": True, "caches": ["/hf"]}
        assert main([json.dumps(plan)], {"HF_HOME": "/hf"}, "/") == WORLD
    assert "cannot write the output" in capsys.readouterr().err
