"""What a script fetches, read from its source."""

from __future__ import annotations

import pytest

from entrypoint.hub.script import read_script
from entrypoint.hub.wanted import Wanted
from tests.support.harness import ROOT

EXAMPLES = ROOT / "tests/data/offline/examples/pytorch"
BERT = {"model_name_or_path": "ours/bert"}
GIVEN = {"dataset_name": "d", "dataset_config": "c", "off": "False"}


def read(name: str, given: dict[str, object]) -> list[Wanted]:
    script = read_script((EXAMPLES / name).read_text(), given)
    assert not script.lines
    return script.wanted


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
def test_question_answering_wants_its_data_model_and_metric(given: dict[str, object], expected: list[Wanted]) -> None:
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
        ("load_metric('accuracy')", [Wanted("metric", "accuracy")]),
        ("json.load('accuracy')", []),
        ("model_class.from_pretrained(args.dataset_name)", [Wanted("weights", "d")]),
        ("ViTMAEForPreTraining.from_pretrained('m')", [Wanted("weights", "m")]),
        ("ViTImageProcessor.from_pretrained('m')", [Wanted("files", "m")]),
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
def test_calls_that_load_something_are_found(source: str, expected: list[Wanted]) -> None:
    script = read_script(source, GIVEN)
    assert (script.wanted, script.lines) == (expected, [])
    assert script.own is ("data_files" in source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("load_dataset(path=args.dataset_name)", [Wanted("dataset", "d")]),
        ("load_dataset(name='c', path='d')", [Wanted("dataset", "d", "c")]),
        ("evaluate.load(path='squad')", [Wanted("metric", "squad")]),
        ("datasets.load_metric(path='squad')", [Wanted("metric", "squad")]),
        ("AutoModel.from_pretrained(pretrained_model_name_or_path='m', revision='r')",
         [Wanted("weights", "m", revision="r")]),
        ("GenerationConfig.from_pretrained(pretrained_model_name='m')", [Wanted("files", "m")]),
        ("nltk.download(info_or_id='wordnet')", [Wanted("nltk", "wordnet")]),
        ("pipeline('fill-mask', model=args.dataset_name)", [Wanted("weights", "d")]),
        ("transformers.pipeline('fill-mask', 'm', tokenizer='t')", [Wanted("weights", "m"), Wanted("files", "t")]),
        ("tokenizer = AutoTokenizer.from_pretrained('t')\nmodel = AutoModel.from_config(config)\n"
         "pipeline('fill-mask', model=model, tokenizer=tokenizer)", [Wanted("files", "t")]),
    ],
)  # fmt: skip
def test_a_name_may_be_that_of_a_keyword(source: str, expected: list[Wanted]) -> None:
    script = read_script(source, GIVEN)
    assert (script.wanted, script.lines) == (expected, [])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from evaluate import load\nload('squad')", [Wanted("metric", "squad")]),
        ("from evaluate import load as find\nfind('squad')", [Wanted("metric", "squad")]),
        ("import evaluate as e\ne.load('squad')", [Wanted("metric", "squad")]),
        ("from json import load\nload('squad')", []),
        ("from nltk import download\ndownload('wordnet')", [Wanted("nltk", "wordnet")]),
        ("def f():\n  from datasets import load_dataset as get\n  get('d')", [Wanted("dataset", "d")]),
        ("import transformers as t\nt.AutoModel.from_pretrained('m')", [Wanted("weights", "m")]),
        ("from transformers.models import bert\nbert.BertTokenizer.from_pretrained('m')", [Wanted("files", "m")]),
        ("from transformers import pipeline as p\np('fill-mask', 'm')", [Wanted("weights", "m")]),
    ],
)
def test_a_function_is_known_by_its_module(source: str, expected: list[Wanted]) -> None:
    script = read_script(source, GIVEN)
    assert (script.wanted, script.lines) == (expected, [])


