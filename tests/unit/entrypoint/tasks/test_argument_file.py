"""Arguments by name, typed or in a JSON file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.tasks.arguments import adapt_file, find_output, read_given
from entrypoint.tasks.command import read_program
from entrypoint.tasks.job import Job


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["--bf16", "--output-dir", "/out"], {"bf16": True, "output_dir": "/out"}),
        (["x", "--output_dir=/a", "--output_dir", "/b"], {"output_dir": "/b"}),
        (["--label_names", "a", "b", "--empty", "", "--bf16"], {"label_names": "a b", "empty": "", "bf16": True}),
        (["args.json"], {"output_dir": "/json", "bf16": True}),
        (["args.json", "--bf16"], {"bf16": True}),
    ],
)
def test_flags_and_a_file_of_arguments_are_read_as_the_trainer_reads_them(
    words: list[str], expected: dict[str, object]
) -> None:
    text = '{"output_dir": "/json", "bf16": true}'
    assert read_given(words, lambda path: text, strict=True) == expected


def test_a_word_of_the_user_s_own_script_is_no_second_value() -> None:
    assert read_given(["--output_dir", "/out", "data.txt"], lambda path: None, strict=False) == {"output_dir": "/out"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: a.json"),
        ("", "is not JSON: a.json: Expecting value"),
        ("{'a': 1}", "is not JSON"),
        ("[1]", "is not a JSON object: a.json: a list"),
        ("null", "is not a JSON object: a.json: a NoneType"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_file_without_arguments_is_refused_or_empty(text: str | None, said: str) -> None:
    with pytest.raises(Refusal, match=re.escape(said)):
        read_given(["a.json"], lambda path: text, strict=True)
    assert read_given(["a.json"], lambda path: text, strict=False) == {}


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_file_is_an_object_or_refused(text: str) -> None:
    try:
        assert isinstance(read_given(["a.json"], lambda path: text, strict=True), dict)
    except Refusal as refusal:
        assert refusal.code == 2


@pytest.mark.parametrize(
    ("value", "directory"),
    [
        ("/out", "/out"),
        (True, None),
        (3, None),
        ("", None),
        ("s3://bucket/out", None),
        ("/a\0b", None),
        ("/\ud800", None),
    ],
)
def test_only_a_path_is_a_directory_for_results(value: object, directory: str | None) -> None:
    assert find_output({"output_dir": value}) == directory


NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/w", "")


@pytest.mark.parametrize(
    ("given", "release", "many", "expected"),
    [
        ({"no_cuda": True, "seed": 1}, "5.23.0", False, {"use_cpu": True, "seed": 1}),
        ({"no_cuda": False}, "5.23.0", False, {"use_cpu": False}),
        ({"evaluation_strategy": "epoch"}, "5.23.0", False, {"eval_strategy": "epoch"}),
        ({"use_ipex": True, "label_names": ["a"]}, "5.23.0", False, {"label_names": ["a"]}),
        ({"warmup_ratio": 0.1}, "5.23.0", False, {"warmup_steps": 0.1}),
        ({"warmup_ratio": 1.0}, "5.23.0", False, {"warmup_steps": 0.9999999}),
        ({"group_by_length": True}, "5.23.0", False, {"train_sampling_strategy": "group_by_length"}),
        ({"train_sampling_strategy": "group_by_length"}, "4.57.6", False, {"group_by_length": True}),
        ({"ddp_backend": "gloo"}, "5.23.0", False, {}),
        ({"bf16": True}, "5.23.0", False, {"bf16": True, "use_cpu": True}),
        ({"bf16_full_eval": True}, "5.23.0", False, {"bf16_full_eval": True, "use_cpu": True}),
        (
            {"per_device_train_batch_size": 4, "per_gpu_train_batch_size": None},
            "5.23.0",
            False,
            {"per_device_train_batch_size": 4},
        ),
        ({"evaluation_strategy": None, "eval_strategy": "no"}, "5.23.0", False, {"eval_strategy": "no"}),
        ({"use_cpu": True, "no_cuda": False}, "5.23.0", False, {"use_cpu": True}),
        ({"no_cuda": False, "use_cpu": True}, "5.23.0", False, {"use_cpu": True}),
        ({"no_cuda": True, "use_cpu": None}, "5.23.0", False, {"use_cpu": True}),
        ({"use_cpu": True, "no_cuda": False}, "4.57.6", False, None),
        ({"adafactor": True, "optim": "adamw_torch"}, "5.23.0", False, {"optim": "adamw_torch"}),
        ({"logging_dir": None, "seed": 1}, "5.23.0", False, {"seed": 1}),
        ({"warmup_ratio": 0.1, "warmup_steps": 0}, "5.23.0", False, {"warmup_steps": 0.1}),
        ({"warmup_ratio": 0.1, "warmup_steps": None}, "5.23.0", False, {"warmup_steps": 0.1}),
        ({"warmup_ratio": None, "warmup_steps": 9}, "5.23.0", False, {"warmup_steps": 9}),
        ({"eval_strategy": "epoch", "evaluation_strategy": None}, "4.30.2", False, {"evaluation_strategy": "epoch"}),
        ({"ddp_backend": None, "seed": None}, "5.23.0", False, None),
        ({"bf16": "t"}, "5.23.0", False, {"bf16": "t", "use_cpu": True}),
        ({"bf16_full_eval": False}, "5.23.0", False, None),
        ({"bf16": True, "use_cpu": True}, "5.23.0", False, None),
        ({"bf16": True}, "4.57.6", False, {"bf16": True, "use_cpu": True}),
        ({"bf16": True}, "4.51.3", False, None),
        ({"ddp_backend": "gloo", "seed": 1, "mine": None}, "5.23.0", True, None),
        ({}, "5.23.0", False, None),
    ],
)
def test_a_file_for_another_release_is_translated(
    given: dict[str, object], release: str, many: bool, expected: dict[str, object] | None
) -> None:
    """A name that the file has is never replaced by an older one that is null or beside it."""
    output = {"output_dir": "/out"}
    made = adapt_file("qa", ["a.json"], {**given, **output}, NEW._replace(transformers=release), many=many)
    assert made.found == (None if expected is None else {**expected, **output})
    assert bool(made.notes) == (expected is not None)
    assert made.environ == {}


@pytest.mark.parametrize("given", [{"seed": 1}, {"seed": 1, "output_dir": None}])
def test_a_file_without_a_directory_for_results_gets_that_of_its_task(given: dict[str, object]) -> None:
    made = adapt_file("qa", ["a.json"], given, NEW, many=False)
    assert made.found == {"seed": 1, "output_dir": "/workspace/output/qa"}
    assert made.notes == [
        "output_dir /workspace/output/qa is added to the arguments, which do not say where results go"
    ]


def test_a_name_with_a_dash_in_a_file_is_refused_by_name() -> None:
    with pytest.raises(Refusal, match="have no dashes: output-dir\n  try: output_dir"):
        adapt_file("qa", ["a.json"], {"seed": 1, "output-dir": "/out"}, NEW, many=False)


def test_a_translated_file_is_private_and_has_a_path_of_its_own(tmp_path: Path) -> None:
    paths = set()
    for seed in (1, 2):
        file = tmp_path / f"{seed}.json"
        file.write_text(json.dumps({"no_cuda": True, "seed": seed, "output_dir": "/out"}))
        program = read_program(Job("task", "qa", [str(file)]), NEW, "/", many=False)
        ((path, text),) = program.files.items()
        assert json.loads(text) == program.given == {"use_cpu": True, "seed": seed, "output_dir": "/out"}
        assert program.words[1:] == [path]
        paths.add(path)
    assert len(paths) == 2
