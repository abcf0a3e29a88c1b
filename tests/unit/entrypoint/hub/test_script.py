"""What a script fetches, read from its source."""

from __future__ import annotations

import pytest

from entrypoint.hub.script import Wanted, read_script
from tests.support.harness import ROOT

EXAMPLES = ROOT / "tests/data/offline/examples/pytorch"
BERT = {"model_name_or_path": "ours/bert"}
PLACE = {"revision": "main"}


def read(name: str, given: dict[str, object]) -> list[Wanted]:
    return read_script((EXAMPLES / name).read_text(), given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"dataset_name": "squad"}, [
            Wanted("dataset", "squad"), Wanted("weights", "ours/bert", revision="main"), Wanted("metric", "squad"),
        ]),
        ({"dataset_name": "ours/q", "dataset_config_name": "small", "version_2_with_negative": True,
          "cache_dir": "/c", "model_revision": "v2", "tokenizer_name": "ours/words"}, [
            Wanted("dataset", "ours/q", "small", cache="/c"), Wanted("files", "ours/words", None, "v2", "/c"),
            Wanted("weights", "ours/bert", None, "v2", "/c"), Wanted("metric", "squad_v2", cache="/c"),
        ]),
        ({}, [Wanted("weights", "ours/bert", revision="main"), Wanted("metric", "squad")]),
    ],
)  # fmt: skip
def test_question_answering(given: dict[str, object], expected: list[Wanted]) -> None:
    assert read("question-answering/run_qa.py", {**BERT, **given}) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"task_name": "mrpc"}, {("dataset", "nyu-mll/glue", "mrpc"), ("metric", "glue", "mrpc")}),
        ({"dataset_name": "mine"}, {("dataset", "mine", None), ("metric", "accuracy", None)}),
    ],
)
def test_only_the_branch_that_runs_counts(given: dict[str, object], expected: set[tuple[str, ...]]) -> None:
    found = read("text-classification/run_glue.py", {**BERT, **given})
    assert {tuple(each[:3]) for each in found if each.kind != "weights"} == expected


def test_data_of_nltk_are_of_both_formats() -> None:
    found = read("summarization/run_summarization.py", {"model_name_or_path": "ours/bart", "dataset_name": "ours/news"})
    assert [each.name for each in found if each.kind == "nltk"] == ["punkt", "punkt_tab"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("load_dataset(kind, data_files=files)", []),
        ("load_dataset('json', data_files=files)", []),
        ("load_dataset(args.dataset_name, name=args.dataset_config)", [Wanted("dataset", "d", "c")]),
        ("load_dataset('xnli', args.language, split='train')", []),
        ("load_metric('accuracy')", [Wanted("metric", "accuracy")]),
        ("json.load('accuracy')", []),
        ("model_class.from_pretrained(args.dataset_name)", [Wanted("weights", "d")]),
        ("for x in y:\n  with z:\n    AutoTokenizer.from_pretrained('t')", [Wanted("files", "t")]),
        ("def f():\n  return AutoConfig.from_pretrained('t')", [Wanted("files", "t")]),
        ("if unknown:\n  evaluate.load('a')\nelse:\n  evaluate.load('b')",
         [Wanted("metric", "a"), Wanted("metric", "b")]),
        ("if args.dataset_name is None:\n  evaluate.load('a')\nelif args.off:\n  evaluate.load('b')", []),
        ("parser.add_argument('--mine', default='m')\nevaluate.load(args.mine)", [Wanted("metric", "m")]),
        ("parser.add_argument('--no-m', action='store_true')\nif not args.no_m:\n  evaluate.load('a')",
         [Wanted("metric", "a")]),
    ],
)  # fmt: skip
def test_calls(source: str, expected: list[Wanted]) -> None:
    assert read_script(source, {"dataset_name": "d", "dataset_config": "c", "off": "False"}) == expected


def test_what_is_no_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        read_script("def", {})