@pytest.mark.parametrize(
    "source",
    ["torch.hub.load('a/b', 'c')", "from torch import hub; hub.load_state_dict_from_url('u')",
     "from huggingface_hub import snapshot_download as get; get('m')"],
)  # fmt: skip
def test_what_is_not_fetched_is_named_by_its_line(source: str) -> None:
    script = read_script(source, GIVEN)
    assert (script.wanted, script.lines) == ([], [1])


@pytest.mark.parametrize(
    ("source", "names", "lines"),
    [
        ("n = args.dataset_name\nevaluate.load(n)", ["d"], []),
        ("n: str = args.dataset_name\nevaluate.load(n)", ["d"], []),
        ("n = None\nif n is None:\n  n = 'a'\nevaluate.load(n)", ["a"], []),
        ("n = args.none\nn = n or 'a'\nevaluate.load(n)", ["a"], []),
        ("if args.dataset_name:\n  n = 'a'\nelse:\n  n = 'b'\nevaluate.load(n)", ["a"], []),
        ("if args.unknown:\n  n = 'a'\n  evaluate.load(n)\nelse:\n  evaluate.load('b')", ["a", "b"], []),
        ("with x as y:\n  n = 'a'\nevaluate.load(n)", ["a"], []),
        ("for x in y:\n  n = 'a'\n  evaluate.load(n)", ["a"], []),
        ("n = 'a'\ndef f():\n  evaluate.load(n)", ["a"], []),
        ("n = 'a'\ndef f():\n  n = 'b'\nevaluate.load(n)", ["a"], []),
        ("evaluate.load(n)", [], [1]),
        ("evaluate.load(n := 'a')", [], [1]),
        ("n = find()\nevaluate.load(n)", [], [2]),
        ("n, m = 'a', 'b'\nevaluate.load(n)", [], [2]),
        ("n = 'a'\nn += x\nevaluate.load(n)", [], [3]),
        ("n = 'a'\nif args.unknown:\n  n = 'b'\nevaluate.load(n)", [], [4]),
        ("n = 'a'\nfor x in y:\n  evaluate.load(n)\n  n = 'b'", [], [3]),
        ("n = 'a'\nfor n in x:\n  evaluate.load(n)", [], [3]),
        ("n = 'a'\nx = [evaluate.load(n) for n in y]", [], [2]),
        ("try:\n  n = 'a'\nexcept ImportError:\n  pass\nevaluate.load(n)", [], [5]),
        ("n = 'a'\ndef f(n):\n  evaluate.load(n)", [], [3]),
        ("n = 'a'\ndef f():\n  global n\n  n = 'b'\nevaluate.load(n)", [], [5]),
        ("with find() as n:\n  evaluate.load(n)", [], [2]),
        ("n = 'a'\nimport b as n\nevaluate.load(n)", [], [3]),
        ("evaluate.load(args.unknown or args.dataset_name)", [], [1]),
    ],
)
def test_a_name_counts_where_it_is_certain(source: str, names: list[str], lines: list[int]) -> None:
    script = read_script(source, {**GIVEN, "none": None})
    assert ([each.name for each in script.wanted], script.lines) == (names, lines)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("load_dataset('xnli', args.language, split='train')", []),
        ("load_dataset(args.dataset_name, config)", [Wanted("dataset", "d")]),
        ("load_dataset(**options)", []),
        ("AutoModel.from_pretrained(*words)", []),
        ("pipeline('fill-mask')", []),
        ("hf_hub_download('ours/labels', 'labels.json')", []),
        ("if evaluate.load(n):\n  pass", []),
    ],
)
def test_what_is_not_fetched_is_said(source: str, wanted: list[Wanted]) -> None:
    script = read_script(source, GIVEN)
    assert (script.wanted, script.lines) == (wanted, [1])


@pytest.mark.parametrize("name", ["None", "''", "args.none", "args.output_dir"])
def test_what_needs_no_hub_is_silent(name: str) -> None:
    script = read_script(f"AutoTokenizer.from_pretrained({name})", {"none": None, "output_dir": "/workspace/output/qa"})
    assert script == ([], [], False)


def test_what_is_no_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        read_script("def", {})
