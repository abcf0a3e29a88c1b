"""What of a model is fetched, and what is said at the end."""

from __future__ import annotations

import json
import os
from unittest import mock

import pytest

from multinode_image.programs.prefetch import choose_files, explain, main

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


def test_what_a_library_says_is_in_one_row() -> None:
    refusal = explain(ValueError("no config x\nmore"), "model ours/bert", "https://hub")
    assert refusal.value == "model ours/bert from https://hub: ValueError: no config x more"
    assert "HF_TOKEN" in refusal.remedy and refusal.code == 1
