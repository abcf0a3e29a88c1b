"""Flags of one release, typed for another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.flags import ERAS, split_flags, translate
from entrypoint.stack import Stack

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "")


def turn(line: str, transformers: str, backend: str = "gloo") -> tuple[str, int]:
    stack = NEW._replace(transformers=transformers, backend=backend)
    flags, notes = translate(split_flags(line.split()), stack)
    return " ".join(word for flag in flags for word in flag.words()), len(notes)


@pytest.mark.parametrize(
    ("line", "release", "result", "notes"),
    [
        ("--no_cuda", "5.23.0", "--use_cpu", 1),
        ("--no_cuda", "4.46.0", "--no_cuda", 0),
        ("--use_cpu", "4.31.0", "--no_cuda", 1),
        ("--evaluation_strategy epoch", "4.57.6", "--eval_strategy epoch", 1),
        ("--evaluation-strategy=epoch", "4.57.6", "--eval_strategy=epoch", 1),
        ("--eval_strategy epoch", "4.40.0", "--evaluation_strategy epoch", 1),
        ("--use_ipex --bf16", "4.57.6", "--bf16", 1),
        ("--use_ipex True --bf16", "5.0.0", "--bf16", 1),
        ("--overwrite_output_dir --seed 1", "5.0.0", "--seed 1", 1),
        ("--warmup_ratio 0.1", "5.16.0", "--warmup_steps 0.1", 1),
        ("--group_by_length", "5.3.0", "--train_sampling_strategy group_by_length", 1),
        ("--group_by_length False", "5.3.0", "", 1),
        ("--ddp_backend ccl", "5.23.0", "--ddp_backend gloo", 1),
        ("--ddp_backend=ccl", "4.46.0", "--ddp_backend=gloo", 1),
        ("--mine 1 2 --other=-3 --bf16", "5.23.0", "--mine 1 2 --other=-3 --bf16", 0),
    ],
)
def test_translate(line: str, release: str, result: str, notes: int) -> None:
    assert turn(line, release) == (result, notes)


def test_ccl_stays_where_the_bindings_are() -> None:
    assert turn("--ddp_backend ccl", "4.46.0", "ccl") == ("--ddp_backend ccl", 0)
    assert turn("--ddp_backend ccl", "4.29.0", "ccl") == ("--xpu_backend ccl", 1)
    assert turn("--ddp_backend ccl", "5.1.0", "ccl") == ("--ddp_backend gloo", 1)


def test_a_note_gives_the_reason() -> None:
    _, notes = translate(split_flags(["--no_cuda"]), NEW)
    assert notes == ["--no_cuda became --use_cpu: removed in transformers 5.0, installed is 5.23.0"]


@given(st.lists(st.text(min_size=1).map(lambda text: text.replace("=", ""))))
def test_what_is_unknown_goes_through_untouched(words: list[str]) -> None:
    flags = split_flags(words)
    if not {flag.name.replace("-", "_") for flag in flags} & {era.name for era in ERAS}:
        assert [word for flag in translate(flags, NEW)[0] for word in flag.words()] == words
