"""The command line of a task: what is left of the defaults beside the user's arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.errors import Refusal
from entrypoint.machine.files import read_file
from entrypoint.machine.image import Stack
from entrypoint.tasks.arguments import Arguments, arguments, find_output, read_batch, read_given
from entrypoint.tasks.tasks import TASKS

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")
GUIDE = NEW._replace(torch="2.4.0+cpu", transformers="4.46.0", backend="ccl")
OLD = GUIDE._replace(transformers="4.31.0", backend="gloo")
QA = (
    "--model_name_or_path distilbert/distilbert-base-uncased --dataset_name rajpurkar/squad --do_train --do_eval "
    "--per_device_train_batch_size 12 --learning_rate 3e-5 --num_train_epochs 2 --max_seq_length 384 "
    "--doc_stride 128 --output_dir /workspace/output/qa --use_cpu"
)
BARE = QA.replace("--do_train --do_eval ", "").replace("/qa --use_cpu", "/qa-no-trainer")


def make(name: str, line: str, stack: Stack = NEW, *, many: bool = False) -> Arguments:
    return arguments(name, TASKS[name], line.split(), stack, many=many)


def text(name: str, line: str, stack: Stack = NEW, *, many: bool = False) -> str:
    return " ".join(make(name, line, stack, many=many).words)


def test_qa_has_the_defaults_of_the_guide() -> None:
    assert text("qa", "") == QA
    assert text("qa", "--bf16") == f"{QA} --bf16"
    assert text("qa", "", GUIDE, many=True) == f"{QA} --ddp_backend ccl"
    assert text("qa", "", GUIDE) == QA
    assert text("qa", "", NEW, many=True) == QA


def test_defaults_are_those_of_the_installed_release() -> None:
    assert text("qa", "", OLD) == QA.replace("--use_cpu", "--no_cuda")
    assert "--evaluation_strategy epoch" in text("mim", "", OLD)
    assert "--warmup_ratio 0.05" in text("mae", "", GUIDE) and "--warmup_steps 0.05" in text("mae", "")
    assert make("mae", "", OLD).notes == []


@pytest.mark.parametrize("line", ["--learning_rate 1e-4", "--learning_rate=1e-4", "--learning-rate 1e-4"])
def test_arguments_replace_defaults_one_by_one(line: str) -> None:
    assert text("qa", line) == QA.replace("--learning_rate 3e-5 ", "") + " " + line


@pytest.mark.parametrize(
    ("name", "line", "kept"),
    [
        ("summarization", "", True),
        ("summarization", "--train_file t.csv", True),
        ("summarization", "--model_name_or_path t5-base", True),
        ("summarization-no-trainer", "--model_name_or_path google-t5/t5-large", True),
        ("summarization", "--model_name_or_path=/d/T5/", True),
        ("summarization", "--model_name_or_path facebook/bart-base", False),
        ("summarization-no-trainer", "--model-name-or-path google/mt5-small", False),
        ("translation", "--source_lang en --target_lang ro --train_file t.json", True),
        ("translation", "--source_lang en --target_lang de --dataset_config_name de-en", False),
        ("translation", "--model_name_or_path t5-base --source_lang ro --target_lang en", False),
        ("translation", "--target_l de", False),
        ("translation", "--model_name_or_path facebook/mbart-large-en-ro", False),
    ],
)
def test_the_prefix_of_t5_is_no_default_for_others(name: str, line: str, *, kept: bool) -> None:
    made = make(name, line)
    assert ("--source_prefix" in made.words) is kept
    assert any("is left out, as for a model that is no T5" in note for note in made.notes) is not kept


def test_the_output_can_go_elsewhere() -> None:
    words = make("qa", "--output_dir=/out").words
    assert "--output_dir=/out" in words and "/workspace/output/qa" not in words


@pytest.mark.parametrize("name", ["qa", "qa-no-trainer"])
@pytest.mark.parametrize("typed", ["--output_d /out", "--out=/out", "--output-d /out"])
def test_a_beginning_of_the_directory_for_results_is_spelled_out(name: str, typed: str) -> None:
    words = make(name, typed).words
    assert find_output(read_given(words, read_file, strict=True)) == "/out"
    assert not [word for word in words if word.startswith("--out") and not word.startswith("--output_dir")]


def test_a_beginning_of_the_number_of_steps_is_spelled_out() -> None:
    """Else a run that goes on would get the number of its checkpoint beside it."""
    words = make("clm", "--max_st 40").words
    assert read_given(words, read_file, strict=True)["max_steps"] == "40" and "--max_st" not in words


@pytest.mark.parametrize("flag", ["--ddp_backend ccl", "--ddp-backend=gloo", "--xpu_backend ccl"])
def test_one_process_has_no_backend(flag: str) -> None:
    made = make("qa", f"{flag} --seed 1", GUIDE)
    assert " ".join(made.words) == f"{QA} --seed 1"
    assert made.notes == [f"{flag} is left out: one process has no other to communicate with"]
    assert "_backend" in text("qa", flag, GUIDE, many=True).replace("-", "_")


def test_a_directory_of_a_data_set_s_name_is_what_is_trained_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imdb").mkdir()
    (tmp_path / "args.json").write_text('{"dataset_name": "imdb", "output_dir": "out"}')
    monkeypatch.chdir(tmp_path)
    assert make("classification", "--dataset_name imdb").notes == []
    assert make("classification", "args.json").found is None
    assert "stanfordnlp/imdb" not in text("classification", "--dataset_name imdb")


def test_a_file_of_arguments_stands_alone(tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text('{"seed": 1}')
    assert text("qa", str(file)) == str(file)


@pytest.mark.parametrize(
    ("name", "line", "remedy"),
    [
        ("qa", "args.json --bf16", "qa --name value, or qa FILE.json for all arguments"),
        ("qa", "squad", "qa --name value, or qa FILE.json for all arguments"),
        ("qa-no-trainer", "args.json", "qa-no-trainer --name value"),
        ("generation", "hello", "generation --name value"),
        ("generation", "-3", "generation --name value"),
    ],
)
def test_a_word_before_the_flags_is_no_value_of_a_default(name: str, line: str, remedy: str) -> None:
    with pytest.raises(Refusal, match="no word before its flags") as caught:
        make(name, line)
    assert caught.value.remedy == remedy


def test_a_flag_has_two_dashes() -> None:
    with pytest.raises(Refusal, match="two dashes: -bf16") as caught:
        make("qa", "-bf16 --seed 1")
    assert caught.value.remedy == "--bf16"


@pytest.mark.parametrize("line", ["-h", "-- x", "--seed -1", "--max_steps=-1 --weight_decay -0.1"])
def test_one_may_ask_for_help_and_give_negative_numbers(line: str) -> None:
    assert text("qa", line).endswith(line)


def test_a_value_may_have_blanks() -> None:
    assert "translate English to Romanian: " in make("translation", "").words


@pytest.mark.parametrize("name", ["summarization-no-trainer", "translation-no-trainer"])
def test_a_number_of_beams_is_given_where_the_script_has_none(name: str) -> None:
    assert "--num_beams 1" in text(name, "")
    assert text(name, "--num_beams 4").count("--num_beams") == 1


def test_generation_has_flags_of_its_own() -> None:
    assert text("generation", "--prompt x --no_cuda").endswith("--prompt x --no_cuda")
    assert "--output_dir" not in text("generation", "")
    assert text("generation", "--model_name_or_path /d/gpt2") == "--model_type gpt2 --model_name_or_path /d/gpt2"
    assert "--model_name_or_path openai-community/gpt2" in text("generation", "--model_type gpt2")


def test_a_script_without_the_trainer_takes_its_flags_from_the_environment() -> None:
    made = make("qa-no-trainer", "--do_train --bf16 --use_cpu --max_train_samples 8")
    assert " ".join(made.words) == f"{BARE} --max_train_samples 8"
    assert made.environ == {"ACCELERATE_MIXED_PRECISION": "bf16"}
    assert len(made.notes) == 3
    because = "that is the Trainer's, which this script does without"
    assert f"--bf16 became ACCELERATE_MIXED_PRECISION=bf16: {because}" in made.notes


def test_a_script_without_the_trainer_keeps_what_is_its_own_or_unknown() -> None:
    unknown = "--evaluation_strategy epoch --optim adamw_hf --warmup_ratio 0.1"
    made = make("ner-no-trainer", f"--ddp_backend ccl --use_ipex --no_cuda --dataset_name squad {unknown}")
    assert " ".join(made.words).endswith(f"/ner-no-trainer --dataset_name rajpurkar/squad {unknown}")
    because = "is left out: that is the Trainer's, which this script does without"
    assert made.notes[:3] == [f"{flag} {because}" for flag in ("--ddp_backend ccl", "--use_ipex", "--no_cuda")]
    assert len(made.notes) == 4


def test_bf16_can_be_off() -> None:
    assert make("qa-no-trainer", "--bf16 False").environ == {}


@given(st.lists(st.sampled_from(["--alpha", "--beta=1", "--gamma", "2", "x y", "--", "-3"])), st.sampled_from([*TASKS]))
def test_what_is_unknown_ends_the_line_as_it_was_typed(words: list[str], name: str) -> None:
    made = arguments(name, TASKS[name], ["--zeta", *words], NEW, many=True)
    assert made.words[len(made.words) - len(words) - 1 :] == ["--zeta", *words]
    assert made.notes == []


@pytest.mark.parametrize(
    ("given", "batch"),
    [
        ({"per_device_train_batch_size": "12"}, 12),
        ({"per_device_train_batch_size": 8, "gradient_accumulation_steps": "4"}, 32),
        ({"per_device_train_batch_size": True}, None),
        ({"gradient_accumulation_steps": "4"}, None),
        ({}, None),
    ],
)
def test_the_batch_of_one_process_counts_accumulated_steps(given: dict[str, object], batch: int | None) -> None:
    assert read_batch(given) == batch
