"""What becomes of the arguments of a task: flags and files, and the defaults that are left beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack
from multinode_image.tasks.aliases import Flag, split_flags
from multinode_image.tasks.arguments import Program, complete, guess_arguments, name_flags, read_argfile, read_batch
from multinode_image.tasks.defaults import choose_defaults
from multinode_image.tasks.table import TASKS, find_task
from tests.support.starts import CCL as GUIDE
from tests.support.starts import GLOO as NEW

OLD = GUIDE._replace(transformers="4.31.0", backend="gloo")
QA = (
    "--model_name_or_path distilbert/distilbert-base-uncased --dataset_name rajpurkar/squad --do_train --do_eval "
    "--pad_to_max_length False --per_device_train_batch_size 12 --learning_rate 3e-5 --num_train_epochs 2 "
    "--max_seq_length 384 --doc_stride 128 --output_dir /workspace/output/qa --use_cpu"
)


def make(name: str, line: str, stack: Stack = NEW, *, many: bool = False) -> Program:
    return complete(find_task(name), "x.py", line.split(), stack, many=many)


def text(name: str, line: str, stack: Stack = NEW, *, many: bool = False) -> str:
    return " ".join(make(name, line, stack, many=many).words[1:])


@pytest.mark.parametrize(
    ("name", "line", "stack", "many", "result"),
    [
        ("qa", "", NEW, False, QA),
        ("qa", "", NEW, True, QA),
        ("qa", "", GUIDE, True, f"{QA} --ddp_backend ccl"),
        ("qa", "", GUIDE, False, QA),
        ("qa", "", OLD, False,
         QA.replace("--use_cpu", "--no_cuda").replace("length False", "length False --group_by_length")),
        ("qa", "--bf16", NEW, False, f"{QA} --bf16"),
        ("qa", "--learning-rate=1e-4", NEW, False, QA.replace("--learning_rate 3e-5 ", "") + " --learning-rate=1e-4"),
        ("qa", "--ddp_backend ccl --seed 1", GUIDE, False, f"{QA} --seed 1"),
        ("qa", "--ddp-backend=gloo", GUIDE, True, f"{QA} --ddp-backend=gloo"),
        ("qa", "-h", NEW, False, f"{QA} -h"),
        ("qa", "--", NEW, False, f"{QA} --"),
        ("clip", "", OLD, True, "--output_dir /workspace/output/clip --no_cuda"),
        ("qa", "--max_steps=-1 --weight_decay -0.1", NEW, False,
         QA.replace("--num_train_epochs 2 ", "") + " --max_steps=-1 --weight_decay -0.1"),
        ("qa-no-trainer", "--seed 8", NEW, True, "--output_dir /workspace/output/qa-no-trainer --seed 8"),
        ("clip", "--dataset_name x", NEW, False, "--output_dir /workspace/output/clip --use_cpu --dataset_name x"),
        ("generation", "--prompt x --no_cuda", NEW, False,
         "--model_type gpt2 --model_name_or_path openai-community/gpt2 --prompt x --no_cuda"),
    ],
)  # fmt: skip
def test_what_is_typed_comes_after_the_defaults_that_it_does_not_replace(
    name: str, line: str, stack: Stack, many: bool, result: str
) -> None:
    assert text(name, line, stack, many=many) == result


@pytest.mark.parametrize(
    ("name", "line", "flag", "stays"),
    [
        ("qa", "--train_file t.json", "--dataset_name", False),
        ("clm", "--dataset_name mine", "--dataset_config_name", False),
        ("classification", "--dataset_name mine", "--text_column_names", False),
        ("glue", "--dataset_name mine", "--task_name", False),
        ("qa", "--max_steps 10", "--num_train_epochs", False),
        ("clm", "--model_type gpt2 --train_file t.txt", "--model_name_or_path", False),
        ("mlm", "--config_overrides=n_layer=2", "--model_name_or_path", False),
        ("generation", "--model_name_or_path facebook/opt-350m", "--model_type", False),
        ("generation", "--model_type opt", "--model_name_or_path", False),
        ("summarization", "--model_name_or_path facebook/bart-base", "--source_prefix", False),
        ("translation", "--source_lang en --target_lang de --dataset_config_name de-en", "--source_prefix", False),
        ("qa", "--do_train", "--do_eval", False),
        ("qa", "--do-eval=True", "--do_train", False),
        ("qa", "--do_predict", "--do_train", False),
        ("qa", "--train_file t.json", "--do_eval", False),
        ("qa", "--do_eval False", "--do_train", True),
        ("qa", "--do_predict no", "--do_eval", True),
        ("qa", "--train_file t.json --validation_file v.json", "--do_eval", True),
        ("clm", "--train_file t.txt", "--do_eval", True),
        ("qa", "--config_name c", "--model_name_or_path", True),
        ("summarization", "--model_name_or_path=/d/T5/", "--source_prefix", True),
        ("translation", "--source_lang en --target_lang ro --train_file t.json", "--source_prefix", True),
    ],
)
def test_a_default_that_makes_no_sense_beside_the_user_s_is_left_out(
    name: str, line: str, flag: str, stays: bool
) -> None:
    assert flag in text(name, "").split() and (flag in text(name, line).split()) is stays


PAD, GROUP, OLD_GROUP = "--pad_to_max_length False", "--train_sampling_strategy group_by_length", "--group_by_length"


@pytest.mark.parametrize(
    ("name", "line", "release", "added"),
    [
        ("glue", "", "5.23.0", [PAD, GROUP]),
        ("glue", "", "5.1.0", [PAD, OLD_GROUP]),
        ("glue", "--do_predict", "5.23.0", [PAD]),
        ("glue", "--do_train --do_predict", "4.45.2", [PAD, OLD_GROUP]),
        ("glue", "--train_sampling_strategy random", "5.23.0", [PAD]),
        ("glue", "--group_by_length False", "5.23.0", [PAD]),
        ("glue", "--group_by_length False", "4.57.6", [PAD]),
        ("glue", "--pad_to_max_length", "5.23.0", []),
        ("glue", "--pad_to_max_length False", "5.23.0", [GROUP]),
        ("ner", "", "5.23.0", [GROUP]),
        ("ner", "--pad_to_max_length True", "5.23.0", []),
        ("summarization", "", "4.46.0", [OLD_GROUP]),
        ("summarization", "--do_train --do_predict", "4.46.0", []),
        ("qa", "", "4.45.2", [PAD, OLD_GROUP]),
        ("qa", "", "4.46.0", [PAD]),
        ("qa", "--do_train", "5.23.0", [PAD, GROUP]),
        ("qa", "--do_train --eval_strategy no", "5.23.0", [PAD, GROUP]),
        ("qa", "--do_train --eval_strategy epoch", "5.23.0", [PAD]),
        ("qa-seq2seq", "", "5.23.0", [PAD]),
        # These pad to a fixed length, pad by themselves, have one length, or fill each example.
        *((name, "--do_train", "5.23.0", []) for name in ("qa-beam", "glue-no-trainer", "clm", "mim")),
    ],
)
def test_batches_are_short_and_of_like_length_where_the_result_is_the_same(
    name: str, line: str, release: str, added: list[str]
) -> None:
    completed, typed = (
        make(name, line, NEW._replace(transformers=release)),
        [flag.name for flag in split_flags(line.split())],
    )
    names = {"pad_to_max_length", "group_by_length", "train_sampling_strategy"}.difference(typed)
    assert [" ".join(flag.words()) for flag in split_flags(completed.words[1:]) if flag.name in names] == added
    assert sum("batches" in note for note in completed.notes) == bool(added)


def test_values_may_have_blanks() -> None:
    assert "translate English to Romanian: " in make("translation", "").words


@pytest.mark.parametrize(
    ("name", "line", "remedy"),
    [
        ("qa", "squad", "qa --name value, or qa FILE.json for all arguments"),
        ("qa", "-bf16 --seed 1", "qa --name value, or qa FILE.json for all arguments"),
        ("qa-no-trainer", "args.json", "qa-no-trainer --name value"),
        ("generation", "-3", "generation --name value"),
    ],
)
def test_a_word_before_the_flags_is_no_value_of_a_default(name: str, line: str, remedy: str) -> None:
    with pytest.raises(Refusal) as caught:
        make(name, line)
    assert caught.value.remedy == remedy


@given(st.lists(st.sampled_from(["--alpha", "--beta=1", "--gamma", "2", "x y", "--", "-3"])), st.sampled_from([*TASKS]))
def test_what_is_unknown_ends_the_line_as_it_was_typed(words: list[str], name: str) -> None:
    completed = complete(TASKS[name], "x.py", ["--zeta", *words], NEW, many=True)
    assert completed.words[len(completed.words) - len(words) - 1 :] == ["--zeta", *words]
    assert completed.notes == complete(TASKS[name], "x.py", [], NEW, many=True).notes


@pytest.mark.parametrize(
    ("arguments", "release", "words"),
    [
        ({"no_cuda": True, "seed": 1}, "5.23.0", "--use_cpu --seed 1"),
        ({"no_cuda": False}, "5.23.0", "--use_cpu False"),
        ({"use_cpu": True, "no_cuda": False}, "5.23.0", "--use_cpu"),
        ({"seed": None}, "5.23.0", "--use_cpu"),
        ({"bf16": True}, "4.31.0", "--no_cuda --bf16"),
        ({"use_cpu": True, "use_ipex": True, "label_names": ["a", "b"]}, "5.23.0", "--use_cpu --label_names a b"),
        ({"use_cpu": True, "weight_decay": -1e-5}, "5.23.0", "--use_cpu --weight_decay=-1e-05"),
        ({"use_cpu": True, "optim_args": {"a": 1}}, "5.23.0", '--use_cpu --optim_args {"a": 1}'),
        ({"use_cpu": True, "ddp_backend": "gloo"}, "5.23.0", "--use_cpu"),
    ],
)
def test_a_file_has_all_arguments(tmp_path: Path, arguments: dict[str, object], release: str, words: str) -> None:
    file = tmp_path / "args.json"
    file.write_text(json.dumps({"output_dir": "/out", **arguments}))
    completed = make("qa", f"{file} --seed 7", NEW._replace(transformers=release))
    expected = f"--output_dir /out {words} --seed 7"
    assert sorted(" ".join(completed.words[1:]).split()) == sorted(expected.split())
    assert completed.arguments["output_dir"] == "/out" and completed.arguments["seed"] == "7"


def test_a_file_without_a_directory_for_results_gets_that_of_its_task(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert text("qa", f"{tmp_path}/a.json") == "--output_dir /workspace/output/qa --use_cpu"


def test_a_token_in_a_file_is_refused(tmp_path: Path) -> None:
    """Everybody on the machine can read a command line."""
    (tmp_path / "a.json").write_text('{"hub_token": "hf_secret"}')
    with pytest.raises(Refusal) as caught:
        make("qa", f"{tmp_path}/a.json")
    assert "hub_token" in caught.value.value and "hf_secret" not in str(caught.value)


def test_a_directory_of_a_data_set_s_name_is_what_is_trained_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imdb").mkdir()
    monkeypatch.chdir(tmp_path)
    assert text("classification", "--dataset_name imdb").endswith("--dataset_name imdb")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {}),
        ("--bf16 --output-dir /out", {"bf16": True, "output_dir": "/out"}),
        ("x --output_dir=/a --output_dir /b", {"output_dir": "/b"}),
        ("--label_names a b --bf16", {"label_names": "a b", "bf16": True}),
    ],
)
def test_arguments_are_read_as_the_trainer_reads_them(words: str, expected: dict[str, object]) -> None:
    assert name_flags(split_flags(words.split())) == expected


def test_of_a_user_s_script_the_first_value_counts(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"output_dir": "/json", "bf16": true}')
    assert guess_arguments(["--output_dir", "/a", "b.txt", "--bf16"]) == {"output_dir": "/a", "bf16": True}
    assert guess_arguments([f"{tmp_path}/a.json"]) == {"output_dir": "/json", "bf16": True}
    assert guess_arguments([f"{tmp_path}/none.json"]) == {}
    assert guess_arguments([f"{tmp_path}/a.json", "--bf16"]) == {"bf16": True}


@given(st.none() | st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_file_is_an_object_or_refused(text: str | None) -> None:
    try:
        assert isinstance(read_argfile("a.json", lambda path: text), list)
    except Refusal as refusal:
        assert refusal.code == 2 and re.match("the file with arguments ", refusal.fact)


@pytest.mark.parametrize(
    ("given", "batch"),
    [
        ({"per_device_train_batch_size": "12"}, 12),
        ({"per_device_train_batch_size": 8, "gradient_accumulation_steps": "4"}, 32),
        ({"per_device_train_batch_size": True}, None),
        ({"gradient_accumulation_steps": "4"}, None),
    ],
)
def test_the_batch_of_one_process_counts_accumulated_steps(given: dict[str, object], batch: int | None) -> None:
    assert read_batch(given) == batch


@pytest.mark.parametrize(("default", "typed"), [("use_cpu", "no_cuda"), ("no_cuda", "use_cpu")])
def test_one_name_for_the_cpu_is_enough(default: str, typed: str) -> None:
    assert choose_defaults([Flag(default, ())], {typed: ""}, find_task("qa"), NEW) == []
    assert choose_defaults([Flag(default, ())], {}, find_task("qa"), NEW) == [Flag(default, ())]
