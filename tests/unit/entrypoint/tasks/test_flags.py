"""Flags of one release, typed for another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.machine.image import Stack
from entrypoint.tasks.eras import CHOICES, ERAS, OF_ACCELERATE, OF_TRAINER, WITHOUT_TRAINER, Table
from entrypoint.tasks.flags import Flag, Translated, plain, split_flags, translate

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "")
KNOWN = {row.name for row in (*ERAS, *CHOICES, *WITHOUT_TRAINER)}
RELEASES = ("4.30.2", "4.35.2", "4.40.2", "4.46.3", "4.57.6", "5.0.0", "5.14.1", "5.23.0")


def turn(line: str, transformers: str, backend: str = "gloo") -> tuple[str, Translated]:
    made = translate(split_flags(line.split()), NEW._replace(transformers=transformers, backend=backend))
    return " ".join(word for flag in made.flags for word in flag.words()), made


@pytest.mark.parametrize("stack", ["4.41.2", "4.42.0", "5.0.0"])
def test_labels_are_reduced_without_the_trainer_too(stack: str) -> None:
    name = "do_reduce_labels" if stack >= "5" else "reduce_labels"
    made = translate(split_flags(["--reduce_labels"]), NEW._replace(transformers=stack), OF_ACCELERATE)
    assert [flag.name for flag in made.flags] == [name]


@pytest.mark.parametrize(
    ("line", "release", "result"),
    [
        ("--no_cuda", "5.23.0", "--use_cpu"),
        ("--no_cuda False", "5.0.0", "--use_cpu False"),
        ("--use_cpu", "4.31.0", "--no_cuda"),
        ("--evaluation_strategy epoch", "4.57.6", "--eval_strategy epoch"),
        ("--evaluation-strategy=epoch", "4.57.6", "--eval_strategy=epoch"),
        ("--eval_strategy epoch", "4.40.0", "--evaluation_strategy epoch"),
        ("--xpu_backend ccl", "5.23.0", "--ddp_backend gloo"),
        ("--use_ipex --bf16", "4.57.6", "--bf16"),
        ("--use_ipex True --bf16", "5.0.0", "--bf16"),
        ("--overwrite_output_dir --seed 1", "5.0.0", "--seed 1"),
        ("--no_save_safetensors", "5.0.0", ""),
        ("--torchdynamo inductor", "5.0.0", "--torch_compile_backend inductor"),
        ("--adafactor", "5.0.0", "--optim adafactor"),
        ("--reduce_labels", "5.0.0", "--do_reduce_labels"),
        ("--do_reduce_labels True", "4.41.2", "--reduce_labels True"),
        ("--freeze_feature_extractor True --seed 1", "5.0.0", "--seed 1"),
        ("--adafactor False", "5.0.0", ""),
        ("--adafactor=True", "5.0.0", "--optim=adafactor"),
        ("--optim adamw_hf", "4.50.0", "--optim adamw_torch"),
        ("--warmup_ratio 0.1", "5.15.0", "--warmup_steps 0.1"),
        ("--warmup_steps 0.1", "4.57.6", "--warmup_ratio 0.1"),
        ("--group_by_length", "5.2.0", "--train_sampling_strategy group_by_length"),
        ("--group_by_length False", "5.2.0", ""),
        ("--train_sampling_strategy group_by_length", "5.1.0", "--group_by_length True"),
        ("--train_sampling_strategy=random", "5.1.0", ""),
        ("--include_inputs_for_metrics", "5.0.0", "--include_for_metrics inputs"),
        ("--include_for_metrics inputs", "4.45.0", "--include_inputs_for_metrics True"),
        ("--activation_checkpointing", "5.22.2", "--gradient_checkpointing"),
        ("--push_to_hub_model_id m", "5.0.0", "--hub_model_id m"),
        ("--torch_dtype bfloat16", "4.56.0", "--dtype bfloat16"),
        ("--dtype bfloat16", "4.55.4", "--torch_dtype bfloat16"),
        ("--use_auth_token", "4.41.0", ""),
        ("--ddp_backend ccl", "5.23.0", "--ddp_backend gloo"),
        ("--ddp_backend=ccl", "4.46.0", "--ddp_backend=gloo"),
        ("--dataset_name squad", "5.0.0", "--dataset_name rajpurkar/squad"),
    ],
)
def test_what_another_release_has_is_translated(line: str, release: str, result: str) -> None:
    text, made = turn(line, release)
    assert text == result
    assert len(made.notes) == 1 and "\n" not in made.notes[0]


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("--no_cuda", "4.46.0"),
        ("--warmup_steps 500", "4.46.0"),
        ("--warmup_steps", "4.46.0"),
        ("--warmup_steps 0.1", "5.0.0"),
        ("--optim adamw_hf", "4.49.0"),
        ("--train_sampling_strategy sequential", "5.1.0"),
        ("--include_for_metrics inputs loss", "4.45.0"),
        ("--gradient_checkpointing", "5.23.0"),
        ("--past_index 2", "5.0.0"),
        ("--dataset_name=squad", "4.57.6"),
        ("--dataset_name mine/squad", "5.0.0"),
        ("--mine 1 2 --other=-3 --bf16", "5.23.0"),
        ("--reduce_labels", "4.57.6"),
        ("--do_reduce_labels", "4.42.0"),
        ("--freeze_feature_extractor", "4.57.6"),
    ],
)
def test_what_the_release_has_or_nothing_stands_for_is_untouched(line: str, release: str) -> None:
    text, made = turn(line, release)
    assert (text, made.notes, made.environ) == (line, [], {})


@pytest.mark.parametrize(("there", "result"), [("imdb", "imdb"), ("squad", "stanfordnlp/imdb")])
@pytest.mark.parametrize("table", [OF_TRAINER, OF_ACCELERATE])
def test_a_local_data_set_is_not_one_of_the_hub(there: str, result: str, table: Table) -> None:
    made = translate([Flag("dataset_name", ("imdb",))], NEW, table, lambda path: path == there)
    assert made.flags == [Flag("dataset_name", (result,))] and len(made.notes) == (there != "imdb")


@pytest.mark.parametrize(
    ("line", "release", "result", "notes"),
    [
        ("--warmup_steps 500 --warmup_ratio 0.1", "5.23.0", "--warmup_steps 500", 1),
        ("--warmup_ratio 0.1 --warmup_steps 500", "5.0.0", "--warmup_steps 500", 1),
        ("--warmup-ratio=0.1 --warmup-steps=0 --seed 1", "5.23.0", "--warmup_steps=0.1 --seed 1", 2),
        ("--warmup_steps 0.2 --warmup_ratio 0.1", "4.57.6", "--warmup_ratio 0.2", 2),
        ("--warmup_steps 500 --warmup_ratio 0.1", "4.57.6", "--warmup_steps 500 --warmup_ratio 0.1", 0),
        ("--warmup_ratio 1.0", "5.23.0", "--warmup_steps 0.9999999", 1),
        ("--warmup_ratio 1.0", "4.57.6", "--warmup_ratio 1.0", 0),
        ("--warmup_ratio x --warmup_steps 500", "5.23.0", "--warmup_steps x --warmup_steps 500", 1),
    ],
)
def test_one_of_two_warm_ups_decides(line: str, release: str, result: str, notes: int) -> None:
    text, made = turn(line, release)
    assert (text, len(made.notes)) == (result, notes)


def test_a_flag_can_become_a_variable() -> None:
    text, made = turn("--logging_dir /logs --seed 1", "5.23.0")
    assert (text, made.environ) == ("--seed 1", {"TENSORBOARD_LOGGING_DIR": "/logs"})
    assert made.notes[0].startswith("--logging_dir /logs became TENSORBOARD_LOGGING_DIR=/logs: removed in")


def test_ccl_stays_where_the_bindings_are() -> None:
    assert turn("--ddp_backend ccl", "4.46.0", "ccl")[0] == "--ddp_backend ccl"
    assert turn("--xpu_backend ccl", "4.31.0", "ccl")[0] == "--xpu_backend ccl"
    assert turn("--ddp_backend ccl", "5.1.0", "ccl")[0] == "--ddp_backend gloo"
    assert turn("--use_ipex --bf16", "4.46.0", "ccl")[0] == "--use_ipex --bf16"


@pytest.mark.parametrize(
    ("line", "release", "note"),
    [
        ("--no_cuda", "5.23.0", "--no_cuda became --use_cpu: removed in transformers 5.0, installed is 5.23.0"),
        ("--use_ipex", "5.0.0", "--use_ipex is left out: removed in transformers 4.57, installed is 5.0.0"),
        ("--use_ipex", "4.46.0", "--use_ipex is left out: this image has no IPEX"),
        ("--use_cpu", "4.31.0", "--use_cpu became --no_cuda: new in transformers 4.32, installed is 4.31.0"),
        ("--ddp_backend ccl", "4.46.0",
         "--ddp_backend ccl became --ddp_backend gloo: this image has no oneCCL bindings"),
        ("--dataset_name squad", "5.23.0", "--dataset_name squad became --dataset_name rajpurkar/squad: "
         "datasets finds no data set without its owner since huggingface_hub 1.16"),
        ("--push_to_hub_token hf_x", "5.0.0",
         "--push_to_hub_token *** became --hub_token ***: removed in transformers 5.0, installed is 5.0.0"),
    ],
)  # fmt: skip
def test_a_note_gives_the_reason_and_no_secret(line: str, release: str, note: str) -> None:
    assert turn(line, release)[1].notes == [note]


WORDS = st.lists(st.one_of(st.text(min_size=1), st.text(min_size=1).map(lambda text: f"--{text}")))


@given(WORDS)
def test_splitting_loses_nothing(words: list[str]) -> None:
    assert [word for flag in split_flags(words) for word in flag.words()] == words


@given(WORDS, st.sampled_from(RELEASES), st.sampled_from([OF_TRAINER, OF_ACCELERATE]))
def test_what_is_unknown_goes_through_untouched(words: list[str], release: str, table: Table) -> None:
    flags = [flag for flag in split_flags(words) if plain(flag.name) not in KNOWN]
    made = translate(flags, NEW._replace(transformers=release), table)
    assert made == (flags, [], {})


@given(st.lists(st.sampled_from(sorted(KNOWN))), WORDS, st.sampled_from(RELEASES))
def test_known_flags_leave_the_others_in_order(names: list[str], words: list[str], release: str) -> None:
    mine = [flag for flag in split_flags(words) if plain(flag.name) not in KNOWN and flag.name]
    mixed = [*split_flags([f"--{name}" for name in names]), *mine]
    made = translate(mixed, NEW._replace(transformers=release))
    assert made.flags[len(made.flags) - len(mine) :] == mine
    assert len(made.notes) <= len(names)


@pytest.mark.parametrize("release", RELEASES)
def test_translating_twice_changes_nothing_more(release: str) -> None:
    stack = NEW._replace(transformers=release)
    once = translate(split_flags([f"--{era.name}" for era in ERAS]), stack)
    assert translate(once.flags, stack) == (once.flags, [], {})
